import { afterAll, beforeAll, expect, it } from 'vitest';
import { openPhone } from '../../src/simulator/phone/phone.js';
import { planDefaults } from '../../src/simulator/place-call.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { SipPeer } from '../support/bare-sip-peer.js';
import { eventually } from '../support/media-engine.js';
import { addTrunk } from '../support/outbound.js';
import { asSetting, portPairs } from '../support/port-ranges.js';

/** A range of two port pairs: the third call finds none. */
let app: TestApp;
beforeAll(async () => {
  app = await startTestApp({ TRUNKLINE_RTP_PORTS: asSetting(portPairs(2)) }, { t1: 50, t2: 200, t4: 250 });
});
afterAll(() => app.end());

it('when the RTP ports are used up a call is refused with 503, by SIP and by the API, and leaves nothing', async () => {
  const { host, port } = app.sip.addresses[0]!;
  const phone = await openPhone({ host, port, transport: 'udp' });
  try {
    const hangUp = new AbortController();
    const plan = { ...planDefaults, to: '+15550100', durationMs: 60_000, markers: false };
    const running = [phone.call(plan, hangUp.signal), phone.call(plan, hangUp.signal)];
    await eventually(() => app.media.load().ports.used === 2, 'two calls');
    await eventually(() => app.sip.counters().activeLegs === 2, 'two legs');
    const refused = (await phone.call({ ...plan, durationMs: 1000 }, new AbortController().signal)).report();
    expect(refused).toMatchObject({ answered: false, sipStatus: 503, endedBy: 'far side' });
    const { data } = await app.api<{ data: { id: string; status: string }[] }>('GET', '/v1/calls?limit=1');
    expect(data[0]).toMatchObject({ status: 'failed' });
    const bare = await SipPeer.open(port);
    const invite = bare.invite({ user: '+15550100' });
    const answer503 = await bare.next(503);
    expect(answer503.header('retry-after')).toBe('5');
    bare.ackFailure(invite, answer503);
    await bare.close();

    const trunkId = await addTrunk(app, ['sip:127.0.0.1:9']);
    const { data: endpoints } = await app.api<{ data: { id: string }[] }>('GET', '/v1/endpoints');
    const before = await app.api<{ total: number }>('GET', '/v1/calls');
    const asked = { to_number: '+15005550202', from_number: '+15550100', endpoint_id: endpoints[0]!.id };
    const answer = await app.api<{ error: { code: string } }>('POST', '/v1/outbound-calls', asked, 503);
    expect(JSON.stringify(answer)).toContain('SERVICE_UNAVAILABLE');
    expect((await app.api<{ total: number }>('GET', '/v1/calls')).total).toBe(before.total);
    await app.api('DELETE', `/v1/trunks/${trunkId}`);

    hangUp.abort();
    for (const call of await Promise.all(running)) expect(call.report().answered).toBe(true);
    await eventually(() => {
      const { used, quarantined } = app.media.load().ports;
      return used + quarantined === 0;
    }, 'the ports');
    const again = (await phone.call({ ...plan, durationMs: 500 }, new AbortController().signal)).report();
    expect(again).toMatchObject({ answered: true });
  } finally {
    await phone.close();
  }
});
