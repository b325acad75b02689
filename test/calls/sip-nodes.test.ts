/** Phones that registered with one node, called through another one, over a real Redis (Debian: redis-server). */
import { rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { answerChallenge } from '../../sip/auth/digest.js';
import { type PeerMessage, SipPeer, someSdp } from '../support/bare-sip-peer.js';
import { Baresip } from '../support/baresip.js';
import { openPhoneNode, outside, type PhoneNode } from '../support/phone-nodes.js';
import { forgetAll, type RedisServer, startRedis } from '../support/redis-server.js';
import { within } from '../support/sip-gateway.js';
import { TcpPeer } from '../support/tcp-peer.js';
import { server as certificate, tlsFile } from '../support/tls.js';

/** Certificate and key in one file, as baresip wants them. */
const pem = path.join(tmpdir(), `nodes-${process.pid}.pem`);
let redis: RedisServer;
let one: PhoneNode;
let two: PhoneNode;

beforeAll(async () => {
  redis = await startRedis();
  writeFileSync(pem, certificate.certificate + certificate.key);
});
afterAll(async () => {
  await redis.stop();
  rmSync(pem);
});
beforeEach(async () => {
  await forgetAll(redis);
  one = await openPhoneNode(redis.url, outside);
  two = await openPhoneNode(redis.url, outside);
});
afterEach(async () => {
  for (const node of [one, two]) {
    await node.expectNoLegs();
    expect(node.errors()).toEqual([]);
    await node.close();
  }
});

/** A phone that does what the test says. `at`: the node of its next REGISTER. */
class Phone {
  private cseq = 0;
  private constructor(
    readonly sip: SipPeer,
    private readonly user: string,
  ) {}

  static async open(user = 'desk1'): Promise<Phone> {
    return new Phone(await SipPeer.open(one.port), user);
  }

  get contact(): string {
    return `sip:${this.user}@127.0.0.1:${this.sip.port}`;
  }

  /** Answers the Contact of the 200. */
  async register(node: PhoneNode, lines = [`Contact: <${this.contact}>`, 'Expires: 60']): Promise<string> {
    const { sip, user } = this;
    sip.serverPort = node.port;
    const own = `<sip:${user}@127.0.0.1>`;
    const about = {
      ...{ callId: `reg-${sip.port}`, branch: '', from: `${own};tag=r`, to: own, cseq: 0 },
      uri: `sip:127.0.0.1:${node.port}`,
    };
    sip.request('REGISTER', about, lines, '', undefined, ++this.cseq);
    const challenges = (await sip.next(401)).all('www-authenticate');
    const credentials = { username: user, password: 'secret' };
    const answer = answerChallenge({ status: 401, challenges }, { method: 'REGISTER', uri: about.uri }, credentials);
    sip.request('REGISTER', about, [...lines, `Authorization: ${answer?.value}`], '', undefined, ++this.cseq);
    return (await sip.next(200)).header('contact');
  }

  /** Answers to the port that the request came from, as its Via says. */
  respond(request: PeerMessage, status: number, body = ''): void {
    this.sip.serverPort = Number(/127\.0\.0\.1:(\d+)/.exec(request.header('via'))?.[1]);
    this.sip.respond(request, status, status < 200 ? [] : [`Contact: <${this.contact}>`], body);
  }
}

const viasOf = (message: PeerMessage): string[] =>
  message.all('via').map((via) => /127\.0\.0\.1:(\d+)/.exec(via)?.[1] ?? '');

const transports = ['udp', 'tcp', 'tls'] as const;
describe.each(transports)('baresip over %s at one node, called through the other', (transport) => {
  it('rings, talks, holds, and either side hangs up', async () => {
    const tls = transport === 'tls' ? { tls: certificate } : {};
    const host = '127.0.0.1';
    const listen = (['udp', 'tcp', 'tls'] as const).flatMap((each) =>
      each === 'tls' && transport !== 'tls' ? [] : [{ transport: each, host, port: 0 }],
    );
    const timersMs = { t1: 50, t2: 200, t4: 100, lingerMs: 500 };
    const home = await openPhoneNode(redis.url, {
      ...outside,
      server: { kind: 'embedded', listen, timersMs, ...tls },
    });
    const { port } = home.gateway.addresses.find((address) => address.transport === transport) ?? { port: 0 };
    const phone = await Baresip.start(
      `<sip:desk1@127.0.0.1:${port};transport=${transport}>;auth_pass=secret;regint=60`,
      undefined,
      transport === 'tls' ? [`sip_cafile ${tlsFile('authority.pem')}`, `sip_certificate ${pem}`] : [],
    );
    try {
      await phone.says('[1 binding]');
      const first = two.dial('+15554445555', 'sip:desk1');
      await phone.next('CALL_INCOMING');
      phone.command('accept');
      const leg = await within(first);
      await phone.next('CALL_ESTABLISHED');
      // its own address, from which its audio comes, and not that of the node between
      expect(leg.snapshot().peer).toMatchObject({ transport, address: '127.0.0.1' });
      expect(leg.snapshot().routeSet).toHaveLength(2);
      const held = new Promise<string | null>((resolve) => {
        leg.onReoffer(async (offer) => {
          resolve(offer);
          return { sdp: someSdp };
        });
      });
      phone.command('hold');
      expect(await within(held)).toContain('a=sendonly');
      phone.command('hangup');
      expect(await within(leg.ended)).toMatchObject({ cause: 'normal_clearing', by: 'remote' });
      await phone.next('CALL_CLOSED');

      const second = two.dial('+15554445555', 'sip:desk1');
      await phone.next('CALL_INCOMING');
      phone.command('accept');
      const again = await within(second);
      await phone.next('CALL_ESTABLISHED');
      await within(again.hangup());
      await phone.next('CALL_CLOSED');

      const third = two.dial('+15554445555', 'sip:desk1', { ringTimeoutMs: 1_000 });
      await phone.next('CALL_INCOMING');
      await expect(third).rejects.toThrow('not answered in time');
      await phone.next('CALL_CLOSED');
    } finally {
      await phone.stop();
    }
    await home.expectNothingLeft();
    await two.expectNothingLeft();
    await home.close();
    expect(home.errors()).toEqual([]);
  });
});

describe('a phone of another node', () => {
  let phone: Phone;
  beforeEach(async () => {
    phone = await Phone.open();
  });
  afterEach(() => phone.sip.close());

  it('gets the INVITE from the node that it registered with, and only one Via more', async () => {
    await phone.register(one);
    expect(one.gateway.counters().registrations).toBe(1);
    expect(two.gateway.counters().registrations).toBe(0);
    const dialled = two.dial('+15554445555', 'sip:desk1');
    const invite = await phone.sip.next('INVITE');
    expect(invite.startLine).toBe(`INVITE ${phone.contact} SIP/2.0`);
    expect(viasOf(invite)).toEqual([String(one.port), String(two.port)]);
    expect([invite.header('route'), invite.header('max-forwards')]).toEqual(['', '69']);
    phone.respond(invite, 486);
    await expect(dialled).rejects.toMatchObject({ sipStatus: 486, hangupCause: 'user_busy' });
    expect((await phone.sip.next('ACK')).header('via')).toBe(invite.header('via'));
  });

  it('is called directly where its address is its own', async () => {
    const near = await openPhoneNode(redis.url);
    await phone.register(near);
    const dialled = two.dial('+15554445555', 'sip:desk1');
    const invite = await phone.sip.next('INVITE');
    expect(viasOf(invite)).toEqual([String(two.port)]);
    phone.respond(invite, 486);
    await expect(dialled).rejects.toMatchObject({ sipStatus: 486 });
    // and also when the node that it registered with is gone
    await near.close();
    const again = two.dial('+15554445555', 'sip:desk1');
    phone.respond(await phone.sip.next('INVITE'), 486);
    await expect(again).rejects.toMatchObject({ sipStatus: 486 });
  });

  it('may register with the next node, which then has it, and unregister there', async () => {
    await phone.register(one);
    expect(await phone.register(two)).toContain(phone.contact);
    const dialled = one.dial('+15554445555', 'sip:desk1');
    const invite = await phone.sip.next('INVITE');
    expect(viasOf(invite)).toEqual([String(two.port), String(one.port)]);
    phone.respond(invite, 486);
    await expect(dialled).rejects.toMatchObject({ sipStatus: 486 });
    expect(one.gateway.counters().registrations).toBe(0);
    await phone.register(one, [`Contact: <${phone.contact}>`, 'Expires: 0']);
    for (const node of [one, two])
      await expect(node.dial('+15554445555', 'sip:desk1')).rejects.toThrow('No phone is registered as sip:desk1');
  });

  it('is one of several contacts of its user, at several nodes, and the next is tried when it fails', async () => {
    const other = await Phone.open();
    await phone.register(one);
    const both = await other.register(two);
    expect(both.split(',')).toHaveLength(2);
    const dialled = two.dial('+15554445555', 'sip:desk1');
    const rung = [phone, other].map(async (each) => ({ each, invite: await each.sip.next('INVITE') }));
    const first = await Promise.race(rung);
    first.each.respond(first.invite, 503);
    const [last] = (await Promise.all(rung)).filter(({ each }) => each !== first.each);
    last?.each.respond(last.invite, 486);
    await expect(dialled).rejects.toMatchObject({ sipStatus: 486 });
    await other.sip.close();
  });

  it('is forgotten when its registration ends', async () => {
    await phone.register(one, [`Contact: <${phone.contact}>`, 'Expires: 1']);
    const gone = () => two.dial('+1555', 'sip:desk1', { ringTimeoutMs: 50 }).catch((error: Error) => error.message);
    await expect.poll(gone, { timeout: 8000 }).toContain('No phone is registered as sip:desk1');
  });

  it('cannot be reached when its node is gone, which is said at once after a lease', async () => {
    await phone.register(one);
    // as by `kill -9`: the others are not told
    one.redis.close();
    await one.gateway.stop(0);
    const said = () => two.dial('+1555', 'sip:desk1', { ringTimeoutMs: 100 }).catch((error: Error) => error.message);
    await expect.poll(said, { timeout: 8000 }).toContain('No phone is registered as sip:desk1');
    expect(two.lines.map(({ text }) => text)).toContain(
      'a phone cannot be reached: the node that it registered with is gone',
    );
    await phone.register(two);
    const dialled = two.dial('+1555', 'sip:desk1');
    phone.respond(await phone.sip.next('INVITE'), 486);
    await expect(dialled).rejects.toMatchObject({ sipStatus: 486 });
  });
});

it('a connection that is gone is reported by its node, and the next contact is called', async () => {
  const lost = await TcpPeer.connect(one.port);
  const about = {
    From: '<sip:desk1@127.0.0.1>;tag=r',
    To: '<sip:desk1@127.0.0.1>',
    'Call-ID': 'reg-lost',
    Expires: '60',
  };
  const uri = `sip:127.0.0.1:${one.port}`;
  lost.socket.write(lost.request('REGISTER', { ...about, CSeq: '1 REGISTER' }, '', uri));
  const challenges = (await lost.wait((message) => message.kind === 'response')).list('www-authenticate');
  const credentials = { username: 'desk1', password: 'secret' };
  const answer = answerChallenge(
    { status: 401, challenges: [challenges.join(', ')] },
    { method: 'REGISTER', uri },
    credentials,
  );
  const again = { ...about, CSeq: '2 REGISTER', Authorization: answer?.value ?? '' };
  lost.socket.write(lost.request('REGISTER', again, '', uri));
  await lost.wait((message) => message.kind === 'response' && message.status === 200);
  lost.socket.destroy();
  await expect.poll(async () => (await one.gateway.serverStats()).live.tcpConnections).toBe(0);
  const unreachable = { sipStatus: 430, hangupCause: 'carrier_unreachable', mayFailOver: true };
  await expect(two.dial('+1555', 'sip:desk1')).rejects.toMatchObject(unreachable);

  const phone = await Phone.open();
  await phone.register(two, [`Contact: <${phone.contact}>;q=0.5`, 'Expires: 60']);
  const dialled = two.dial('+1555', 'sip:desk1');
  phone.respond(await phone.sip.next('INVITE'), 486);
  await expect(dialled).rejects.toMatchObject({ sipStatus: 486 });
  await phone.sip.close();
});

it('without Redis each node goes by its own phones, and shares them again when it is back', async () => {
  const own = await startRedis();
  const [left, right] = [await openPhoneNode(own.url, outside), await openPhoneNode(own.url, outside)];
  const phone = await Phone.open();
  await phone.register(left);
  await own.stop();
  await expect.poll(() => left.redis.answers || right.redis.answers, { timeout: 8000 }).toBe(false);
  expect(await phone.register(left)).toContain(phone.contact);
  const atHome = left.dial('+1555', 'sip:desk1');
  phone.respond(await phone.sip.next('INVITE'), 486);
  await expect(atHome).rejects.toMatchObject({ sipStatus: 486 });
  await expect(right.dial('+1555', 'sip:desk1')).rejects.toThrow('No phone is registered');

  const again = await startRedis(own.port);
  const found = async () => {
    await right.dial('+1555', 'sip:desk1', { ringTimeoutMs: 200 }).catch(() => undefined);
    return phone.sip.received.some(({ method }) => method === 'CANCEL');
  };
  const ring = async () => {
    for (;;) phone.respond(await phone.sip.next('INVITE', 20_000), 180);
  };
  ring().catch(() => undefined);
  await expect.poll(found, { timeout: 20_000 }).toBe(true);
  await left.close();
  await right.close();
  await phone.sip.close();
  await again.stop();
});

it('a stranger cannot use a flow: not with a token of another call, nor with one of its own making', async () => {
  const phone = await Phone.open();
  await phone.register(one);
  const dialled = two.dial('+15554445555', 'sip:desk1');
  const invite = await phone.sip.next('INVITE');
  const routes = invite.all('record-route').map((value) => /<([^>]+)>/.exec(value)?.[1] ?? '');
  expect(routes).toHaveLength(2);
  const stranger = await SipPeer.open(one.port);
  for (const route of [...routes, routes[0]?.replace(/\.[\w-]+@/, `.${'A'.repeat(22)}@`)]) {
    stranger.invite({ lines: [`Route: <${route}>`] });
    expect((await stranger.next(403)).startLine).toContain('Not a route of this server');
  }
  phone.respond(invite, 486);
  await expect(dialled).rejects.toMatchObject({ sipStatus: 486 });
  expect(phone.sip.received.filter(({ method }) => method === 'INVITE')).toEqual([]);
  await stranger.close();
  await phone.sip.close();
});
