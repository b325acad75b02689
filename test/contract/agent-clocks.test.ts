import { describe, expect, test } from 'vitest';
import type { AgentMessage, Sink } from '../../media/agents/agent.js';
import { agentProtocols } from '../../media/agents/providers/registry.js';
import { agentToPhone, phoneToAgent, type Transcode } from '../../media/audio/codec/transcode.js';
import { tone } from '../../media/audio/dsp/tone.js';
import { Playout } from '../../media/audio/playout/playout.js';
import { PlayoutClock } from '../../media/audio/playout/playout-clock.js';
import { emptyRtpView, parseRtp } from '../../media/rtp/packet.js';
import { RtpSender } from '../../media/rtp/sender.js';
import { SdpNegotiation } from '../../media/sdp.js';
import { ToPhone } from '../../media/thread/session/to-phone.js';
import type { AgentInput, ProviderEncoder, Wire } from '../../src/simulator/providers/provider-protocol.js';
import { providerProtocols } from '../../src/simulator/providers/registry.js';
import { agentTarget } from '../support/agent-rig.js';
import { FakeTime } from '../support/fake-time.js';

const minutes = 2;
const pieceMs = 40;

/** A provider's simulator and our side of its protocol, without a socket between them. */
function conversationWith(provider: string, heard: (bytes: Uint8Array, decode: Transcode) => void) {
  const protocol = agentProtocols.get(provider);
  const dialect = providerProtocols.get(provider);
  if (!protocol || !dialect) throw new Error(`There is no ${provider}.`);
  const target = agentTarget({ protocol: provider, url: protocol.knownUrl ?? 'wss://agent.example.com/call' });
  const conversation = protocol.converse(protocol.parseConfig(protocol.example), target);
  const asked = conversation.prepare?.();
  if (asked) {
    const { url, method, body = '{}' } = asked;
    const names = Object.entries(asked.headers).map(([name, value]) => [name.toLowerCase(), value]);
    const headers = Object.fromEntries(names) as { [name: string]: string };
    const rest = { method, headers, url: new URL(url), body: JSON.parse(body), socketBase: 'wss://agent.example.com' };
    conversation.prepared?.(JSON.stringify(dialect.rest?.(rest)?.body));
  }
  let decode: Transcode | null = null;
  let mouth: ProviderEncoder | null = null;
  /** What the provider says while its socket opens. */
  const early: (string | Uint8Array)[] = [];
  const fromProvider = (message: string | Uint8Array) => {
    if (mouth === null) early.push(message);
    else conversation.receive(message, sink);
  };
  const toProvider = (message: AgentMessage) => {
    if (message !== null) mouth?.message(typeof message === 'string' ? message : Buffer.from(message));
  };
  const nothing = () => {};
  const sink: Sink = {
    ...{ clear: nothing, said: nothing, saidAll: nothing, hangUp: nothing, renew: nothing, mark: nothing },
    ...{ event: nothing, ready: nothing, audioOf: nothing },
    send: toProvider,
    audio: (bytes) => {
      decode ??= agentToPhone(conversation.replyFormat, 'PCMU');
      heard(bytes, decode);
    },
    fail: (failure) => {
      throw failure;
    },
    warn: (code, message) => {
      throw new Error(`${code}: ${message}`);
    },
    garbage: (code, message) => {
      throw new Error(`${code}: ${message}`);
    },
  };
  const wire: Wire = {
    send: (message) => fromProvider(JSON.stringify(message)),
    sendText: fromProvider,
    sendBinary: fromProvider,
    ...{ stopReading: nothing, close: nothing, closeAfter: nothing, die: nothing },
  };
  let speaksHz = 0;
  const ears: AgentInput = {
    begin: (audio) => {
      speaksHz = audio.speaksHz;
    },
    ...{ greet: nothing, hear: nothing, read: nothing },
  };
  const speaker = dialect.open(wire, ears, new URL(conversation.upgrade().url), new Map());
  mouth = speaker;
  for (const message of conversation.opening()) toProvider(message);
  for (const message of early.splice(0)) conversation.receive(message, sink);
  for (const message of conversation.start()) toProvider(message);
  // Some begin when they hear the caller.
  const encode = phoneToAgent('PCMU', conversation.format);
  for (let i = 0; i < 3; i++) toProvider(conversation.audio(encode(new Uint8Array(160).fill(0xff)), i * 20));
  speaker.said('A long story.', 1);
  return { mouth: speaker, speaksHz };
}

describe.each([...agentProtocols.keys()])('the clock of %s is off by 2 percent', (provider) => {
  test.each([
    ['fast', 1.02],
    ['slow', 0.98],
  ])(`%s, over ${minutes} minutes`, (_, pace) => {
    const time = new FakeTime();
    const clock = new PlayoutClock(time);
    const playout = new Playout('PCMU');
    const view = emptyRtpView();
    const sent: { timestamp: number; isSilent: boolean }[] = [];
    const sender = new RtpSender(1, 0, 0, {
      transmit: (packet) => {
        parseRtp(packet, view);
        sent.push({ timestamp: view.timestamp, isSilent: packet.subarray(12).every((byte) => byte === 0xff) });
      },
    });
    const outward = new ToPhone(sender, time.nowMs, { due: (dueMs) => clock.move(entry, dueMs) });
    const sdp = new SdpNegotiation({ address: '192.0.2.1', rtpPort: 10_000, codecs: ['PCMU'] }, '1');
    sdp.answer('v=0\r\no=- 1 1 IN IP4 x\r\ns=-\r\nc=IN IP4 192.0.2.5\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0\r\n');
    outward.agree(sdp.agreed!);
    outward.goLive();
    outward.attach(playout, time.nowMs);
    const entry = clock.add((nowMs) => {
      outward.slot(nowMs);
      return outward.dueMs;
    }, outward.dueMs);

    const { mouth, speaksHz } = conversationWith(provider, (bytes, decode) => {
      const audio = decode(bytes);
      playout.push(audio);
      outward.audioQueued(audio.length / 8, time.nowMs);
    });
    const piece = tone({ frequencyHz: 500, durationMs: pieceMs, sampleRateHz: speaksHz });
    expect(piece.length).toBeGreaterThan(0);
    const pause = new Int16Array(piece.length);
    let mostQueuedMs = 0;
    const startMs = time.nowMs;
    const pieces = (minutes * 60_000 * pace) / pieceMs;
    for (let i = 0; i < pieces; i++) {
      time.advance(Math.max(0, startMs + (i * pieceMs) / pace - time.nowMs));
      mouth.audio(i % 25 === 24 ? pause : piece, 1);
      mostQueuedMs = Math.max(mostQueuedMs, playout.queuedMs);
    }
    expect(mostQueuedMs).toBeLessThan(500);
    expect(sent.every(({ timestamp }, i) => i === 0 || timestamp - sent[i - 1]!.timestamp === 160)).toBe(true);
    expect(sent.length).toBeGreaterThan(minutes * 3000 * 0.98);
    // Pauses are 4 %; a slow clock leaves 2 % more open, and nowhere more than a moment.
    const silent = sent.slice(50).filter(({ isSilent }) => isSilent).length;
    expect(silent / sent.length).toBeLessThan(0.08);
    let run = 0;
    const longest = sent.slice(50).reduce((most, { isSilent }) => {
      run = isSilent ? run + 1 : 0;
      return Math.max(most, run);
    }, 0);
    expect(longest).toBeLessThanOrEqual(6);
  });
});
