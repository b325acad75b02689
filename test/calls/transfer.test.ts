import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { ulawToLinear } from '../../media/audio/codec/g711.js';
import { openSimulatedCarrier, type SimulatedCarrier } from '../../src/simulator/carrier.js';
import { type CallRecord, startTestApp, type TestApp } from '../support/app.js';
import { endJoined, HandPhone, joinTwo } from '../support/joined-call.js';
import { eventually } from '../support/media-engine.js';
import { addTrunk } from '../support/outbound.js';
import { startReceiver } from '../support/receiver.js';
import { type ScriptedAgent, startScriptedAgent } from '../support/scripted-agent.js';
import { probeTone } from '../support/tone-probe.js';
import { webhookApp } from '../support/webhook-app.js';

let app: TestApp;
let carrier: SimulatedCarrier;
const closing: (() => Promise<unknown>)[] = [];
let nextNumber = 12025557001;

beforeAll(async () => {
  app = await startTestApp({}, { t1: 100, t2: 400, t4: 500 });
  carrier = await openSimulatedCarrier({ ringMs: 200, timersMs: { t1: 100 } });
  await addTrunk(app, [carrier.uri]);
});
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
  await allow(null);
});
afterAll(async () => {
  await carrier.close();
  await app.end();
});

const allow = (prefixes: string[] | null) =>
  app.api('PATCH', `/v1/organizations/${app.first?.organizationId}`, { limits: { allowed_prefixes: prefixes } });
const eventsOf = (record: CallRecord, type: string) =>
  record.events.filter((event) => event.event_type === type).map((event) => event.event_data);
const recordOf = (id: string) => app.api<CallRecord>('GET', `/v1/calls/${id}`);

/** A caller by hand, and the agent it talks to over a WebSocket. */
async function talk(): Promise<{ caller: HandPhone; agent: ScriptedAgent; number: string; id: string }> {
  const agent = await startScriptedAgent({});
  closing.push(() => agent.close());
  const number = `+${nextNumber++}`;
  await app.connectNumber(number, agent.url, { protocol: 'raw' });
  return { agent, number, ...(await phone(number)) };
}

async function phone(number: string): Promise<{ caller: HandPhone; id: string }> {
  const caller = await HandPhone.open(app.sip.addresses[0]?.port ?? 0);
  closing.push(() => caller.close());
  const invited = caller.invite(number);
  caller.confirm(invited, await caller.sip.next(200));
  let id = '';
  await eventually(async () => {
    const { data } = await app.api<{ data: { id: string; to_number: string; answered_at: string | null }[] }>(
      'GET',
      '/v1/calls',
    );
    id = data.find((call) => call.to_number === number && call.answered_at !== null)?.id ?? '';
    return id !== '';
  }, 'the answer');
  return { caller, id };
}

/** The caller hears 440 Hz, the tone of the carrier simulator. */
async function hearsCarrier(caller: HandPhone): Promise<void> {
  const latest = () =>
    Int16Array.from(
      caller.rtp.heard.slice(-20).flatMap((packet) => [...packet.payload]),
      (byte) => ulawToLinear[byte] ?? 0,
    );
  await caller.rtp.until(
    () => caller.rtp.heard.length >= 20 && probeTone(latest(), 440).purityDb > 3,
    'the tone of who was called',
  );
}

/** Follows a REFER that has come with NOTIFYs up to this status. */
async function notify(caller: HandPhone, status: number): Promise<void> {
  const lines = ['Event: refer', 'Subscription-State: terminated;reason=noresource'];
  caller.ask('NOTIFY', lines, `SIP/2.0 ${status} X\r\n`, 'message/sipfrag');
  await caller.sip.next(200);
}

describe('a transfer', () => {
  it("by REFER: the outcome is what the far side's NOTIFY says", async () => {
    const { caller, id } = await talk();
    const asked = app.api('POST', `/v1/calls/${id}/transfer`, { to: '+15005550150' });
    const refer = await caller.sip.next('REFER');
    expect(refer.header('refer-to')).toContain('+15005550150');
    caller.sip.respond(refer, 202);
    await notify(caller, 200);
    await asked;
    caller.sip.respond(await caller.sip.next('BYE'), 200);
    await eventually(async () => (await recordOf(id)).status === 'completed', 'the end');
    const record = await recordOf(id);
    expect(record).toMatchObject({ hangup_cause: 'transferred', hangup_source: 'api' });
    expect(eventsOf(record, 'transfer.completed')).toEqual([{ to: '+15005550150', method: 'refer' }]);
  });

  it('whose target does not answer leaves the caller with the agent', async () => {
    const { caller, id, number } = await talk();
    const asked = app.api('POST', `/v1/calls/${id}/transfer`, { to: '+15005550150' }, 409);
    caller.sip.respond(await caller.sip.next('REFER'), 202);
    await notify(caller, 486);
    await asked;
    await caller.hangUp();
    const record = await app.finishedCall(number);
    expect(record).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing' });
    expect(eventsOf(record, 'transfer.failed')).toEqual([
      expect.objectContaining({ reason: 'target_failed', method: 'refer', sip_status: 486 }),
    ]);
  });

  it('that the far side refuses becomes a call of ours, joined with the caller; the agent goes', async () => {
    const { caller, agent, id, number } = await talk();
    const asked = app.api('POST', `/v1/calls/${id}/transfer`, { to: '+15005550299' });
    caller.sip.respond(await caller.sip.next('REFER'), 405);
    await asked;
    await eventually(() => agent.connections() === 0, 'the agent to be gone');
    await hearsCarrier(caller);
    await caller.hangUp();
    const record = await app.finishedCall(number);
    expect(record).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing', hangup_source: 'caller' });
    expect(eventsOf(record, 'transfer.completed')).toEqual([
      { to: '+15005550299', method: 'bridge', refer_status: 405, dialled_call_id: expect.any(String) },
    ]);
    const dialled = await app.finishedCall('+15005550299');
    expect(dialled).toMatchObject({
      ...{ status: 'completed', direction: 'outbound', metadata: { parent_call_id: id } },
    });
    expect(eventsOf(record, 'transfer.completed')[0]?.dialled_call_id).toBe(dialled.id);
  });

  it('ends when the transfer target hangs up', async () => {
    const { caller, id, number } = await talk();
    const asked = app.api('POST', `/v1/calls/${id}/transfer`, { to: '+15005550201' });
    caller.sip.respond(await caller.sip.next('REFER'), 501);
    await asked;
    caller.sip.respond(await caller.sip.next('BYE'), 200);
    expect(await app.finishedCall(number)).toMatchObject({ hangup_cause: 'transferred', hangup_source: 'callee' });
  });

  it('to a busy target leaves the caller with the agent', async () => {
    const { caller, agent, id, number } = await talk();
    const asked = app.api('POST', `/v1/calls/${id}/transfer`, { to: '+15005550486' }, 409);
    caller.sip.respond(await caller.sip.next('REFER'), 403);
    await asked;
    expect(agent.connections()).toBe(1);
    await caller.hangUp();
    expect(eventsOf(await app.finishedCall(number), 'transfer.failed')).toEqual([
      expect.objectContaining({
        ...{ reason: 'target_failed', method: 'bridge', refer_status: 403 },
        dialled_call_id: (await app.finishedCall('+15005550486')).id,
      }),
    ]);
  });

  it('that the far side accepts and fails to do becomes a call of ours', async () => {
    const { caller, agent, id, number } = await talk();
    const asked = app.api('POST', `/v1/calls/${id}/transfer`, { to: '+15005550298' });
    caller.sip.respond(await caller.sip.next('REFER'), 202);
    await notify(caller, 503);
    await asked;
    await eventually(() => agent.connections() === 0, 'the agent to be gone');
    await hearsCarrier(caller);
    await caller.hangUp();
    expect(eventsOf(await app.finishedCall(number), 'transfer.completed')).toEqual([
      expect.objectContaining({ to: '+15005550298', method: 'bridge', notify_status: 503 }),
    ]);
  });

  it('by the caller is forbidden: no call is placed, the record says so, and the call continues', async () => {
    const { caller, agent, number } = await talk();
    caller.ask('REFER', ['Refer-To: <sip:+88213000000@127.0.0.1>']);
    await caller.sip.next(403);
    expect(agent.connections()).toBe(1);
    await caller.hangUp();
    expect(eventsOf(await app.finishedCall(number), 'transfer.failed')).toEqual([
      expect.objectContaining({ source: 'caller', reason: 'not_allowed', to: 'sip:+88213000000@127.0.0.1' }),
    ]);
  });

  it('to a forbidden number is not tried at all, in any spelling', async () => {
    await allow(['+1202']);
    const { caller, id, number } = await talk();
    const spellings = ['+88213000000', 'tel:+88213000000', 'sip:+88213000000@127.0.0.1', 'sip:0088213000000@127.0.0.1'];
    for (const to of spellings) await app.api('POST', `/v1/calls/${id}/transfer`, { to }, 409);
    await caller.hangUp();
    const record = await app.finishedCall(number);
    expect(eventsOf(record, 'transfer.failed').map((event) => event.reason)).toEqual(
      spellings.map(() => 'destination_not_allowed'),
    );
    expect(caller.sip.received.filter((message) => message.method === 'REFER')).toEqual([]);
  });

  it('interrupts the request for the next list of a webhook, and leaves nothing to redirect', async () => {
    const { server, number } = await webhookApp(
      app,
      { '/start': [{ action: 'answer' }, { action: 'pause', seconds: 60 }], '/slow': null },
      {},
    );
    closing.push(() => server.close());
    const { caller, id } = await phone(number);
    await app.api('POST', `/v1/calls/${id}/redirect`, { url: `${server.url}/slow` });
    await eventually(() => server.requests.some(({ path }) => path === '/slow'), 'the request for a list');
    const asked = app.api('POST', `/v1/calls/${id}/transfer`, { to: '+15005550199' });
    caller.sip.respond(await caller.sip.next('REFER'), 405);
    await hearsCarrier(caller);
    await asked;
    const refused = await app.api('POST', `/v1/calls/${id}/redirect`, { url: `${server.url}/elsewhere` }, 409);
    expect(JSON.stringify(refused)).toContain('The call was transferred, so no webhook controls it any more.');
    await caller.hangUp();
    const record = await app.finishedCall(number);
    expect(eventsOf(record, 'transfer.completed')).toEqual([expect.objectContaining({ method: 'bridge' })]);
    expect(server.requests.map(({ path }) => path)).toEqual(['/start', '/slow']);
  });

  it('asked for by a webhook ends its list', async () => {
    const server = await startReceiver((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ actions: [{ action: 'transfer', to: '+15005550201' }, { action: 'hangup' }] }));
    });
    closing.push(() => server.close());
    const number = `+${nextNumber++}`;
    const endpoint = { name: number, type: 'webhook', target: `${server.url}/start` };
    const { id } = await app.api<{ id: string }>('POST', '/v1/endpoints', endpoint);
    await app.api('POST', '/v1/phone-numbers', { number, endpoint_id: id });
    const { caller } = await phone(number);
    caller.sip.respond(await caller.sip.next('REFER'), 405);
    await hearsCarrier(caller);
    caller.sip.respond(await caller.sip.next('BYE'), 200);
    expect(await app.finishedCall(number)).toMatchObject({ hangup_cause: 'transferred', hangup_source: 'callee' });
  });
});

describe('REFER of an agent behind SIP', () => {
  const refer = (agent: HandPhone, to: string) => agent.ask('REFER', [`Refer-To: <${to}>`]);

  it('is forbidden unless the endpoint allows it', async () => {
    const joined = await joinTwo(app);
    refer(joined.agent, 'sip:+12025550150@127.0.0.1');
    await joined.agent.sip.next(403);
    const record = await endJoined(app, joined);
    expect(eventsOf(record, 'transfer.failed')).toEqual([
      expect.objectContaining({ source: 'agent', reason: 'destination_not_allowed' }),
    ]);
  });

  it('to a forbidden destination is refused, to another one passed on, and its outcome is reported', async () => {
    await allow(['+1202']);
    const joined = await joinTwo(app, { config: { allow_refer: true } });
    const { caller, agent, number } = joined;
    refer(agent, 'tel:+88213000000');
    await agent.sip.next(403);
    refer(agent, 'tel:+12025550150');
    await agent.sip.next(202);
    const trying = await agent.sip.next('NOTIFY');
    expect(trying.body).toContain('100');
    agent.sip.respond(trying, 200);
    const passedOn = await caller.sip.next('REFER');
    expect(passedOn.header('refer-to')).toBe('<tel:+12025550150>');
    caller.sip.respond(passedOn, 202);
    await notify(caller, 200);
    const bye = await agent.sip.next(['NOTIFY', 'BYE']);
    agent.sip.respond(bye, 200);
    caller.sip.respond(await caller.sip.next('BYE'), 200);
    if (bye.method === 'NOTIFY') agent.sip.respond(await agent.sip.next('BYE'), 200);
    expect(await app.finishedCall(number)).toMatchObject({ hangup_cause: 'transferred', hangup_source: 'agent' });
    await Promise.all([caller.close(), agent.close()]);
  });

  it('that the caller refuses becomes a call of ours: the agent gets the outcome and BYE', async () => {
    const joined = await joinTwo(app, { config: { allow_refer: true } });
    const { caller, agent, number } = joined;
    refer(agent, 'tel:+15005550299');
    await agent.sip.next(202);
    agent.sip.respond(await agent.sip.next('NOTIFY'), 200);
    caller.sip.respond(await caller.sip.next('REFER'), 405);
    for (let told = await agent.sip.next(['NOTIFY', 'BYE']); ; told = await agent.sip.next(['NOTIFY', 'BYE'])) {
      agent.sip.respond(told, 200);
      if (told.method === 'BYE') break;
    }
    await hearsCarrier(caller);
    await caller.hangUp();
    expect(eventsOf(await app.finishedCall(number), 'transfer.completed')).toEqual([
      { to: 'tel:+15005550299', method: 'bridge', refer_status: 405, dialled_call_id: expect.any(String) },
    ]);
    await Promise.all([caller.close(), agent.close()]);
  });

  it("ends the agent's hold of the caller, and keys by INFO are in the record", async () => {
    const joined = await joinTwo(app, { config: { allow_refer: true } });
    const { caller, agent, number } = joined;
    const held = caller.takeReoffer({ direction: 'recvonly' });
    await agent.reoffer({ direction: 'sendonly' });
    expect((await held).body).toContain('a=sendonly');
    refer(agent, 'tel:+15005550299');
    await agent.sip.next(202);
    agent.sip.respond(await agent.sip.next('NOTIFY'), 200);
    caller.sip.respond(await caller.sip.next('REFER'), 405);
    const resumed = await caller.takeReoffer({});
    expect(resumed.body).not.toMatch(/a=(sendonly|recvonly|inactive)/);
    for (let told = await agent.sip.next(['NOTIFY', 'BYE']); ; told = await agent.sip.next(['NOTIFY', 'BYE'])) {
      agent.sip.respond(told, 200);
      if (told.method === 'BYE') break;
    }
    await hearsCarrier(caller);
    caller.ask('INFO', [], 'Signal=7\r\nDuration=160\r\n', 'application/dtmf-relay');
    await caller.sip.next(200);
    await caller.hangUp();
    const record = await app.finishedCall(number);
    expect(eventsOf(record, 'dtmf.received')).toEqual([{ digit: '7', method: 'info' }]);
    expect(eventsOf(record, 'call.held')).toEqual([{ by: 'agent' }]);
    await Promise.all([caller.close(), agent.close()]);
  });

  it('with Replaces: the colleague gives up the consultation call for the caller', async () => {
    const joined = await joinTwo(app, { config: { allow_refer: true } });
    const { caller, agent, number } = joined;
    const colleague = await HandPhone.open(app.sip.addresses[0]?.port ?? 0);
    refer(agent, `sip:colleague@127.0.0.1:${colleague.sip.port}?Replaces=abc%40host%3Bto-tag%3D1%3Bfrom-tag%3D2`);
    await agent.sip.next(202);
    agent.sip.respond(await agent.sip.next('NOTIFY'), 200);
    const invite = await colleague.sip.next('INVITE');
    expect(invite.header('replaces')).toBe('abc@host;to-tag=1;from-tag=2');
    colleague.answer(invite);
    await colleague.sip.next('ACK');
    for (let told = await agent.sip.next(['NOTIFY', 'BYE']); ; told = await agent.sip.next(['NOTIFY', 'BYE'])) {
      agent.sip.respond(told, 200);
      if (told.method === 'BYE') break;
    }
    await colleague.rtp.talk(10, (i) => new Uint8Array(160).fill(i + 1));
    await caller.rtp.until(() => caller.rtp.heard.some((packet) => packet.payload[0] === 10), 'the colleague');
    expect(caller.sip.received.filter((message) => message.method === 'REFER')).toEqual([]);
    await colleague.hangUp();
    caller.sip.respond(await caller.sip.next('BYE'), 200);
    const record = await app.finishedCall(number);
    expect(eventsOf(record, 'transfer.completed')).toEqual([expect.objectContaining({ method: 'bridge' })]);
    expect(record).toMatchObject({ hangup_cause: 'transferred', hangup_source: 'callee' });
    await Promise.all([caller.close(), agent.close(), colleague.close()]);
  });
});
