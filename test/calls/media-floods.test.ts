import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { AgentEvent } from '../../media/agents/agent.js';
import type { AgentLink, MediaEngine, MediaSession } from '../../media/engine.js';
import { LonePhone } from '../support/lone-phone.js';
import { agentTarget, collectEvents, eventually, sessionOptions, startTestEngine } from '../support/media-engine.js';
import { RtpPhone } from '../support/rtp-phone.js';

/** What one call or the main thread does must not be heard in another call. A busy machine may make a gap of its own: tried again. */
const retry = 4;
const longestGapMs = 40;

const signal = () => new AbortController().signal;
const clip = new SharedArrayBuffer(8000);
let engine: MediaEngine;
let agent: ChildProcess;
let agentUrl: string;
let bystander: LonePhone;
/** A call on another media thread: what a busy machine does to both of them is not the flood's. */
let faraway: LonePhone;

beforeAll(async () => {
  agent = spawn(process.execPath, [fileURLToPath(new URL('../fixtures/flooding-agent.mjs', import.meta.url))], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [port] = (await once(agent.stdout!, 'data')) as [Buffer];
  agentUrl = `ws://127.0.0.1:${String(port).trim()}`;
});
afterAll(async () => {
  agent.kill();
  await once(agent, 'exit');
});

beforeEach(async () => {
  engine = await startTestEngine({ threads: 2 });
  // Threads are taken in turns: the next session will be beside the first.
  bystander = await aCall();
  faraway = await aCall();
  expect(engine.load().threads.map((thread) => thread.sessions)).toEqual([1, 1]);
  bystander.begin();
  faraway.begin();
});
afterEach(async () => {
  await bystander.close();
  await faraway.close();
  await engine.close();
});

async function aCall(): Promise<LonePhone> {
  const phone = await LonePhone.open();
  const session = await engine.open(sessionOptions({ offer: phone.sdp }));
  phone.dial(session.localSdp);
  session.attach(null);
  void session.play({ kind: 'clip', clip, repeat: 0 }, signal());
  await eventually(async () => (await phone.figures()).packets > 10, 'the call');
  return phone;
}

async function expectNoGap(leastPackets: number, busyMs = 0): Promise<void> {
  const { packets, missing, worstGapMs, worstLatenessMs } = await bystander.figures();
  expect(packets).toBeGreaterThanOrEqual(leastPackets);
  expect(missing).toBe(0);
  expect(worstGapMs).toBeLessThanOrEqual(longestGapMs + Math.max(worstLatenessMs, busyMs));
}

/** Twice as much as packets came late at a call that has nothing to do with it. */
const busyness = async () => 2 * ((await faraway.figures()).worstGapMs - 20);

const sleepMs = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

it('a main thread that is busy for 200 ms, again and again, makes no gap in the audio', { retry }, async () => {
  for (let round = 0; round < 4; round++) {
    const endMs = performance.now() + 200;
    while (performance.now() < endMs);
    await sleepMs(20);
  }
  await expectNoGap(40);
});

describe('an agent that floods', () => {
  let phone: RtpPhone;
  let session: MediaSession;
  let link: AgentLink;
  let told: AgentEvent[];

  async function flood(path: string): Promise<void> {
    phone = await RtpPhone.open();
    session = await engine.open(sessionOptions({ offer: phone.sdp() }));
    phone.dial(session.localSdp);
    link = await session.prepareAgent(agentTarget(`${agentUrl}${path}`), signal());
    told = [];
    link.onEvent((event) => told.push(event));
    session.attach(link);
    link.start();
  }
  afterEach(() => phone.close());

  it('with twelve minutes at once is bounded, told of, heard in order and emptied at once', { retry }, async () => {
    const before = process.memoryUsage().rss;
    await flood('/minutes');
    const events = collectEvents(session);
    await eventually(() => events.some((event) => event.type === 'cleared'), 'the clear');
    const levels = told.flatMap((event) => (event.type === 'queue' ? [event.level] : []));
    expect(levels).toEqual(['high', 'full', 'normal']);
    const cleared = events.find((event) => event.type === 'cleared');
    if (cleared?.type !== 'cleared') throw new Error('not cleared');
    expect(cleared.heardMs).toBeGreaterThanOrEqual(1000);
    expect(cleared.heardMs).toBeLessThan(1500);
    expect(cleared.droppedMs).toBeGreaterThan(598_000);
    expect(cleared.droppedMs).toBeLessThanOrEqual(600_000);
    const heard = phone.heard.length;
    await phone.until(() => phone.heard.length >= heard + 10, 'more packets');
    expect(phone.heard.slice(heard + 2).every((packet) => packet.payload.every((byte) => byte === 0xff))).toBe(true);
    const spoken = phone.heard.filter((packet) => packet.payload[0] === 0x20).length;
    expect(spoken * 20).toBeGreaterThanOrEqual(cleared.heardMs - 20);
    expect(process.memoryUsage().rss - before).toBeLessThan(80 * 1024 * 1024);
    await expectNoGap(60, await busyness());
  });

  it('with 100,000 crumbs is slowed down, and no other call hears it', { retry }, async () => {
    await flood('/crumbs');
    await phone.until(() => phone.heard.filter((packet) => packet.payload[0] === 0x20).length > 20, 'what it says');
    await sleepMs(1000);
    await session.close();
    await expectNoGap(60, await busyness());
  });

  it('with a message of 50 MB is closed, and no other call hears it', { retry }, async () => {
    await flood('/lump');
    expect(await link.ended).toMatchObject({ by: 'failed' });
    await sleepMs(300);
    await expectNoGap(20, await busyness());
  });
});
