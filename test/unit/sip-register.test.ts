import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Challenger } from '../../sip/auth/challenger.js';
import { answerChallenge } from '../../sip/auth/digest.js';
import { readHeaders } from '../../sip/drachtio/header.js';
import type { Peer } from '../../sip/leg.js';
import { Bindings } from '../../sip/registrar/bindings.js';
import { type LocationOptions, Locations } from '../../sip/registrar/locations.js';
import { Registrar, type RegistrarAnswer, type RegistrarLimits } from '../../sip/registrar/registrar.js';
import { TrunkTable } from '../../sip/trunk/trunk-table.js';

const uri = 'sip:us.example';
const alone: LocationOptions = {
  isLocal: () => true,
  secretOf: () => null,
  nameOf: () => '',
  serverOf: () => undefined,
  log: { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} },
};
const peer: Peer = { transport: 'udp', address: '192.0.2.7', port: 40000 };

function setUp(limits?: RegistrarLimits, maxBindings?: number) {
  const trunks = new TrunkTable();
  const record = (name: string) => ({
    ...{ id: name, organizationId: null, name, direction: 'both' as const, status: 'active' as const, addresses: [] },
    ...{ username: name, password: `${name}-secret`, gateways: [] },
  });
  trunks.replace([record('alice'), record('bob')]);
  const bindings = new Bindings(maxBindings);
  const challenger = new Challenger({ realm: 'r' });
  const registrar = new Registrar(trunks, challenger, new Locations(bindings, alone), limits);

  const send = (lines: string[], from = peer, to = 'sip:alice@us.example'): Promise<RegistrarAnswer> =>
    registrar.register({
      uri,
      headers: readHeaders(['REGISTER', `To: <${to}>`, ...lines, '', ''].join('\r\n')),
      peer: from,
    });
  let cseq = 0;
  const authorized = (
    lines: string[],
    options: { user?: string; password?: string; callId?: string; cseq?: number; from?: Peer; aor?: string } = {},
  ): Promise<RegistrarAnswer> => {
    const user = options.user ?? 'alice';
    const challenges = challenger.challenges(false);
    const answer = answerChallenge(
      { status: 401, challenges },
      { method: 'REGISTER', uri },
      { username: user, password: options.password ?? `${user}-secret` },
    );
    return send(
      [
        `Call-ID: ${options.callId ?? 'c1'}`,
        `CSeq: ${options.cseq ?? ++cseq} REGISTER`,
        `Authorization: ${answer?.value}`,
        ...lines,
      ],
      options.from ?? peer,
      options.aor ?? `sip:${user}@us.example`,
    );
  };
  return { trunks, bindings, registrar, send, authorized };
}

function contacts(bindings: Bindings, user = 'alice'): string[] {
  return bindings.of(user).map((binding) => binding.contact);
}

describe('Registrar', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => {
    expect(vi.getTimerCount()).toBeLessThanOrEqual(1);
    vi.useRealTimers();
  });

  it('challenges, then binds, and says until when', async () => {
    const { send, authorized, bindings } = setUp();
    const challenge = await send(['Call-ID: c1', 'CSeq: 1 REGISTER', 'Contact: <sip:alice@192.0.2.7>']);
    expect(challenge.status).toBe(401);
    expect(challenge.headers['WWW-Authenticate']).toHaveLength(2);
    const answer = await authorized(['Contact: <sip:alice@192.0.2.7:40000>;expires=120']);
    expect(answer).toMatchObject({ status: 200, headers: { Contact: '<sip:alice@192.0.2.7:40000>;expires=120' } });
    expect(answer.headers.Date).toMatch(/GMT$/);
    expect(bindings.userAt(peer)).toBe('alice');
    expect(bindings.userAt({ ...peer, port: 40001 })).toBeUndefined();
    expect(bindings.userAt({ ...peer, transport: 'tcp' })).toBeUndefined();
    bindings.close();
  });

  it('gives wrong passwords, unknown users and other people the same 403', async () => {
    const { authorized, bindings } = setUp();
    const contact = ['Contact: <sip:x@192.0.2.7>'];
    const wrong = await authorized(contact, { password: 'x' });
    expect(wrong).toEqual({ status: 403, headers: {} });
    expect(await authorized(contact, { user: 'carol' })).toEqual(wrong);
    expect(await authorized(contact, { aor: 'sip:bob@us.example' })).toEqual(wrong);
    expect(bindings.count).toBe(0);
  });

  it('keeps several contacts, the preferred first, and removes one, or all by a star', async () => {
    const { authorized, bindings } = setUp();
    await authorized(['Contact: <sip:alice@a>;q=0.3, <sip:alice@b>', 'Contact: <sip:alice@c;transport=tcp>;q=0.8']);
    expect(contacts(bindings)).toEqual(['sip:alice@b', 'sip:alice@c;transport=tcp', 'sip:alice@a']);
    await authorized(['Contact: <sip:alice@b>;expires=0']);
    expect(contacts(bindings)).toEqual(['sip:alice@c;transport=tcp', 'sip:alice@a']);
    expect((await authorized(['Contact: *', 'Expires: 60'])).status).toBe(400);
    expect((await authorized(['Contact: *, <sip:x@y>', 'Expires: 0'])).status).toBe(400);
    expect(bindings.count).toBe(2);
    const gone = await authorized(['Contact: *', 'Expires: 0']);
    expect(gone.status).toBe(200);
    expect(gone.headers.Contact).toBeUndefined();
    expect(bindings.count).toBe(0);
    expect(bindings.userAt(peer)).toBeUndefined();
  });

  it('takes Expires of the contact, of the message, or its own; refuses short and cuts long ones', async () => {
    const { authorized, bindings } = setUp({ minExpiresSec: 60, maxExpiresSec: 600 });
    const expiry = async (lines: string[]) => {
      const answer = await authorized(lines);
      return answer.status === 200 ? answer.headers.Contact : answer.headers['Min-Expires'];
    };
    expect(await expiry(['Contact: <sip:a@b>;expires=100', 'Expires: 200'])).toBe('<sip:a@b>;expires=100');
    expect(await expiry(['Contact: <sip:a@b>', 'Expires: 200'])).toBe('<sip:a@b>;expires=200');
    expect(await expiry(['Contact: <sip:a@b>'])).toBe('<sip:a@b>;expires=600');
    expect(await expiry(['Contact: <sip:a@b>;expires=nonsense'])).toBe('<sip:a@b>;expires=600');
    expect(await expiry(['Contact: <sip:a@b>;expires=9999999999'])).toBe('<sip:a@b>;expires=600');
    expect(await authorized(['Contact: <sip:a@b>;expires=59'])).toEqual({
      status: 423,
      headers: { 'Min-Expires': '60' },
    });
    bindings.close();
  });

  it('takes all contacts of a request or none', async () => {
    const { authorized, bindings } = setUp();
    expect((await authorized(['Contact: <sip:a@b>, <sip:c@d>;expires=1'])).status).toBe(423);
    expect((await authorized(['Contact: <sip:a@b>, <tel:+1>'])).status).toBe(400);
    expect(bindings.count).toBe(0);
  });

  it('answers a query without changing anything', async () => {
    const { authorized, bindings } = setUp();
    await authorized(['Contact: <sip:a@b>;expires=100']);
    vi.advanceTimersByTime(40_000);
    expect((await authorized([], { callId: 'query' })).headers.Contact).toBe('<sip:a@b>;expires=60');
    bindings.close();
  });

  it('refuses what is out of order within one Call-ID', async () => {
    const { authorized, bindings } = setUp();
    await authorized(['Contact: <sip:a@b>;expires=100'], { cseq: 5 });
    expect((await authorized(['Contact: <sip:a@b>;expires=0'], { cseq: 5 })).status).toBe(500);
    expect((await authorized(['Contact: *', 'Expires: 0'], { cseq: 4 })).status).toBe(500);
    expect((await authorized(['Contact: <sip:a@b>;expires=200'], { cseq: 1, callId: 'c2' })).status).toBe(200);
    expect((await authorized(['Contact: <sip:a@b>;expires=0'], { cseq: 2, callId: 'c2' })).status).toBe(200);
    expect(bindings.count).toBe(0);
  });

  it('forgets bindings when they expire', async () => {
    const { authorized, bindings } = setUp();
    await authorized(['Contact: <sip:a@b>;expires=60, <sip:c@d>;expires=90']);
    await authorized(['Contact: <sip:x@y>;expires=300'], { user: 'bob', from: { ...peer, port: 5 } });
    vi.advanceTimersByTime(60_000);
    expect(contacts(bindings)).toEqual(['sip:c@d']);
    vi.advanceTimersByTime(32_000);
    expect(bindings.count).toBe(1);
    expect(bindings.userAt(peer)).toBeUndefined();
    vi.advanceTimersByTime(300_000);
    expect(bindings.count).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('is bounded per user and in all', async () => {
    const { authorized, bindings } = setUp({ maxContacts: 2 }, 3);
    expect((await authorized(['Contact: <sip:a@1>, <sip:a@2>, <sip:a@3>'])).status).toBe(403);
    expect((await authorized(['Contact: <sip:a@1>, <sip:a@2>'])).status).toBe(200);
    const full = await authorized(['Contact: <sip:b@1>, <sip:b@2>'], { user: 'bob' });
    expect(full).toMatchObject({ status: 503, headers: { 'Retry-After': '60' } });
    expect((await authorized(['Contact: <sip:a@1>'], { cseq: 99 })).status).toBe(200);
    expect(bindings.count).toBe(2);
    bindings.close();
  });

  it('refuses extensions it does not have, and other schemes', async () => {
    const { send, registrar } = setUp();
    expect(await send(['Require: path, gruu'])).toEqual({ status: 420, headers: { Unsupported: 'gruu' } });
    expect((await registrar.register({ uri: 'tel:+1', headers: readHeaders('x'), peer })).status).toBe(416);
  });
});
