/** What a media engine promises, whichever it is: the embedded one, and FreeSWITCH where one runs. */
import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { ulawToLinear } from '../../media/audio/codec/g711.js';
import { readWav } from '../../media/audio/wav.js';
import type { AudioSource, MediaEngine, MediaSession, OpenSession } from '../../media/engine.js';
import { freeSwitchServers, sayWhatIsSkipped } from '../support/external-servers.js';
import { agentTarget, collectEvents, eventually, sessionOptions, startTestEngine } from '../support/media-engine.js';
import { RawAgent } from '../support/raw-agent.js';
import { RtpPhone } from '../support/rtp-phone.js';
import { openTestGateway, type TestGateway } from '../support/sip-gateway.js';
import { probeTone } from '../support/tone-probe.js';

sayWhatIsSkipped();

const engines = [
  { name: 'embedded', servers: null },
  ...(freeSwitchServers ? [{ name: 'FreeSWITCH', servers: freeSwitchServers }] : []),
];

/** One frame of a 1 kHz tone in G.711 μ-law: eight samples, twenty times. */
const wave = [0xff, 0x92, 0x86, 0x92, 0xff, 0x12, 0x06, 0x12];
const toneFrame = Uint8Array.from({ length: 160 }, (_, i) => wave[i % 8]!);

function linear(packets: readonly { payload: Uint8Array }[]): Int16Array {
  return Int16Array.from(
    packets.flatMap(({ payload }) => [...payload]),
    (byte) => ulawToLinear[byte]!,
  );
}

const windowSamples = 1600;

/** Some 200 ms are the tone; on a busy machine others may have gaps. */
function hasTone(samples: Int16Array): boolean {
  for (let from = 0; from + windowSamples <= samples.length; from += 160)
    if (probeTone(samples.subarray(from, from + windowSamples), 1000, 8000).purityDb > 10) return true;
  return false;
}

const heardTone = (phone: RtpPhone) => () => hasTone(linear(phone.heard.slice(-80)));

describe.each(engines)('the media engine: $name', ({ servers }) => {
  let gateway: TestGateway;
  let engine: MediaEngine;
  let agent: RawAgent;
  let folder: string;
  const phones: RtpPhone[] = [];
  const sessions: MediaSession[] = [];

  beforeAll(async () => {
    gateway = await openTestGateway();
    folder = await mkdtemp(path.join(tmpdir(), 'media-'));
    engine = await startTestEngine(
      servers ? { freeSwitch: { servers, invite: (wish) => gateway.gateway.inviteMediaServer(wish) } } : {},
    );
    agent = await RawAgent.open();
  });

  afterEach(async () => {
    await Promise.all(sessions.splice(0).map((session) => session.close()));
    for (const phone of phones.splice(0)) phone.close();
    await eventually(() => engine.load().sessions === 0, 'sessions to end');
    await eventually(() => (engine.load().servers ?? []).every(({ channels }) => channels === 0), 'channels to end');
    await eventually(async () => (await gateway.gateway.serverStats()).live.dialogs === 0, 'dialogs to end');
    expect(engine.load()).toMatchObject({ ports: { used: 0 }, faults: 0 });
  });

  afterAll(async () => {
    await engine.close();
    await agent.close();
    await gateway.gateway.stop(0);
    await rm(folder, { recursive: true, force: true });
  });

  async function phone(): Promise<RtpPhone> {
    const made = await RtpPhone.open();
    phones.push(made);
    return made;
  }

  async function open(change: Partial<OpenSession>): Promise<MediaSession> {
    const session = await engine.open(sessionOptions(change));
    sessions.push(session);
    return session;
  }

  async function caller(): Promise<{ at: RtpPhone; session: MediaSession }> {
    const at = await phone();
    const session = await open({ offer: at.sdp() });
    at.dial(session.localSdp);
    return { at, session };
  }

  it('carries a tone from the phone to the agent and back', async () => {
    const { at, session } = await caller();
    const target = agentTarget(agent.url);
    const link = await session.prepareAgent(target, new AbortController().signal);
    session.attach(link);
    link.start();
    agent.heard.length = 0;
    agent.onAudio = (bytes) => agent.say(bytes);
    await at.talk(100, () => toneFrame);
    agent.onAudio = () => {};
    expect(hasTone(linear(agent.heard.map((payload) => ({ payload }))))).toBe(true);
    await at.until(heardTone(at), 'the tone to come back');
    const { received, sent, codec } = await session.stats();
    expect(codec).toBe('PCMU');
    expect(received.packets).toBeGreaterThanOrEqual(95);
    expect(sent.packets).toBeGreaterThan(20);
    await link.close('over');
  });

  it('offers, and plays to the phone that answers', async () => {
    const at = await phone();
    const session = await open({ role: 'callee' });
    const offer = await session.offer();
    expect(offer).toMatch(/^m=audio \d+ RTP\/AVP [\d ]*\b0\b/m);
    expect(offer).toContain('telephone-event');
    at.dial(offer);
    await session.accept(at.sdp(), { provisional: false });
    session.attach(null);
    const tone: AudioSource = { kind: 'tone', segments: [{ frequenciesHz: [1000], durationMs: 1500 }] };
    const played = session.play(tone, new AbortController().signal);
    await at.talk(40, () => toneFrame);
    await at.until(heardTone(at), 'the tone');
    expect((await played).by).toBe('finished');
  });

  it('offers only the codecs of the policy', async () => {
    const at = await phone();
    const session = await open({ policy: { codecs: ['PCMA'], firstRtpTimeoutMs: 0, rtpTimeoutMs: 0 } });
    expect(await session.offer()).toMatch(/^m=audio \d+ RTP\/AVP 8 101\r$/m);
    await session.accept(at.sdp({ codecs: '8' }), { provisional: false });
    await at.talk(5, () => toneFrame, 8);
    expect((await session.stats()).codec).toBe('PCMA');
  });

  it('hears keys as events, and sends them', async () => {
    const { at, session } = await caller();
    const events = collectEvents(session);
    session.attach(null);
    await at.talk(20, () => toneFrame);
    const start = at.timestamp;
    for (let i = 1; i <= 8; i++) {
      at.timestamp = start;
      const isEnd = i > 5;
      const duration = Math.min(i, 6) * 160;
      at.send(Uint8Array.of(5, (isEnd ? 0x80 : 0) | 10, duration >> 8, duration & 0xff), {
        ...{ payloadType: 101, marker: i === 1, samples: 0 },
      });
      await new Promise((resolve) => setTimeout(resolve, 20)); // real time: the phone's own pace
    }
    at.timestamp = start + 960;
    await at.talk(30, () => toneFrame);
    await eventually(() => events.some((event) => event.type === 'dtmf' && event.digit === '5'), 'the key');
    expect(events.filter((event) => event.type === 'dtmf')).toHaveLength(1);
    await session.sendDtmf('7');
    await at.until(() => at.heard.some((packet) => packet.payloadType === 101 && packet.payload[0] === 7), 'our key');
  });

  it('is put on hold and resumed by the phone', async () => {
    const { at, session } = await caller();
    const events = collectEvents(session);
    session.attach(null);
    await at.talk(10, () => toneFrame);
    const answer = await session.answer(at.sdp({ direction: 'sendonly' }));
    expect(answer).toMatch(/^a=recvonly\r$/m);
    await eventually(() => events.some((event) => event.type === 'held'), 'the hold');
    expect(await session.answer(at.sdp())).toMatch(/^a=sendrecv\r$/m);
    await eventually(() => events.some((event) => event.type === 'resumed'), 'the end of the hold');
    const version = (sdp: string) => Number(/^o=\S+ \S+ (\d+)/m.exec(sdp)?.[1]);
    expect(version(session.localSdp)).toBeGreaterThan(version(answer));
  });

  it('puts the phone on hold by its own offer', async () => {
    const { at, session } = await caller();
    session.attach(null);
    await at.talk(10, () => toneFrame);
    expect(await session.offer('sendonly')).toMatch(/^a=sendonly\r$/m);
    await session.accept(at.sdp({ direction: 'recvonly' }), { provisional: false });
    expect(await session.offer('sendrecv')).toMatch(/^a=sendrecv\r$/m);
    await session.accept(at.sdp(), { provisional: false });
  });

  it('joins two phones', async () => {
    const group = 'a call of two';
    const [one, two] = [await phone(), await phone()];
    const first = await open({ group, offer: one.sdp() });
    const second = await open({ group, offer: two.sdp() });
    one.dial(first.localSdp);
    two.dial(second.localSdp);
    first.attach(null);
    second.attach(null);
    await two.talk(2, () => toneFrame);
    const bridge = first.bridge(second, { relay: 'packets', dtmf: 'pass' });
    await one.talk(60, () => toneFrame);
    await two.until(heardTone(two), 'the tone at the other phone');
    expect((await bridge.stop()).by).toBe('stopped');
  });

  it('records both ways', async () => {
    const { at, session } = await caller();
    session.attach(null);
    const file = path.join(folder, `${randomUUID()}.wav`); // a repeated test finds none there
    const recording = session.record({ path: file });
    await at.talk(150, () => toneFrame);
    expect((await recording.stop()).error).toBe(null);
    const [fromPhone] = readWav(await readFile(file)).channels;
    expect(hasTone(fromPhone!)).toBe(true);
  });

  it('seats phones in a conference', async () => {
    const room = engine.room(2);
    const [one, two] = [await caller(), await caller()];
    const seats = [one, two].map(({ session }) => {
      session.attach(null);
      return room.join(session, { muted: false });
    });
    await two.at.talk(2, () => toneFrame);
    await one.at.talk(60, () => toneFrame);
    await two.at.until(heardTone(two.at), 'the tone at the other seat');
    for (const seat of seats) expect(await seat?.leave()).toBeDefined();
  });

  it('ends a session whose phone never sends', async () => {
    const at = await phone();
    const session = await open({
      offer: at.sdp(),
      policy: { codecs: ['PCMU'], firstRtpTimeoutMs: 800, rtpTimeoutMs: 800 },
    });
    session.attach(null);
    expect(await session.lost).toBe('rtp-timeout');
  });

  it('ends a session whose phone stops sending', async () => {
    const at = await phone();
    const session = await open({
      offer: at.sdp(),
      policy: { codecs: ['PCMU'], firstRtpTimeoutMs: 5000, rtpTimeoutMs: 800 },
    });
    at.dial(session.localSdp);
    session.attach(null);
    await at.talk(10, () => toneFrame);
    expect(await session.lost).toBe('rtp-timeout');
  });

  it('refuses an offer without a codec in common, and without audio', async () => {
    const at = await phone();
    const sdp = at.sdp().replace('RTP/AVP 0 101', 'RTP/AVP 77').replace('rtpmap:0 PCMU', 'rtpmap:77 none');
    await expect(open({ offer: sdp })).rejects.toMatchObject({ code: 'incompatible_media' });
    await expect(open({ offer: at.sdp().replace('m=audio', 'm=video') })).rejects.toMatchObject({
      code: 'incompatible_media',
    });
  });

  it('takes an offer with keys, and answers with ours', async () => {
    const at = await phone();
    const key = 'a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz';
    const session = await open({
      offer: at.sdp({ secure: true, extra: [key] }),
      policy: { codecs: ['PCMU'], srtp: 'allow', firstRtpTimeoutMs: 0, rtpTimeoutMs: 0 },
    });
    expect(session.localSdp).toMatch(/RTP\/SAVP 0/);
    expect(session.localSdp).toMatch(/^a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:/m);
  });

  it('closes once, with the figures of the call', async () => {
    const { at, session } = await caller();
    session.attach(null);
    await at.talk(50, () => toneFrame);
    await eventually(async () => (await session.stats()).received.packets >= 48, 'the last packets');
    const [one, two] = await Promise.all([session.close(), session.close()]);
    expect(one).toEqual(two);
    expect(one.received.packets).toBeGreaterThanOrEqual(48);
    await expect(session.offer()).rejects.toMatchObject({ code: 'closed' });
  });
});
