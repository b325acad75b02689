/** `agent_audio=fork`: FreeSWITCH with mod_audio_fork carries the agent's audio itself. */
import { once } from 'node:events';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { askMediaServers } from '../../src/simulator/external-media.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { freeSwitchServers, freeSwitchSetting, sayWhatIsSkipped } from '../support/external-servers.js';
import { HandPhone } from '../support/joined-call.js';
import { eventually } from '../support/media-engine.js';
import { RawAgent } from '../support/raw-agent.js';
import { probeTone } from '../support/tone-probe.js';

sayWhatIsSkipped();
const told = await askMediaServers(freeSwitchServers ?? []);
const canFork = told.length > 0 && told.every(({ facts }) => facts?.hasAudioFork);
const cannotFork = told.some(({ facts }) => facts !== null && !facts.hasAudioFork);
if (!canFork) console.info('skipped: agent_audio=fork (no FreeSWITCH with mod_audio_fork)');

const forking = freeSwitchSetting
  .split(',')
  .map((each) => `${each}?agent_audio=fork`)
  .join(',');
const ulawTone = Uint8Array.from({ length: 160 }, (_, i) => [0xff, 0x92, 0x86, 0x92, 0xff, 0x12, 0x06, 0x12][i % 8]!);
/** 20 ms of 1 kHz at 8 kHz. */
const linearTone = Buffer.from(
  Int16Array.from({ length: 160 }, (_, i) => Math.round(8000 * Math.sin((i * Math.PI) / 4))).buffer,
);

/** An agent of jambonz's protocol: remembers, and echoes when it should. */
class ForkedAgent {
  readonly texts: Record<string, unknown>[] = [];
  readonly heard: Buffer[] = [];
  socket: WebSocket | null = null;
  readonly #server = new WebSocketServer({ port: 0, host: '127.0.0.1', perMessageDeflate: false });

  async open(): Promise<this> {
    this.#server.on('connection', (socket) => {
      this.socket = socket;
      socket.on('message', (data: Buffer, isBinary) => {
        if (isBinary) this.heard.push(data);
        else this.texts.push(JSON.parse(data.toString()) as Record<string, unknown>);
      });
    });
    if (this.#server.address() === null) await once(this.#server, 'listening');
    return this;
  }

  get url(): string {
    return `ws://127.0.0.1:${(this.#server.address() as { port: number }).port}/agent?a=b`;
  }

  close(): void {
    for (const client of this.#server.clients) client.terminate();
    this.#server.close();
  }
}

function linear(pieces: readonly Buffer[]): Int16Array {
  const bytes = Buffer.concat(pieces);
  return Int16Array.from({ length: bytes.length >> 1 }, (_, i) => bytes.readInt16LE(i * 2));
}

function hasTone(samples: Int16Array): boolean {
  for (let from = 0; from + 1600 <= samples.length; from += 160)
    if (probeTone(samples.subarray(from, from + 1600), 1000, 8000).purityDb > 10) return true;
  return false;
}

describe.skipIf(!canFork)('agent_audio=fork', () => {
  let app: TestApp;
  const closing: (() => unknown)[] = [];
  let nextNumber = 12025559500;

  beforeAll(async () => {
    app = await startTestApp({ TRUNKLINE_MEDIA_ENGINE: forking });
  });
  afterEach(async () => {
    for (const close of closing.splice(0)) await close();
    await eventually(() => app.live.count === 0, 'calls to end', 10_000);
    await eventually(() => (app.media.load().servers ?? []).every(({ channels }) => channels === 0), 'channels to end');
    await eventually(() => app.media.load().sessions === 0, 'sessions to end');
  });
  afterAll(() => app.stop(0));

  async function called(agentUrl: string, config: Record<string, unknown> = { protocol: 'jambonz' }) {
    const number = `+${nextNumber++}`;
    const ids = await app.connectNumber(number, agentUrl, config);
    const caller = await HandPhone.open(app.sip.addresses.find(({ transport }) => transport === 'udp')?.port ?? 0);
    closing.push(() => caller.close());
    return { number, caller, ...ids, invite: () => caller.invite(number) };
  }

  async function forkedAgent(): Promise<ForkedAgent> {
    const agent = await new ForkedAgent().open();
    closing.push(() => agent.close());
    return agent;
  }

  it('carries audio both ways and keys, without a leg to our engine', async () => {
    const agent = await forkedAgent();
    const { caller, number, invite } = await called(agent.url);
    caller.confirm(invite(), await caller.sip.next(200));
    await eventually(() => agent.texts.length === 1, 'the first message');
    expect(agent.texts[0]).toMatchObject({ sampleRate: 8000, to: number, direction: 'inbound' });
    expect(app.media.load().servers?.map(({ channels }) => channels)).toContain(1);
    const speaking = setInterval(() => agent.socket?.send(linearTone), 20);
    await caller.rtp.talk(120, () => ulawTone);
    clearInterval(speaking);
    expect(hasTone(linear(agent.heard))).toBe(true);
    expect(caller.rtp.heard.filter(({ payload }) => new Set(payload).size > 4).length).toBeGreaterThan(20);
    for (let i = 1; i <= 8; i++) {
      const isEnd = i > 5;
      const duration = Math.min(i, 6) * 160;
      caller.rtp.send(Uint8Array.of(5, (isEnd ? 0x80 : 0) | 10, duration >> 8, duration & 0xff), {
        ...{ payloadType: 101, marker: i === 1, samples: 0 },
      });
      await new Promise((resolve) => setTimeout(resolve, 20)); // real time: the phone's own pace
    }
    await caller.rtp.talk(20, () => ulawTone);
    await eventually(() => agent.texts.some(({ dtmf }) => dtmf === '5'), 'the key');
    await caller.hangUp();
    const record = await app.finishedCall(number);
    expect(record).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing', hangup_source: 'caller' });
    expect((record.quality_metrics.received as { packets: number }).packets).toBeGreaterThan(100);
  });

  it('ends the call with the agent', async () => {
    const agent = await forkedAgent();
    const { caller, number, invite } = await called(agent.url);
    caller.confirm(invite(), await caller.sip.next(200));
    await eventually(() => agent.texts.length === 1, 'the first message');
    agent.socket?.close(1000);
    caller.sip.respond(await caller.sip.next('BYE'), 200);
    expect(await app.finishedCall(number)).toMatchObject({ status: 'completed', hangup_source: 'agent' });
  });

  it('holds: the agent does not hear the caller', async () => {
    const agent = await forkedAgent();
    const { caller, number, invite } = await called(agent.url);
    caller.confirm(invite(), await caller.sip.next(200));
    await eventually(() => agent.texts.length === 1, 'the first message');
    expect((await caller.reoffer({ direction: 'sendonly' })).body).toMatch(/^a=recvonly\r$/m);
    expect((await caller.reoffer({})).body).toMatch(/^a=sendrecv\r$/m);
    await caller.rtp.talk(40, () => ulawTone);
    await eventually(() => hasTone(linear(agent.heard)), 'the tone');
    await caller.hangUp();
    const kinds = (await app.finishedCall(number)).events.map(({ event_type }) => event_type);
    expect(kinds).toEqual(expect.arrayContaining(['call.held', 'call.resumed']));
  });

  it('refuses the caller when FreeSWITCH cannot reach the agent', async () => {
    const { caller, number, invite } = await called('ws://127.0.0.1:9/');
    const invited = invite();
    const answer = await caller.sip.next([480, 503], 12_000);
    caller.sip.ackFailure(invited, answer);
    expect(await app.finishedCall(number)).toMatchObject({ hangup_cause: 'agent_unreachable', answered_at: null });
  });

  it('gives other agents the leg to our engine', async () => {
    const agent = await RawAgent.open();
    closing.push(() => agent.close());
    const { caller, number, invite } = await called(agent.url, { protocol: 'raw', encoding: 'ulaw' });
    caller.confirm(invite(), await caller.sip.next(200));
    agent.onAudio = (bytes) => agent.say(bytes);
    await caller.rtp.talk(80, () => ulawTone);
    await caller.rtp.until(() => caller.rtp.heard.some(({ payload }) => payload.includes(0x92)), 'the tone');
    await caller.hangUp();
    expect(await app.finishedCall(number)).toMatchObject({ status: 'completed' });
  });
});

describe.skipIf(!cannotFork)('agent_audio=fork without the module', () => {
  it('ends the start with a sentence', async () => {
    await expect(startTestApp({ TRUNKLINE_MEDIA_ENGINE: forking })).rejects.toThrow(
      /lacks mod_audio_fork, which agent_audio=fork needs/,
    );
  });
});
