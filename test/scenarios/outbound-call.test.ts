import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { startTestApp, type TestApp } from '../support/app.js';
import { addTrunk, placeOutbound } from '../support/outbound.js';
import { type ScriptedAgent, startScriptedAgent } from '../support/scripted-agent.js';
import { type SippCarrier, startSippCarrier } from '../support/sipp-carrier.js';

let app: TestApp;
let agent: ScriptedAgent;
let ids: { endpointId: string; numberId: string };
let nextNumber = 12025558001;
const carriers: SippCarrier[] = [];
const trunks: string[] = [];

beforeAll(async () => {
  app = await startTestApp({ TRUNKLINE_RTP_FIRST_TIMEOUT_SEC: '0' }, { t1: 100, t2: 400, t4: 500 });
  agent = await startScriptedAgent({});
  ids = await app.connectNumber('+12025550199', agent.url, { protocol: 'raw' });
});
afterEach(async () => {
  for (const id of trunks.splice(0)) await app.api('DELETE', `/v1/trunks/${id}`);
  for (const carrier of carriers.splice(0)) await carrier.close();
});
afterAll(async () => {
  await agent.close();
  await app.end();
});

async function sipp(scenario: string, replace: Record<string, string> = {}, calls = 1): Promise<SippCarrier> {
  const carrier = await startSippCarrier({ scenario, replace, calls });
  carriers.push(carrier);
  return carrier;
}

async function call(uris: string[], change: Record<string, unknown> = {}, wish: { ringTimeoutMs?: number } = {}) {
  trunks.push(await addTrunk(app, uris, change));
  const to = `+${nextNumber++}`;
  return { to, id: placeOutbound(app, { to, ...ids, ...wish }) };
}

const typesOf = async (id: string) =>
  (await app.api<{ events: { event_type: string }[] }>('GET', `/v1/calls/${id}`)).events.map((e) => e.event_type);
const reached = (id: string, type: string) => expect.poll(() => typesOf(id), { timeout: 10_000 }).toContain(type);

describe('a carrier of sipp', () => {
  it.each([
    ['486', 'busy'],
    ['600', 'busy'],
    ['480', 'no_answer'],
    ['404', 'failed'],
  ])('rings, then %s: %s', async (code, status) => {
    const carrier = await sipp('uas-rings-then-final', { STATUS: code });
    const { to } = await call([carrier.uri]);
    expect(await app.finishedCall(to)).toMatchObject({ status, answered_at: null });
    await carrier.done;
  });

  it('says 503: the next one answers, and hears the BYE', async () => {
    const dead = await sipp('uas-final', { STATUS: '503' });
    const good = await sipp('uas-answer');
    const { to, id } = await call([dead.uri, good.uri]);
    await reached(id, 'call.answered');
    await dead.done;
    await app.api('POST', `/v1/calls/${id}/hangup`);
    await good.done;
    expect(await app.finishedCall(to)).toMatchObject({ status: 'completed', hangup_source: 'api' });
  });

  it('is busy: nobody else is asked', async () => {
    const busy = await sipp('uas-final', { STATUS: '486' });
    const other = await sipp('uas-answer');
    const { to } = await call([busy.uri, other.uri]);
    expect(await app.finishedCall(to)).toMatchObject({ status: 'busy' });
    await busy.done;
  });

  it('asks for credentials', async () => {
    const carrier = await sipp('uas-digest');
    const { to, id } = await call([carrier.uri], { username: 'carrier-user', password: 'carrier-pass' });
    await reached(id, 'call.answered');
    await app.api('POST', `/v1/calls/${id}/hangup`);
    await carrier.done;
    expect(await app.finishedCall(to)).toMatchObject({ status: 'completed' });
  });

  it('does not know our credentials: refused, and no loop', async () => {
    const carrier = await sipp('uas-digest');
    const { to } = await call([carrier.uri], { username: 'carrier-user', password: 'wrong' });
    expect(await app.finishedCall(to)).toMatchObject({ status: 'failed', hangup_cause: 'call_rejected' });
    await carrier.done;
  });
});

describe('a carrier of sipp that does what the RFC allows', () => {
  it('forks, and both phones answer: the first has the call, the second is hung up', async () => {
    const carrier = await sipp('uas-forked');
    const { to, id } = await call([carrier.uri]);
    await reached(id, 'call.answered');
    await app.api('POST', `/v1/calls/${id}/hangup`);
    await carrier.done;
    expect(await app.finishedCall(to)).toMatchObject({ status: 'completed', hangup_source: 'api' });
  });

  it('answers while our CANCEL is on its way: ACK and BYE, and nobody answered', async () => {
    const carrier = await sipp('uas-crossing');
    const { to, id } = await call([carrier.uri]);
    await reached(id, 'call.ringing');
    await app.api('POST', `/v1/calls/${id}/hangup`);
    await carrier.done;
    expect(await app.finishedCall(to)).toMatchObject({ status: 'no_answer', answered_at: null });
  });

  it('says 183 a hundred times: one event of early media, and its last word counts', async () => {
    const carrier = await sipp('uas-183-flood');
    const { to, id } = await call([carrier.uri]);
    expect(await app.finishedCall(to)).toMatchObject({ status: 'busy', answered_at: null });
    await carrier.done;
    expect((await typesOf(id)).filter((type) => type === 'call.early_media')).toHaveLength(1);
  });

  it.each([
    ['a name that nobody has', 'sip:no-such-carrier.invalid', 'no address for no-such-carrier.invalid'],
    ['a port where nobody listens', 'sip:127.0.0.1:1;transport=tcp', 'connection refused'],
  ])('%s: failed, and the record says why', async (_what, uri, why) => {
    const { to } = await call([uri]);
    const record = await app.finishedCall(to);
    expect(record).toMatchObject({ status: 'failed', hangup_cause: 'carrier_unreachable' });
    expect(JSON.stringify(record.events)).toContain(why);
  });
});

it('every final status from 300 to 699, once: the record says it, and nothing is left', async () => {
  const statuses = Array.from({ length: 400 }, (_, i) => 300 + i);
  const organizationId = app.first?.organizationId ?? '';
  const wanted = (status: number) =>
    [486, 600, 603].includes(status) ? 'busy' : [408, 480, 487].includes(status) ? 'no_answer' : 'failed';
  const ids400 = new Map<number, string>();
  for (let at = 0; at < statuses.length; at += 50) {
    const batch = statuses.slice(at, at + 50);
    for (const status of batch) {
      const to = `+15005550${status}`;
      ids400.set(status, placeOutbound(app, { to, ...ids, mode: 'test', ringTimeoutMs: 20_000 }));
    }
    const running = () => app.live.count;
    await expect.poll(running, { timeout: 20_000 }).toBe(0);
  }
  const scope = { organizationId, mode: 'test' as const };
  const found = statuses.map((status) => [status, app.store.records.get(scope, ids400.get(status) ?? '')?.status]);
  expect(found).toEqual(statuses.map((status) => [status, wanted(status)]));
}, 120_000);
