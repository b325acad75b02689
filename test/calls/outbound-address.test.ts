/** Calls to registered phones and SIP addresses that an application asks for by REST: no trunk carries them. */
import twilio from 'twilio';
import { describe, expect, test } from 'vitest';
import { callIdOf } from '../../src/api/twilio/resources.js';
import type { CallRecord, TestApp } from '../support/app.js';
import { HandPhone } from '../support/joined-call.js';
import { soon, webhookApp } from '../support/webhook-app.js';
import { webhookScene } from '../support/webhook-scene.js';

let desk: HandPhone;
let elsewhere: HandPhone;

const scene = webhookScene({}, async (app) => {
  for (const username of ['desk1', 'desk2'])
    await app.api('POST', '/v1/trunks', {
      ...{ name: username, direction: 'inbound', username, password: `secret-of-${username}` },
    });
  const port = app.sip.addresses[0]?.port ?? 0;
  desk = await HandPhone.open(port);
  elsewhere = await HandPhone.open(port);
  await desk.register({ username: 'desk1', password: 'secret-of-desk1' });
  return async () => {
    await desk.close();
    await elsewhere.close();
  };
});

const twiml = '<Response><Pause length="1"/><Hangup/></Response>';

/** An application with a number, and Twilio's own client for our server. */
async function application(answers = {}) {
  const { app } = scene;
  const mine = await scene.application({ '/start': twiml, ...answers });
  const client = twilio(`AC${app.first?.organizationId.replaceAll('-', '')}`, app.key);
  client.api.baseUrl = app.httpUrl;
  return { mine, client };
}

async function recordOf(app: TestApp, sid: string): Promise<CallRecord> {
  let record: CallRecord | undefined;
  await soon(async () => {
    record = await app.api<CallRecord>('GET', `/v1/calls/${callIdOf(sid)}`);
    expect(record.completed_at).not.toBeNull();
  }, 10_000);
  return record as CallRecord;
}

/** Answers what rings at the phone, until our BYE. */
async function takeCall(phone: HandPhone) {
  const invite = await phone.sip.next('INVITE');
  phone.answer(invite);
  await phone.sip.next('ACK');
  phone.sip.respond(await phone.sip.next('BYE'), 200);
  return invite;
}

describe("Calls.json of Twilio's client", () => {
  // First in this file: with one webhook endpoint it is clear whose secret signs the requests of a name.
  test('a name may call a phone while the organization has one webhook endpoint', async () => {
    const { client } = await application();
    const made = await client.calls.create({ from: 'client:front-door', to: 'client:desk1', twiml });
    const invite = await takeCall(desk);
    expect(invite.header('from')).toContain('sip:front-door@');
    expect(await recordOf(scene.app, made.sid)).toMatchObject({ from_number: 'front-door', status: 'completed' });
    await application();
    const unclear = client.calls.create({ from: 'client:front-door', to: 'client:desk1', twiml });
    await expect(unclear).rejects.toMatchObject({ status: 400 });
  });

  test('client: rings the registered phone, which the application then steers', async () => {
    const { mine, client } = await application({ '/outgoing': twiml });
    const made = await client.calls.create({
      ...{ from: mine.number, to: 'client:desk1?X-Order=17&other=no', url: `${mine.server.url}/outgoing` },
      ...{ statusCallback: `${mine.server.url}/status`, statusCallbackEvent: ['initiated', 'answered', 'completed'] },
    });
    expect(made).toMatchObject({ to: 'client:desk1?X-Order=17&other=no', from: mine.number, status: 'queued' });
    const invite = await takeCall(desk);
    expect(invite.startLine).toContain('sip:desk1@127.0.0.1');
    expect(invite.header('from')).toContain(mine.number);
    expect(invite.header('x-order')).toBe('17');
    expect(invite.header('x-trunkline-call-id')).toBe(callIdOf(made.sid));
    const record = await recordOf(scene.app, made.sid);
    expect(record).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing' });
    expect(mine.form('/outgoing')).toMatchObject({
      CallSid: made.sid,
      Direction: 'outbound-api',
      CallStatus: 'in-progress',
    });
    await soon(() =>
      expect(mine.forms('/status').map((form) => form.CallStatus)).toEqual(['initiated', 'in-progress', 'completed']),
    );
  });

  test.each([
    ['client:desk2', 'no-answer'],
    ['client:nobody', 'failed'],
  ])('%s ends as %s', async (to, status) => {
    const { mine, client } = await application();
    const made = await client.calls.create({ from: mine.number, to, twiml });
    await recordOf(scene.app, made.sid);
    expect((await client.calls(made.sid).fetch()).status).toBe(status);
  });

  test('client: offers what the trunk of the phone allows', async () => {
    const { app } = scene;
    await app.api('POST', '/v1/trunks', {
      ...{ name: 'safe', direction: 'inbound', username: 'safe', password: 'secret-of-safe' },
      ...{ codecs: ['G722', 'PCMA'], srtp: 'require' },
    });
    const safe = await HandPhone.open(app.sip.addresses[0]?.port ?? 0);
    await safe.register({ username: 'safe', password: 'secret-of-safe' });
    const { mine, client } = await application();
    const made = await client.calls.create({ from: mine.number, to: 'client:safe', twiml });
    const invite = await safe.sip.next('INVITE');
    expect(invite.body).toMatch(/m=audio \d+ RTP\/SAVP 9 8( \d+)*\r\n/);
    expect(invite.body).toContain('a=crypto:');
    safe.sip.respond(invite, 486);
    await safe.sip.next('ACK');
    expect(await recordOf(app, made.sid)).toMatchObject({ status: 'busy' });
    await safe.close();
  });

  test('sip: with an address of this server means its registered phones', async () => {
    const { mine, client } = await application();
    const here = `127.0.0.1:${scene.app.sip.addresses[0]?.port}`;
    const made = await client.calls.create({ from: mine.number, to: `sip:desk1@${here}`, twiml });
    await takeCall(desk);
    expect(await recordOf(scene.app, made.sid)).toMatchObject({ status: 'completed' });
    const nobody = await client.calls.create({ from: mine.number, to: `sip:nobody@${here};transport=tcp`, twiml });
    const record = await recordOf(scene.app, nobody.sid);
    expect(record).toMatchObject({ status: 'failed', hangup_cause: 'not_found' });
  });

  test('sip: calls the address, and answers its challenge with SipAuthUsername and SipAuthPassword', async () => {
    const { mine, client } = await application();
    const to = `sip:shop@127.0.0.1:${elsewhere.sip.port}`;
    const made = await client.calls.create({
      ...{ from: mine.number, to, twiml, sipAuthUsername: 'shop', sipAuthPassword: 'secret-of-shop' },
    });
    const first = await elsewhere.sip.next('INVITE');
    elsewhere.sip.respond(first, 401, ['WWW-Authenticate: Digest realm="shop.example", nonce="n1", algorithm=MD5']);
    await elsewhere.sip.next('ACK');
    const invite = await takeCall(elsewhere);
    expect(invite.startLine).toContain(to);
    expect(invite.header('authorization')).toContain('username="shop"');
    expect(await recordOf(scene.app, made.sid)).toMatchObject({ status: 'completed' });
    const events = JSON.stringify(await recordOf(scene.app, made.sid));
    expect(events).not.toContain('secret-of-shop');
  });

  test('a number at the gateway of another organization is not called', async () => {
    const { app } = scene;
    const { mine, client } = await application();
    const { id: organizationId } = await app.store.organizations.create({ name: 'Other', tier: 'enterprise' });
    const { id: userId } = await app.store.organizations.createUser({ name: 'Other' });
    await app.store.organizations.addMember(organizationId, userId, 'owner');
    const { key } = await app.store.apiKeys.create({ userId, organizationId, mode: 'live', name: 'Other' });
    const gateway = `127.0.0.1:${elsewhere.sip.port}`;
    const trunk = await fetch(`${app.httpUrl}/v1/trunks`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'their carrier', direction: 'outbound', gateways: [{ uri: `sip:${gateway}` }] }),
    });
    expect(trunk.status).toBe(201);
    const made = await client.calls.create({ from: mine.number, to: `sip:+12025550147@${gateway}`, twiml });
    expect(await recordOf(app, made.sid)).toMatchObject({ status: 'failed', hangup_cause: 'destination_not_allowed' });
    expect(elsewhere.sip.received.map(({ startLine }) => startLine)).not.toContainEqual(
      expect.stringMatching(/^INVITE/),
    );
  });

  test.each([
    ['client:', 21211],
    ['client:two words', 21211],
    ['sip:desk1', 21211],
    ['sip:user:password@example.com', 21211],
  ])('%s is refused with %i', async (to, code) => {
    const { mine, client } = await application();
    await expect(client.calls.create({ from: mine.number, to, twiml })).rejects.toMatchObject({ status: 400, code });
  });

  test('a number is called by a number only', async () => {
    const { client } = await application();
    const asked = client.calls.create({ from: 'front-door', to: '+12025550998', twiml });
    await expect(asked).rejects.toMatchObject({ status: 400, code: 21212 });
    const foreign = client.calls.create({ from: '+19995550000', to: 'client:desk1', twiml });
    await expect(foreign).rejects.toMatchObject({ code: 21210 });
  });

  test('a participant of a conference may be a registered phone', async () => {
    const { mine, client } = await application();
    const made = await client.conferences('desk-room').participants.create({
      ...{ from: mine.number, to: 'client:desk1', endConferenceOnExit: true },
    });
    const invite = await desk.sip.next('INVITE');
    desk.answer(invite);
    await desk.sip.next('ACK');
    await soon(async () => expect(await client.conferences.list({ friendlyName: 'desk-room' })).toHaveLength(1));
    await desk.hangUp();
    expect(await recordOf(scene.app, made.callSid)).toMatchObject({ status: 'completed', hangup_source: 'callee' });
  });
});

describe('POST /v1/outbound-calls', () => {
  test('client: and sip: as to_number', async () => {
    const { app } = scene;
    const { mine } = await application();
    const { endpoint_id: endpointId } = (
      await app.api<{ data: { number: string; endpoint_id: string }[] }>('GET', '/v1/phone-numbers')
    ).data.find(({ number }) => number === mine.number) as { endpoint_id: string };
    const ask = (more: object) =>
      app.api<CallRecord>('POST', '/v1/outbound-calls', {
        ...{ from_number: mine.number, endpoint_id: endpointId, ...more },
      });
    const made = await ask({ to_number: 'client:desk1' });
    await takeCall(desk);
    expect(made).toMatchObject({ to_number: 'client:desk1', direction: 'outbound' });
    const to = `sip:shop@127.0.0.1:${elsewhere.sip.port}`;
    await ask({ to_number: to, sip_username: 'shop', sip_password: 'x' });
    expect((await takeCall(elsewhere)).startLine).toContain(to);
  });
});

describe('a test key', () => {
  test('reaches the simulated carrier in place of SIP addresses, also by what its webhook dials; phones ring', async () => {
    const { app } = scene;
    const { key } = await app.api<{ key: string }>('POST', '/v1/api-keys', { name: 'Trial', mode: 'test' });
    const api = async <T>(method: string, route: string, body?: unknown): Promise<T> => {
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', connection: 'close' };
      const sent = body === undefined ? {} : { body: JSON.stringify(body) };
      const response = await fetch(`${app.httpUrl}${route}`, { method, headers, ...sent });
      expect(response.ok, await response.clone().text()).toBe(true);
      return (await response.json()) as T;
    };
    const there = `127.0.0.1:${elsewhere.sip.port}`;
    const dials = (to: string) => `<Response><Dial action="/after">${to}</Dial></Response>`;
    const made = await webhookApp(
      { ...app, api },
      { '/start': dials(`<Sip>sip:+15005550486@${there}</Sip>`), '/after': '<Response><Hangup/></Response>' },
    );
    const ask = async (to: string) => {
      const wish = { from_number: '+15005550006', endpoint_id: made.endpointId, to_number: to };
      const { id } = await api<{ id: string }>('POST', '/v1/outbound-calls', wish);
      const read = () => api<CallRecord & { completed_at: string | null }>('GET', `/v1/calls/${id}`);
      return { read, ended: () => soon(async () => expect((await read()).completed_at).not.toBeNull(), 10_000) };
    };
    const answered = await ask(`sip:shop@${there}`);
    await answered.ended();
    const record = await answered.read();
    expect(record).toMatchObject({ status: 'completed', cost: 0, to_number: `sip:shop@${there}` });
    const routed = record.events.find(({ event_type: type }) => type === 'call.routed');
    expect(routed?.event_data).toMatchObject({ trunks: ['simulator'] });
    expect(made.form('/after')).toMatchObject({ DialCallStatus: 'busy' });
    const busy = await ask(`sip:+15005550486@${there}?X-Order=7`);
    await busy.ended();
    expect(await busy.read()).toMatchObject({ status: 'busy' });
    const nobody = await ask(`sip:nobody@127.0.0.1:${app.sip.addresses[0]?.port}`);
    await nobody.ended();
    expect(await nobody.read()).toMatchObject({ status: 'failed', hangup_cause: 'not_found' });
    const rung = await ask('client:desk1');
    await takeCall(desk);
    await rung.ended();
    await made.server.close();
    expect(
      elsewhere.sip.received.map(({ startLine }) => startLine).filter((line) => line.startsWith('INVITE')),
    ).toEqual([]);
  });
});
