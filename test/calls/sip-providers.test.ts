import { createHash } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type CallRecord, startTestApp, type TestApp } from '../support/app.js';
import { type PeerMessage, someSdp } from '../support/bare-sip-peer.js';
import { endJoined, HandPhone } from '../support/joined-call.js';
import { eventually } from '../support/media-engine.js';
import { type Receiver, startReceiver } from '../support/receiver.js';
import { openTestGateway } from '../support/sip-gateway.js';

/** The SIP side of each provider, against a stand-in of it on this machine. */
let app: TestApp;
let nextNumber = 12025558001;
const closing: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  app = await startTestApp({}, { t1: 100, t2: 400, t4: 500 });
});
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});
afterAll(() => app.end());

interface Wish {
  provider: string;
  config: Record<string, unknown>;
  /** Of the target, in front of the stand-in's address. */
  user?: string;
  fallback?: string;
}

/** A caller who dials a number of this endpoint, and the INVITE that the provider's stand-in gets. */
async function dial({ provider, config, user, fallback }: Wish) {
  const port = app.sip.addresses[0]?.port ?? 0;
  const caller = await HandPhone.open(port);
  const agent = await HandPhone.open(port);
  const number = `+${nextNumber++}`;
  const target = `sip:${user === undefined ? '' : `${user}@`}127.0.0.1:${agent.sip.port}`;
  const { id } = await app.api<{ id: string }>('POST', '/v1/endpoints', {
    ...{ name: provider, type: 'agent', target, provider, provider_config: config },
    ...(fallback === undefined ? {} : { fallback_endpoint_id: fallback }),
  });
  await app.api('POST', '/v1/phone-numbers', { number, endpoint_id: id });
  const invited = caller.invite(number, {}, ['X-Customer: 42']);
  const answer = async (invite: PeerMessage): Promise<CallRecord> => {
    agent.answer(invite);
    caller.confirm(invited, await caller.sip.next(200));
    await agent.sip.next('ACK');
    return endJoined(app, { number, caller, agent });
  };
  return { caller, agent, number, invited, answer };
}

async function retell(answer: (body: Record<string, unknown>) => { status: number; body: string }): Promise<Receiver> {
  const server = await startReceiver((request, response) => {
    const { status, body } = answer(JSON.parse(request.body));
    response.writeHead(status, { 'content-type': 'application/json' }).end(body);
  });
  closing.push(() => server.close());
  return server;
}

const calledUser = (invite: PeerMessage) => /^INVITE sip:([^@]*)@/.exec(invite.startLine)?.[1];

describe('retell', () => {
  it('registers each call, and calls its id', async () => {
    const rest = await retell(() => ({ status: 201, body: '{"call_id":"call_7f3a","call_status":"registered"}' }));
    const config = { api_key: 'key_secret', agent_id: 'agent_1', base_url: rest.url };
    const { agent, number, answer } = await dial({ provider: 'retell', config });
    const invite = await agent.sip.next('INVITE');
    expect(calledUser(invite)).toBe('call_7f3a');
    expect(rest.requests[0]).toMatchObject({
      ...{ method: 'POST', path: '/v2/register-phone-call' },
      headers: { authorization: 'Bearer key_secret' },
    });
    expect(JSON.parse(rest.requests[0]?.body ?? '')).toMatchObject({
      ...{ agent_id: 'agent_1', direction: 'inbound', from_number: '+15550001111', to_number: number },
      metadata: { trunkline_call_id: expect.any(String) },
    });
    expect(await answer(invite)).toMatchObject({ status: 'completed' });
  });

  it('registers the variables of the call', async () => {
    const rest = await retell(() => ({ status: 201, body: '{"call_id":"call_7f3b"}' }));
    const variables = {
      caller: '{{call.from}}',
      account: '{{sip.headers.x-customer}}',
      order: '{{call.metadata.none}}',
    };
    const config = { api_key: 'key_secret', agent_id: 'agent_1', base_url: rest.url, variables };
    const { agent, answer } = await dial({ provider: 'retell', config });
    const invite = await agent.sip.next('INVITE');
    expect(JSON.parse(rest.requests[0]?.body ?? '')).toMatchObject({
      retell_llm_dynamic_variables: { caller: '+15550001111', account: '42', order: '' },
    });
    expect(await answer(invite)).toMatchObject({ status: 'completed' });
  });

  it.each([
    ['a wrong key', 401, '{"error":"no"}', 'unauthorized'],
    ['too many calls', 429, '', 'refused'],
    ['an id that is none', 200, '{"call_id":"x@evil.example;a=b"}', 'protocol'],
    ['no id', 200, '{}', 'protocol'],
    ['no JSON', 200, '<html>', 'protocol'],
  ])('%s: no INVITE, a reason without secrets, and the next endpoint', async (_, status, body, reason) => {
    const rest = await retell(() => ({ status, body }));
    const spare = await HandPhone.open(app.sip.addresses[0]?.port ?? 0);
    closing.push(() => spare.close());
    const { id } = await app.api<{ id: string }>('POST', '/v1/endpoints', {
      ...{ name: 'spare', type: 'agent', target: `sip:spare@127.0.0.1:${spare.sip.port}`, provider_config: {} },
    });
    const config = { api_key: 'key_secret', agent_id: 'agent_1', base_url: rest.url };
    const { caller, agent, number, invited } = await dial({ provider: 'retell', config, fallback: id });
    spare.sip.respond(await spare.sip.next('INVITE'), 603);
    await spare.sip.next('ACK');
    caller.sip.ackFailure(invited, await caller.sip.next(480));
    const record = await app.finishedCall(number);
    const failed = record.events.filter((event) => event.event_type === 'agent.failed');
    expect(failed.map((event) => event.event_data.reason)).toEqual([reason, 'refused']);
    expect(JSON.stringify(record)).not.toContain('key_secret');
    expect(agent.sip.received).toEqual([]);
    await Promise.all([caller.close(), agent.close()]);
  });

  it('needs a key and an agent, and knows its address', async () => {
    const endpoint = { name: 'r', type: 'agent', provider: 'retell' };
    const refused = await fetch(`${app.httpUrl}/v1/endpoints`, {
      method: 'POST',
      headers: { authorization: `Bearer ${app.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ ...endpoint, provider_config: { api_key: 'k' } }),
    });
    expect(refused.status).toBe(400);
    expect(JSON.stringify(await refused.json())).toContain('provider_config.agent_id');
    const made = await app.api<{ target: string }>('POST', '/v1/endpoints', {
      ...endpoint,
      provider_config: { api_key: 'k', agent_id: 'a' },
    });
    expect(made.target).toBe('sip:sip.retellai.com;transport=tcp');
  });
});

describe('the user that the INVITE calls', () => {
  it.each([
    ['openai', { project_id: 'proj_abc' }, undefined, 'proj_abc'],
    ['openai', {}, 'proj_xyz', 'proj_xyz'],
    ['ultravox', { agent_id: '1f2e' }, undefined, 'agent_1f2e'],
    ['vapi', {}, 'my-assistant', 'my-assistant'],
    ['elevenlabs', {}, '+12025550111', '+12025550111'],
    ['livekit', {}, undefined, null],
    ['custom', {}, undefined, null],
  ])('%s %j %s', async (provider, config, user, expected) => {
    const { agent, number, answer } = await dial({ provider, config, ...(user === undefined ? {} : { user }) });
    const invite = await agent.sip.next('INVITE');
    expect(calledUser(invite)).toBe(expected ?? number);
    expect(invite.header('x-customer')).toBe('42');
    if (provider === 'elevenlabs') {
      expect(invite.header('x-call-id')).toBe(invite.header('x-trunkline-call-id'));
      expect(invite.header('x-caller-id')).toBe('+15550001111');
    }
    await answer(invite);
  });

  it.each([
    ['openai', 'project_id'],
    ['ultravox', 'agent_id'],
  ])('%s asks for %s when the target names nobody', async (provider, field) => {
    const body = { name: 'x', type: 'agent', provider, target: 'sip:provider.example', provider_config: {} };
    await expect(app.api('POST', '/v1/endpoints', body, 400)).resolves.toMatchObject({
      details: { fields: [{ path: `provider_config.${field}` }] },
    });
  });
});

describe('the way there', () => {
  it.each(['MD5', 'SHA-256'])(
    'a challenge is answered with the credentials of the endpoint (%s)',
    async (algorithm) => {
      const config = { sip_username: 'trunk', sip_password: 'secret' };
      const { agent, answer } = await dial({ provider: 'livekit', config });
      const first = await agent.sip.next('INVITE');
      const challenge = `Digest realm="livekit", nonce="n1", algorithm=${algorithm}, qop="auth"`;
      agent.sip.respond(first, 407, [`Proxy-Authenticate: ${challenge}`], '', 'challenge');
      await agent.sip.next('ACK');
      const second = await agent.sip.next('INVITE');
      const given = second.header('proxy-authorization');
      const field = (name: string) => new RegExp(`\\b${name}="?([^",]+)`).exec(given)?.[1] ?? '';
      const uri = /^INVITE (\S+)/.exec(second.startLine)?.[1] ?? '';
      const hash = (text: string) =>
        createHash(algorithm === 'MD5' ? 'md5' : 'sha256')
          .update(text)
          .digest('hex');
      const [secret, what] = [hash('trunk:livekit:secret'), hash(`INVITE:${uri}`)];
      expect(field('uri')).toBe(uri);
      expect(field('response')).toBe(hash(`${secret}:n1:${field('nc')}:${field('cnonce')}:auth:${what}`));
      await answer(second);
    },
  );

  it('goes over TCP when the target says so', async () => {
    const provider = await openTestGateway();
    closing.push(() => provider.close());
    const transports: string[] = [];
    provider.onCall(async (call) => {
      transports.push(call.peer.transport);
      const leg = await call.answer(someSdp);
      await leg.ended;
    });
    const caller = await HandPhone.open(app.sip.addresses[0]?.port ?? 0);
    const number = `+${nextNumber++}`;
    await app.connectNumber(number, `sip:agent@127.0.0.1:${provider.port};transport=tcp`);
    caller.confirm(caller.invite(number), await caller.sip.next(200));
    await eventually(() => transports.length === 1, 'the call');
    expect(transports).toEqual(['tcp']);
    await caller.hangUp();
    expect(await app.finishedCall(number)).toMatchObject({ status: 'completed' });
    await caller.close();
  });
});

it('retell at a WebSocket is refused when the endpoint is made, with what is allowed', async () => {
  const body = { name: 'x', type: 'agent', provider: 'retell', target: 'wss://agent.example.com/' };
  const config = { provider_config: { api_key: 'k', agent_id: 'a' } };
  const answer = await app.api('POST', '/v1/endpoints', { ...body, ...config }, 400);
  expect(JSON.stringify(answer)).toContain('must be a sip: or sips: address');
});
