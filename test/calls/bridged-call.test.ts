import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type CalleeHeard, openSimulatedCarrier, type SimulatedCarrier } from '../../src/simulator/carrier.js';
import { placeCall } from '../../src/simulator/place-call.js';
import { type CallRecord, startTestApp, type TestApp } from '../support/app.js';
import { addTrunk, placeOutbound } from '../support/outbound.js';
import { millisecondsOfTone } from '../support/tone-probe.js';

let app: TestApp;
let agent: SimulatedCarrier;
const heard: CalleeHeard[] = [];
let nextNumber = 12025559001;

beforeAll(async () => {
  app = await startTestApp({}, { t1: 100, t2: 400, t4: 500 });
  agent = await openSimulatedCarrier({ ringMs: 100, timersMs: { t1: 100 }, onHeard: (what) => heard.push(what) });
});
afterAll(async () => {
  await agent.close();
  await app.end();
});

/** A number whose endpoint is the SIP agent under this user. */
async function numberFor(user: string, config: Record<string, unknown> = {}): Promise<string> {
  const number = `+${nextNumber++}`;
  await app.connectNumber(number, agent.uri.replace('sip:', `sip:${user}@`), config);
  return number;
}

function call(to: string, codecs: ('PCMU' | 'PCMA')[] = ['PCMU'], more: { digits?: string; durationMs?: number } = {}) {
  const { host, port } = app.sip.addresses[0] as { host: string; port: number };
  return placeCall({
    ...{ target: { host, port, transport: 'udp' as const }, to, codecs, markers: false, durationMs: 2500, ...more },
    speech: { kind: 'tone', frequencyHz: 1000 },
  });
}

const types = (record: CallRecord) => record.events.map((event) => event.event_type);

/** What the SIP agent under this user heard last. */
function heardBy(user: string): CalleeHeard {
  const found = heard.findLast(({ to }) => to === user);
  if (!found) throw new Error(`${user} has heard nothing yet.`);
  return found;
}

// Calls mostly wait, and each has a number of its own.
describe.concurrent('an agent behind SIP', () => {
  it.each(['PCMU', 'PCMA'] as const)('hears the caller and is heard (%s)', async (codec) => {
    const user = codec === 'PCMU' ? '+12025550001' : '+12025550003';
    const number = await numberFor(user);
    const caller = await call(number, [codec]);
    const record = await app.finishedCall(number);
    expect(record).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing', hangup_source: 'caller' });
    expect(record.quality_metrics.codec).toBe(codec);
    expect(types(record)).toEqual(expect.arrayContaining(['agent.connecting', 'agent.connected', 'call.answered']));
    expect(types(record).indexOf('agent.connected')).toBeLessThan(types(record).indexOf('call.answered'));
    expect(millisecondsOfTone(caller.samples(), 440)).toBeGreaterThan(500);
    const samples = await vi.waitFor(() => heardBy(user).samples);
    expect(millisecondsOfTone(samples, 1000)).toBeGreaterThan(500);
  });

  it('gets the keys that the caller presses', async () => {
    const number = await numberFor('+12025550004');
    await call(number, ['PCMU'], { digits: '159#', durationMs: 3500 });
    await app.finishedCall(number);
    await vi.waitFor(() => expect(heardBy('+12025550004').digits).toBe('159#'));
  });

  it('hangs up: so do we', async () => {
    const number = await numberFor('+15005550201');
    await call(number, ['PCMU'], { durationMs: 20_000 });
    const record = await app.finishedCall(number);
    expect(record).toMatchObject({ status: 'completed', hangup_cause: 'agent_hangup', hangup_source: 'agent' });
    expect(record.duration).toBeLessThanOrEqual(2);
  });

  it.each(['486', '503', '404'])('refuses with %s: the caller is refused before any answer', async (code) => {
    const number = await numberFor(`+15005550${code}`);
    const report = (await call(number)).report();
    expect(JSON.stringify(report)).toContain('480');
    const record = await app.finishedCall(number);
    expect(record).toMatchObject({ status: 'failed', hangup_cause: 'agent_unreachable', answered_at: null });
    expect(record.events.find((event) => event.event_type === 'agent.failed')?.event_data.sip_status).toBe(
      Number(code),
    );
  });

  it.each([
    ['+15005550486', 'busy'],
    ['+15005550480', 'no_answer'],
    ['+15005550603', 'refused'],
    ['+15005550404', 'refused'],
    ['+15005550503', 'refused'],
    ['+15005550488', 'refused'],
  ])('that answers %s gives way to the fallback endpoint (%s)', async (user, reason) => {
    const number = `+${nextNumber++}`;
    const endpoint = { name: number, type: 'agent', provider_config: {} };
    const target = (called: string) => agent.uri.replace('sip:', `sip:${called}@`);
    const spare = await app.api<{ id: string }>('POST', '/v1/endpoints', {
      ...endpoint,
      target: target('+15005550201'),
    });
    const first = await app.api<{ id: string }>('POST', '/v1/endpoints', {
      ...{ ...endpoint, target: target(user), fallback_endpoint_id: spare.id },
    });
    await app.api('POST', '/v1/phone-numbers', { number, endpoint_id: first.id });
    await call(number, ['PCMU'], { durationMs: 10_000 });
    const record = await app.finishedCall(number);
    expect(record).toMatchObject({ status: 'completed', hangup_cause: 'agent_hangup' });
    const failed = record.events.find((event) => event.event_type === 'agent.failed')?.event_data;
    expect(failed).toMatchObject({ reason, sip_status: Number(user.slice(-3)) });
    expect(types(record)).toContain('agent.failover');
  });

  it('talks to a callee of an outbound call', async () => {
    const trunk = await addTrunk(app, [agent.uri]);
    const number = `+${nextNumber++}`;
    const ids = await app.connectNumber(number, agent.uri.replace('sip:', 'sip:+12025550002@'));
    placeOutbound(app, { ...ids, to: '+15005550202' });
    const record = await app.finishedCall('+15005550202');
    expect(record).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing', hangup_source: 'callee' });
    await app.api('DELETE', `/v1/trunks/${trunk}`);
  });
});
