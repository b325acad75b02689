/** The moment of the answer is that of the 200: what carriers bill from. The ACK neither moves it nor is waited for. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type CallRecord, startTestApp, type TestApp } from '../support/app.js';
import { HandPhone, numberOfAgent } from '../support/joined-call.js';
import { eventually } from '../support/media-engine.js';
import { addTrunk, placeOutbound } from '../support/outbound.js';
import { type ScriptedAgent, startScriptedAgent } from '../support/scripted-agent.js';
import { toneFrame } from '../support/tone-caller.js';
import { probeTone } from '../support/tone-probe.js';

let app: TestApp;
let nextNumber = 12025554001;
const closing: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  app = await startTestApp({}, { t1: 100, t2: 400, t4: 500 });
});
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});
afterAll(() => app.end());

/** An agent that keeps all that it hears, 16 bit at 8,000 Hz. */
async function listener(): Promise<{ agent: ScriptedAgent; heard: () => Int16Array }> {
  const frames: Buffer[] = [];
  const agent = await startScriptedAgent({ onBinary: (bytes) => frames.push(bytes) });
  closing.push(() => agent.close());
  const heard = () => {
    const all = Buffer.concat(frames);
    return new Int16Array(all.buffer.slice(all.byteOffset, all.byteOffset + (all.length & ~1)));
  };
  return { agent, heard };
}

async function numberOfListener() {
  const { agent, heard } = await listener();
  const number = `+${nextNumber++}`;
  const { endpointId, numberId } = await app.connectNumber(number, agent.url, { protocol: 'raw' });
  return { number, endpointId, numberId, heard };
}

async function newPhone(): Promise<HandPhone> {
  const phone = await HandPhone.open(app.sip.addresses[0]?.port ?? 0);
  closing.push(() => phone.close());
  return phone;
}

/** Milliseconds by which `answered_at` is after this moment of the wall clock. */
const awayFrom = (record: CallRecord, atMs: number) => Date.parse(record.answered_at ?? '') - atMs;
/** The 200 is read on the thread of the test, which may be late on a busy machine, but never early; the ACK comes 300 ms later at the least. */
const expectSentBefore = (record: CallRecord, readMs: number) => {
  expect(awayFrom(record, readMs)).toBeLessThanOrEqual(2);
  expect(awayFrom(record, readMs)).toBeGreaterThan(-200);
};
const has = (heard: () => Int16Array, hz: number) => {
  const latest = heard().slice(-1600);
  return latest.length === 1600 && probeTone(latest, hz).purityDb > 10;
};

describe('an inbound call whose first ACK is lost', () => {
  it('is answered when its 200 leaves, and the agent hears the caller before the ACK', async () => {
    const { number, heard } = await numberOfListener();
    const caller = await newPhone();
    const invite = caller.invite(number);
    const answer = await caller.sip.next(200);
    const answeredMs = Date.now();
    caller.rtp.dial(answer.body);
    const frame = toneFrame(1100);
    await caller.rtp.talk(30, () => frame);
    await eventually(() => has(heard, 1100), 'what the caller says before the ACK');
    const atAck = await callTo(number);
    caller.confirm(invite, answer);
    await caller.hangUp();
    const record = await app.finishedCall(number);
    expect(atAck.answered_at).toBe(record.answered_at);
    expectSentBefore(record, answeredMs);
    expect(record.latency_ms).toBeLessThan(500);
    const spanMs = Date.parse(record.completed_at ?? '') - Date.parse(record.answered_at ?? '');
    expect(spanMs).toBeGreaterThanOrEqual(590);
    expect(record).toMatchObject({ status: 'completed', duration: 1, hangup_cause: 'normal_clearing' });
  });

  it('and whose every ACK is lost has failed, and lasted from its 200 to our BYE', async () => {
    const { number } = await numberOfListener();
    const caller = await newPhone();
    caller.invite(number);
    await caller.sip.next(200);
    const answeredMs = Date.now();
    const bye = await caller.sip.next('BYE', 12_000);
    const lastedSec = (Date.now() - answeredMs) / 1000;
    caller.sip.respond(bye, 200);
    const record = await app.finishedCall(number);
    expect(record).toMatchObject({ status: 'failed', hangup_cause: 'no_ack' });
    expectSentBefore(record, answeredMs);
    expect(Math.abs(record.duration - lastedSec)).toBeLessThanOrEqual(0.6);
    expect(record.events.map((event) => event.event_type)).toContain('call.answered');
  }, 20_000);

  it('whose offer comes with the ACK is answered all the same when the 200 leaves', async () => {
    const { number } = await numberOfListener();
    const caller = await newPhone();
    const invite = caller.sip.invite({ user: number, sdp: null });
    const answer = await caller.sip.next(200);
    const answeredMs = Date.now();
    await eventually(async () => (await callTo(number)).answered_at !== null, 'the answer');
    caller.sip.request('ACK', invite, [], caller.rtp.sdp(), answer);
    caller.dialog = { invite, answer, contact: '' };
    await eventually(
      async () => (await callTo(number)).events.some((event) => event.event_type === 'call.answered'),
      'the event of the answer',
    );
    await caller.hangUp();
    const record = await app.finishedCall(number);
    expectSentBefore(record, answeredMs);
    expect(record.duration).toBeGreaterThanOrEqual(1);
  });

  it('to an agent behind SIP hears it, and is heard, before the ACK', async () => {
    const [caller, agent] = [await newPhone(), await newPhone()];
    const number = await numberOfAgent(app, agent);
    const invite = caller.invite(number);
    agent.answer(await agent.sip.next('INVITE'));
    const answer = await caller.sip.next(200);
    const answeredMs = Date.now();
    caller.rtp.dial(answer.body);
    const frame = toneFrame(1100);
    await Promise.all([caller.rtp.talk(20, () => frame), agent.rtp.talk(20, () => frame)]);
    await caller.rtp.until(() => caller.rtp.heard.length >= 10, 'the agent');
    await agent.rtp.until(() => agent.rtp.heard.length >= 10, 'the caller');
    caller.confirm(invite, answer);
    await caller.hangUp();
    agent.sip.respond(await agent.sip.next('BYE'), 200);
    expectSentBefore(await app.finishedCall(number), answeredMs);
  });
});

describe('a call that we place', () => {
  it('is answered when its 200 arrives, however long the agent takes to be ready', async () => {
    const slow = await startScriptedAgent({ lateMs: 700 });
    closing.push(() => slow.close());
    const { endpointId, numberId } = await app.connectNumber(`+${nextNumber++}`, slow.url, { protocol: 'raw' });
    const callee = await newPhone();
    await trunkTo(callee);
    const to = `+${nextNumber++}`;
    placeOutbound(app, { to, numberId, endpointId });
    const invite = await callee.sip.next('INVITE');
    callee.answer(invite);
    const answeredMs = Date.now();
    await eventually(async () => (await callTo(to)).answered_at !== null, 'the answer', 600);
    await eventually(
      async () => (await callTo(to)).events.some((event) => event.event_type === 'call.answered'),
      'agent',
    );
    callee.ask('BYE');
    const record = await app.finishedCall(to);
    expect(awayFrom(record, answeredMs)).toBeGreaterThanOrEqual(-2);
    expect(awayFrom(record, answeredMs)).toBeLessThan(200);
    expect(record.latency_ms).toBeGreaterThanOrEqual(700);
    expect(record.duration).toBeGreaterThanOrEqual(1);
  });
});

async function callTo(number: string): Promise<CallRecord> {
  const { data } = await app.api<{ data: { id: string; to_number: string }[] }>('GET', '/v1/calls?limit=100');
  const id = data.find((call) => call.to_number === number)?.id;
  return app.api<CallRecord>('GET', `/v1/calls/${id}`);
}

describe('a call that is hung up at once', () => {
  const rates = [
    { direction: 'inbound', prefix: '', rate_cents_per_minute: 6, initial_increment_s: 30, increment_s: 6 },
    { direction: 'outbound', prefix: '', rate_cents_per_minute: 6, initial_increment_s: 30, increment_s: 6 },
  ];
  const setRates = (to: object[]) =>
    app.api('PUT', `/v1/organizations/${app.first?.organizationId}/rates`, { rates: to });
  beforeAll(() => setRates(rates));
  afterAll(() => setRates([]));

  it('was answered: it lasted a second, and costs the first increment', async () => {
    const { number } = await numberOfListener();
    const caller = await newPhone();
    const invite = caller.invite(number);
    caller.confirm(invite, await caller.sip.next(200));
    await caller.hangUp();
    expect(await app.finishedCall(number)).toMatchObject({ status: 'completed', duration: 1, cost: 3 });
  });

  it('by the callee costs as much', async () => {
    const { numberId, endpointId } = await numberOfListener();
    const callee = await newPhone();
    await trunkTo(callee);
    const to = `+${nextNumber++}`;
    await app.api('POST', '/v1/outbound-calls', {
      to_number: to,
      from_number: await numberAt(numberId),
      endpoint_id: endpointId,
    });
    callee.answer(await callee.sip.next('INVITE'));
    await callee.sip.next('ACK');
    callee.ask('BYE');
    expect(await app.finishedCall(to)).toMatchObject({ duration: 1, cost: 3 });
  });

  it('before its answer lasted no time and costs nothing', async () => {
    const { numberId, endpointId } = await numberOfListener();
    const callee = await newPhone();
    await trunkTo(callee);
    const to = `+${nextNumber++}`;
    await app.api('POST', '/v1/outbound-calls', {
      to_number: to,
      from_number: await numberAt(numberId),
      endpoint_id: endpointId,
    });
    const invite = await callee.sip.next('INVITE');
    callee.sip.respond(invite, 486);
    expect(await app.finishedCall(to)).toMatchObject({ status: 'busy', duration: 0, cost: 0, answered_at: null });
  });
});

/** The only way out until the test is over. */
async function trunkTo(callee: HandPhone): Promise<void> {
  const id = await addTrunk(app, [`sip:127.0.0.1:${callee.sip.port}`]);
  closing.push(() => app.api('DELETE', `/v1/trunks/${id}`));
}

async function numberAt(id: string): Promise<string> {
  return (await app.api<{ number: string }>('GET', `/v1/phone-numbers/${id}`)).number;
}
