/** What carriers and strangers should not do: for each the right answer, a record that says why, and nothing left. */
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:tls';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { answerChallenge } from '../../sip/auth/digest.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { type OutgoingInvite, type PeerMessage, SipPeer, someSdp } from '../support/bare-sip-peer.js';
import { addTrunk, placeOutbound } from '../support/outbound.js';
import { authority, expired } from '../support/tls.js';

const secret = { username: 'line7', password: 'right' };
let app: TestApp;
let echo: { endpointId: string; numberId: string };
let nextNumber = 12025553001;
const closing: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  app = await startTestApp({}, { t1: 100, t2: 400, t4: 500 });
  const { data } = await app.api<{ data: { id: string; endpoint_id: string }[] }>('GET', '/v1/phone-numbers');
  echo = { numberId: data[0]?.id ?? '', endpointId: data[0]?.endpoint_id ?? '' };
});
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});
afterAll(() => app.end());

async function carrier(): Promise<SipPeer> {
  const peer = await SipPeer.open(app.sip.addresses[0]?.port ?? 0);
  closing.push(() => peer.close());
  return peer;
}

/** Calls over a trunk with this gateway; the record when the call is over. */
async function call(uri: string, change: Record<string, unknown> = {}) {
  const trunk = await addTrunk(app, [uri], change);
  closing.push(() => app.api('DELETE', `/v1/trunks/${trunk}`));
  const to = `+${nextNumber++}`;
  placeOutbound(app, { to, ...echo });
  return app.finishedCall(to, 10_000);
}

/** Answers every INVITE in the same way, until the call is given up; how many there were. */
async function insisting(
  answer: (invite: PeerMessage, peer: SipPeer, nth: number) => [status: number, lines: string[]],
  change: Record<string, unknown> = {},
) {
  const peer = await carrier();
  let invites = 0;
  let isOver = false;
  const serving = (async () => {
    while (!isOver) {
      const invite = await peer.next('INVITE', 4000).catch(() => null);
      if (invite === null) return;
      invites += 1;
      const [status, lines] = answer(invite, peer, invites);
      peer.respond(invite, status, lines, '', `tag-${invites}`);
    }
  })();
  const record = await call(`sip:127.0.0.1:${peer.port}`, change);
  isOver = true;
  void serving;
  return { record, invites };
}

describe('a carrier that', () => {
  it.each<[string, Parameters<typeof insisting>[0], Record<string, unknown>, number, number]>([
    [
      'does not take our password',
      (_invite, _peer, nth) => [401, [`WWW-Authenticate: Digest realm="c", nonce="n${nth}"`]],
      { ...secret, addresses: [] },
      401,
      2,
    ],
    [
      'calls every nonce stale',
      (_invite, _peer, nth) => [407, [`Proxy-Authenticate: Digest realm="c", nonce="n${nth}", stale=true`]],
      { ...secret, addresses: [] },
      407,
      3,
    ],
    ['wants a password that we have not', () => [407, ['Proxy-Authenticate: Digest realm="c", nonce="n"']], {}, 407, 1],
    [
      'asks in a way that nobody knows',
      () => [401, ['WWW-Authenticate: Digest realm="c", nonce="n", algorithm=ROT13']],
      { ...secret, addresses: [] },
      401,
      1,
    ],
    [
      'sends us round in a circle',
      (invite, peer) => {
        const user = /sip:([^@]+)@/.exec(invite.startLine)?.[1];
        return [302, [`Contact: <sip:${user}@127.0.0.1:${peer.port}>`]];
      },
      {},
      302,
      4,
    ],
    [
      'sends us to a number that nobody asked for',
      (_invite, peer) => [302, [`Contact: <sip:+882130000@127.0.0.1:${peer.port}>`]],
      {},
      302,
      1,
    ],
  ])('%s', async (_what, answer, change, status, times) => {
    const { record, invites } = await insisting(answer, change);
    expect(invites).toBe(times);
    expect(record).toMatchObject({ status: 'failed', answered_at: null });
    expect(record.events.at(-1)?.event_data).toMatchObject({
      sip_status: status,
      detail: expect.stringContaining(`answered ${status}`),
    });
  });

  it('answers with a codec that was not offered: it is hung up on', async () => {
    const peer = await carrier();
    const done = call(`sip:127.0.0.1:${peer.port}`);
    const invite = await peer.next('INVITE');
    peer.respond(invite, 200, [`Contact: ${peer.contact}`], someSdp.replace('RTP/AVP 0', 'RTP/AVP 18'));
    await peer.next('ACK');
    peer.respond(await peer.next('BYE'), 200);
    const record = await done;
    expect(record).toMatchObject({ status: 'failed', hangup_cause: 'incompatible_media' });
    expect(record.events.at(-1)?.event_data.detail).toMatch(/codec/);
  });

  it('shows a certificate that has expired: it is not called', async () => {
    const server = createServer({ cert: expired.certificate, key: expired.key });
    server.on('tlsClientError', () => {});
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    closing.push(() => new Promise((resolve) => server.close(resolve)));
    const { port } = server.address() as AddressInfo;
    const record = await call(`sip:127.0.0.1:${port}`, { transport: 'tls', tls: { ca: authority } });
    expect(record).toMatchObject({ status: 'failed', hangup_cause: 'carrier_unreachable' });
    expect(JSON.stringify(record.events)).toMatch(/expired/);
  });

  it.each([
    ['has a name that nobody knows', 'sip:no-such-carrier.invalid', 'no address for no-such-carrier.invalid'],
    ['has nobody at its port', 'sip:127.0.0.1:1;transport=tcp', 'connection refused'],
  ])('%s', async (_what, uri, why) => {
    const record = await call(uri);
    expect(record).toMatchObject({ status: 'failed', hangup_cause: 'carrier_unreachable' });
    expect(JSON.stringify(record.events)).toContain(why);
  });
});

it('a caller without a codec of ours: 488, and the record says it', async () => {
  const peer = await carrier();
  const invited = peer.invite({ user: '+15550100', sdp: someSdp.replace('RTP/AVP 0', 'RTP/AVP 18') });
  peer.ackFailure(invited, await peer.next(488));
  const record = await app.finishedCall('+15550100');
  expect(record).toMatchObject({ status: 'failed', hangup_cause: 'incompatible_media', answered_at: null });
  expect(record.events.at(-1)?.event_data.detail).toMatch(/codec/);
});

describe('a stranger', () => {
  let strict: TestApp;
  beforeAll(async () => {
    strict = await startTestApp({}, { t1: 100, t2: 400, t4: 500 });
    const { data } = await strict.api<{ data: { id: string }[] }>('GET', '/v1/trunks');
    for (const { id } of data) await strict.api('PATCH', `/v1/trunks/${id}`, { status: 'inactive' });
    await strict.api('POST', '/v1/trunks', { name: 'line', direction: 'inbound', ...secret });
  });
  afterAll(() => strict.end());

  async function challenged(peer: SipPeer): Promise<{ invite: OutgoingInvite; challenges: readonly string[] }> {
    const invite = peer.invite({ user: '+15550100' });
    const challenge = await peer.next(401);
    peer.ackFailure(invite, challenge);
    return { invite, challenges: challenge.all('www-authenticate') };
  }
  const answerTo = (challenges: readonly string[], uri: string, credentials = secret) =>
    answerChallenge({ status: 401, challenges: [...challenges] }, { method: 'INVITE', uri }, credentials)?.value ?? '';
  const again = (peer: SipPeer, invite: OutgoingInvite, authorization: string, nth: number) => {
    const next = { ...invite, branch: `${invite.branch}-${nth}`, cseq: nth };
    peer.request('INVITE', next, [`Contact: ${peer.contact}`, `Authorization: ${authorization}`], someSdp);
    return next;
  };

  it.each<[string, (challenges: readonly string[], uri: string) => string, number]>([
    ['with a wrong password', (list, uri) => answerTo(list, uri, { ...secret, password: 'wrong' }), 403],
    ['with the name of nobody', (list, uri) => answerTo(list, uri, { ...secret, username: 'ghost' }), 403],
    ['of a foreign realm', (list, uri) => answerTo(list, uri).replace(/realm="[^"]*"/, 'realm="elsewhere"'), 401],
    ['with a nonce of its own', (list, uri) => answerTo(list, uri).replace(/nonce="[^"]*"/, 'nonce="AAAA"'), 401],
  ])('%s', async (_what, authorization, status) => {
    const peer = await SipPeer.open(strict.sip.addresses[0]?.port ?? 0);
    const { invite, challenges } = await challenged(peer);
    const refused = again(peer, invite, authorization(challenges, invite.uri), 2);
    const answer = await peer.next([200, 401, 403]);
    peer.ackFailure(refused, answer);
    expect(answer.status).toBe(status);
    if (status === 401 && _what.includes('nonce')) expect(answer.header('www-authenticate')).toContain('stale=true');
    await peer.close();
  });

  it("that replays another's credentials is challenged again and refused", async () => {
    const peer = await SipPeer.open(strict.sip.addresses[0]?.port ?? 0);
    const { invite, challenges } = await challenged(peer);
    const authorization = answerTo(challenges, invite.uri);
    const taken = again(peer, invite, authorization, 2);
    const answer = await peer.next(200);
    peer.request('ACK', taken, [], '', answer, 2);
    peer.request('BYE', taken, [], '', answer, 3);
    await peer.next(200);
    const thief = await SipPeer.open(strict.sip.addresses[0]?.port ?? 0);
    const stolen = thief.invite({ user: '+15550100', lines: [`Authorization: ${authorization}`] });
    const refused = await thief.next([200, 401, 403]);
    thief.ackFailure(stolen, refused);
    expect(refused.status).toBe(401);
    expect(refused.header('www-authenticate')).toContain('stale=true');
    await Promise.all([peer.close(), thief.close()]);
  });

  it('is in the list of those that were refused', async () => {
    const { data } = await strict.api<{ data: { cause: string; sip_status: number }[] }>('GET', '/v1/rejected-invites');
    expect(data[0]).toMatchObject({ cause: 'blocked_source', sip_status: 403 });
  });
});
