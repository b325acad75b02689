import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { digestResponse, parseDigest } from '../../sip/auth/digest.js';
import type { MonitoredGateway } from '../../sip/leg.js';
import { SipNames } from '../../sip/outbound/dns-naptr-srv.js';
import { Probe } from '../../sip/trunk/options-probe.js';
import { type PeerMessage, SipPeer } from '../support/bare-sip-peer.js';
import { openTestGateway, type TestGateway } from '../support/sip-gateway.js';

const user = { username: 'line1', password: 'secret' };

describe('carriers between calls', () => {
  let us: TestGateway;
  let peer: SipPeer;
  let states: string[];

  beforeAll(async () => {
    us = await openTestGateway(undefined, { probeEveryMs: 200 });
  });
  beforeEach(async () => {
    peer = await SipPeer.open(us.port);
    states = [];
    us.gateway.keepalive.onChange = (_uri, state) => states.push(state);
  });
  afterEach(async () => {
    us.gateway.keepalive.replace([]);
    await peer.close();
  });
  afterAll(async () => {
    await us.expectNothingLeft();
    await us.close();
  });

  const keep = (change: Partial<MonitoredGateway> = {}) => {
    const uri = `sip:127.0.0.1:${peer.port}`;
    us.gateway.keepalive.replace([{ uri, register: null, ...change }]);
    return uri;
  };
  const register = async (answer: (request: PeerMessage) => [number, string[]]) => {
    const request = await peer.next('REGISTER');
    const [status, lines] = answer(request);
    peer.respond(request, status, lines);
    return request;
  };
  const ok =
    (seconds: number) =>
    (request: PeerMessage): [number, string[]] => [
      200,
      [`Contact: ${request.header('contact').replace(/expires=\d+/, `expires=${seconds}`)}`],
    ];
  /** OPTIONS of the probe are answered beside what a test looks at. */
  const answerOptions = () => {
    let over = false;
    void (async () => {
      while (!over) {
        const options = await peer.next('OPTIONS', 60_000).catch(() => null);
        if (options) peer.respond(options, 200);
        else return;
      }
    })();
    return () => {
      over = true;
    };
  };

  it('a gateway that answers is up, one that falls silent is down, and comes back', async () => {
    const uri = keep();
    expect(us.gateway.keepalive.stateOf(uri)).toBe('unknown');
    const first = await peer.next('OPTIONS');
    expect(first.header('call-id')).not.toBe('');
    peer.respond(first, 405);
    await expect.poll(() => us.gateway.keepalive.stateOf(uri)).toBe('up');
    await expect.poll(() => us.gateway.keepalive.stateOf(uri), { timeout: 15_000 }).toBe('down');
    peer.received.length = 0;
    const stop = answerOptions();
    await expect.poll(() => us.gateway.keepalive.stateOf(uri), { timeout: 8000 }).toBe('up');
    expect(states).toEqual(['up', 'down', 'up']);
    stop();
  }, 30_000);

  it('a gateway that says 503 is down', async () => {
    const uri = keep();
    for (let i = 0; i < 2; i++) peer.respond(await peer.next('OPTIONS'), 503);
    await expect.poll(() => us.gateway.keepalive.stateOf(uri)).toBe('down');
  });

  it('registers with credentials, for as long as the carrier wants, refreshes in time, and takes it back', async () => {
    keep({ register: user });
    answerOptions();
    const challenge = 'WWW-Authenticate: Digest realm="carrier", nonce="n1", qop="auth", algorithm=SHA-256';
    const first = await register(() => [401, [challenge]]);
    expect(first.header('to')).toBe('<sip:line1@127.0.0.1>');
    expect(first.header('contact')).toMatch(new RegExp(`^<sip:line1@127\\.0\\.0\\.1:${us.port}>;expires=300$`));
    const second = await register(() => [423, ['Min-Expires: 600']]);
    const digest = parseDigest(second.header('authorization')) ?? {};
    expect(digest.response).toBe(
      digestResponse({
        ...{ ...user, algorithm: 'SHA-256', realm: 'carrier', nonce: 'n1', method: 'REGISTER' },
        ...{ uri: digest.uri ?? '', qop: { nc: digest.nc ?? '', cnonce: digest.cnonce ?? '' } },
      }),
    );
    const third = await register(ok(1));
    expect(third.header('expires')).toBe('600');
    await expect.poll(() => us.gateway.keepalive.registrations).toEqual({ standing: 1, wanted: 1 });
    const refresh = await register(ok(60)); // after 0.8 s
    expect(refresh.header('call-id')).toBe(first.header('call-id'));
    const cseqs = [first, second, third, refresh].map((request) => Number.parseInt(request.header('cseq'), 10));
    expect(cseqs).toEqual([1, 2, 3, 4]);
    us.gateway.keepalive.replace([]);
    const last = await register(ok(0));
    expect(last.header('expires')).toBe('0');
  });

  it('a refused registration is tried again later, and told', async () => {
    keep({ register: user });
    answerOptions();
    await register(() => [403, []]);
    await expect.poll(() => us.lines.some((line) => line.text === 'not registered with a carrier')).toBe(true);
    expect(us.gateway.keepalive.registrations).toEqual({ standing: 0, wanted: 1 });
  });
});

describe('a carrier that has a name', () => {
  /** A name server of the test: two hosts by SRV, and which transport by NAPTR. */
  async function named(kept: (uri: string) => MonitoredGateway) {
    const silent = await SipPeer.open(0);
    const serving = await SipPeer.open(0);
    const asked: string[] = [];
    const hosts = [silent, serving].map(({ port }, i) => ({ name: '127.0.0.1', port, priority: i, weight: 0 }));
    const naptr = { flags: 's', service: 'SIP+D2U', regexp: '', replacement: '_sip._udp.edge.example' };
    const names = new SipNames({
      naptr: async (name) => {
        asked.push(`NAPTR ${name}`);
        return [{ ...naptr, order: 1, preference: 1 }];
      },
      srv: async (name) => {
        asked.push(`SRV ${name}`);
        return name === '_sip._udp.edge.example' ? hosts : [];
      },
    });
    const us = await openTestGateway(undefined, { probeEveryMs: 60_000, names });
    for (const peer of [silent, serving]) peer.serverPort = us.port;
    us.gateway.keepalive.replace([kept('sip:carrier.example')]);
    return { us, silent, serving, asked };
  }

  it('is asked by OPTIONS at its hosts in their order: one that says 503 is passed over', async () => {
    const { us, silent, serving, asked } = await named((uri) => ({ uri, register: null }));
    const first = await silent.next('OPTIONS');
    expect(first.startLine).toBe('OPTIONS sip:carrier.example SIP/2.0');
    silent.respond(first, 503);
    serving.respond(await serving.next('OPTIONS'), 200);
    await expect.poll(() => us.gateway.keepalive.stateOf('sip:carrier.example')).toBe('up');
    expect(asked).toEqual(['NAPTR carrier.example', 'SRV _sip._udp.edge.example']);
    await us.expectNothingLeft();
    await Promise.all([us.close(), silent.close(), serving.close()]);
  });

  it('is registered with in the same way', async () => {
    const { us, silent, serving } = await named((uri) => ({ uri, register: user }));
    silent.respond(await silent.next('REGISTER'), 503);
    const request = await serving.next('REGISTER');
    expect(request.startLine).toBe('REGISTER sip:carrier.example SIP/2.0');
    const contact = request.header('contact').replace(/expires=\d+/, 'expires=600');
    serving.respond(request, 200, [`Contact: ${contact}`]);
    await expect.poll(() => us.gateway.keepalive.registrations).toEqual({ standing: 1, wanted: 1 });
    const stopping = us.gateway.keepalive.close();
    const last = await Promise.race([serving.next('REGISTER'), silent.next('REGISTER')]);
    for (const peer of [silent, serving]) peer.respond(last, 200);
    await stopping;
    await Promise.all([us.close(), silent.close(), serving.close()]);
  });
});

it('a probe without a server asks nothing, and goes on when there is one', async () => {
  const probe = new Probe({ uri: 'sip:x', everyMs: 5, stack: () => null, onChange: () => expect.unreachable() });
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(probe.state).toBe('unknown');
  probe.close();
});
