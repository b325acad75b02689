/** External SIP servers, several and not always there: played by our own server, which speaks drachtio-server's side of the protocol. */
import { afterEach, describe, expect, it } from 'vitest';
import { type SipServer, startSipServer } from '../../sip/server/start.js';
import { runCli } from '../../src/cli/program.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { ControlRelay } from '../support/control-relay.js';
import { HandPhone } from '../support/joined-call.js';
import { eventually } from '../support/media-engine.js';
import { addTrunk, placeOutbound } from '../support/outbound.js';
import { freePort } from '../support/port-ranges.js';
import { startScriptedAgent } from '../support/scripted-agent.js';
import { loopbackTrunk, openTestGateway } from '../support/sip-gateway.js';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** A SIP server behind a control port that stays the same when it is started anew, and that can be cut. */
class External {
  sip: SipServer | null = null;
  readonly relay: ControlRelay;

  private constructor(readonly controlPort: number) {
    this.relay = new ControlRelay(controlPort, () => ({ host: '127.0.0.1', port: this.sip?.control.port ?? 0 }));
  }

  static async prepare(): Promise<External> {
    const external = new External(await freePort());
    closing.push(() => external.stop());
    return external;
  }

  get setting(): string {
    return `drachtio://:${this.secret}@127.0.0.1:${this.controlPort}`;
  }

  secret = '';

  get port(): number {
    return this.sip?.addresses[0]?.port ?? 0;
  }

  /** The SIP side; the control port opens with `open`. */
  async start(): Promise<this> {
    this.sip = await startSipServer({
      listen: [{ transport: 'udp', host: '127.0.0.1', port: 0 }],
      timersMs: { t1: 100, t2: 400, t4: 500 },
    });
    this.secret = this.sip.control.secret;
    return this;
  }

  async open(): Promise<this> {
    await this.relay.open();
    return this;
  }

  cut(): Promise<void> {
    return this.relay.cut();
  }

  async stop(): Promise<void> {
    await this.cut();
    await this.sip?.close();
  }
}

async function appWith(
  ...externals: External[]
): Promise<{ app: TestApp; number: string; endpointId: string; numberId: string }> {
  const app = await startTestApp({ TRUNKLINE_SIP_SERVER: externals.map((each) => each.setting).join(',') });
  closing.push(() => app.stop(0));
  const agent = await startScriptedAgent();
  closing.push(() => agent.close());
  const number = '+12025553001';
  return { app, number, ...(await app.connectNumber(number, agent.url, { protocol: 'raw' })) };
}

async function phoneAt(external: External): Promise<HandPhone> {
  const phone = await HandPhone.open(external.port);
  closing.push(() => phone.close());
  return phone;
}

async function readiness(
  app: TestApp,
): Promise<{ status: number; ready: boolean; checks: { sip: boolean }; problems?: string[] }> {
  const response = await fetch(`${app.httpUrl}/readyz`);
  return { status: response.status, ...((await response.json()) as { ready: boolean; checks: { sip: boolean } }) };
}

const answered = (app: TestApp, number: string) =>
  eventually(async () => {
    const { data } = await app.api<{ data: { to_number: string; answered_at: string | null }[] }>('GET', '/v1/calls');
    return data.some((call) => call.to_number === number && call.answered_at !== null);
  }, 'the answer');

describe('two external SIP servers', () => {
  it('both bring calls and carry them, and both are named', async () => {
    const [one, two] = [await (await External.prepare()).start(), await (await External.prepare()).start()];
    await one.open();
    await two.open();
    const { app, number, endpointId, numberId } = await appWith(one, two);
    expect(await readiness(app)).toMatchObject({ status: 200, ready: true });
    expect(app.banner).toContain(`sip:127.0.0.1:${one.port} (udp), sip:127.0.0.1:${two.port} (udp)`);
    for (const external of [one, two]) {
      const caller = await phoneAt(external);
      const invite = caller.invite(number);
      caller.confirm(invite, await caller.sip.next(200));
      await caller.hangUp();
    }
    const callee = await HandPhone.open();
    closing.push(() => callee.close());
    await addTrunk(app, [`sip:127.0.0.1:${callee.sip.port}`]);
    const vias: string[] = [];
    for (const to of ['+12025553101', '+12025553102', '+12025553103', '+12025553104']) {
      placeOutbound(app, { to, numberId, endpointId });
      const invite = await callee.sip.next('INVITE');
      vias.push(/127\.0\.0\.1:(\d+)/.exec(invite.header('via'))?.[1] ?? '');
      callee.sip.serverPort = Number(vias.at(-1));
      callee.sip.respond(invite, 486);
      await callee.sip.next('ACK');
      await app.finishedCall(to);
    }
    expect(new Set(vias)).toEqual(new Set([String(one.port), String(two.port)]));
  });

  it('one is lost: its calls end, the other notices nothing, and it is found again', async () => {
    const [one, two] = [await (await External.prepare()).start(), await (await External.prepare()).start()];
    await one.open();
    await two.open();
    const { app, number } = await appWith(one, two);
    const lost = await phoneAt(one);
    lost.confirm(lost.invite(number), await lost.sip.next(200));
    await answered(app, number);
    const kept = await phoneAt(two);
    const second = '+12025553002';
    await app.connectNumber(second, (await agentFor()).url, { protocol: 'raw' });
    kept.confirm(kept.invite(second), await kept.sip.next(200));
    await answered(app, second);

    await one.cut();
    expect(await app.finishedCall(number)).toMatchObject({ hangup_cause: 'signalling_lost', status: 'failed' });
    const state = await readiness(app);
    expect(state).toMatchObject({ status: 200, ready: true });
    expect(state.problems).toEqual([expect.stringContaining(`127.0.0.1:${one.controlPort} was lost`)]);
    await kept.hangUp();
    expect(await app.finishedCall(second)).toMatchObject({ hangup_cause: 'normal_clearing', status: 'completed' });

    await one.open();
    await eventually(async () => (await readiness(app)).problems?.length === 0, 'the lost server');
    // The phone whose call was lost hears of it as soon as somebody can tell.
    lost.sip.respond(await lost.sip.next('BYE'), 200);
    const again = await phoneAt(one);
    const third = '+12025553003';
    await app.connectNumber(third, (await agentFor()).url, { protocol: 'raw' });
    again.confirm(again.invite(third), await again.sip.next(200));
    await again.hangUp();
    expect(await app.finishedCall(third)).toMatchObject({ status: 'completed' });
  });
});

describe('a message that is too long for drachtio-server', () => {
  it('is refused with a sentence, and the connection goes on', async () => {
    const one = await (await External.prepare()).start();
    await one.open();
    const trunks = [loopbackTrunk];
    const gateway = await openTestGateway(trunks, {
      server: { kind: 'drachtio', servers: [{ host: '127.0.0.1', port: one.controlPort, secret: one.secret }] },
    });
    closing.push(() => gateway.gateway.stop(0));
    const callee = await phoneAt(one);
    const dial = (fill: number) =>
      gateway.gateway.dial(
        {
          ...{ to: '+12025553199', from: '+12025553198', ringTimeoutMs: 5000, offerFor: async () => callee.rtp.sdp() },
          gateways: [{ uri: `sip:127.0.0.1:${callee.sip.port}` }],
          headers: { 'X-Long': 'x'.repeat(fill) },
        },
        new AbortController().signal,
      );
    await expect(dial(13_000)).rejects.toThrow(/the message has 13\d{3} bytes .*drachtio-server reads at most 12200/);
    const leg = dial(1000);
    const invite = await callee.sip.next('INVITE');
    callee.sip.respond(invite, 200, callee.contactLine, callee.rtp.sdp());
    const { ended } = await leg;
    await gateway.gateway.stop(0);
    expect(await ended).toMatchObject({ by: 'local' });
  });
});

async function agentFor() {
  const agent = await startScriptedAgent();
  closing.push(() => agent.close());
  return agent;
}

describe('an external SIP server that is down at the start', () => {
  it('is waited for: the API runs, and says so', async () => {
    const late = await (await External.prepare()).start();
    const { app, number } = await appWith(late);
    expect(await readiness(app)).toMatchObject({
      ...{ status: 503, ready: false, checks: { sip: false } },
      problems: [`The SIP server's control port 127.0.0.1:${late.controlPort} cannot be reached: connection refused.`],
    });
    expect(app.banner).toContain('no SIP server is connected yet');
    await late.open();
    await eventually(async () => (await readiness(app)).ready, 'the server');
    const caller = await phoneAt(late);
    caller.confirm(caller.invite(number), await caller.sip.next(200));
    await caller.hangUp();
    expect(await app.finishedCall(number)).toMatchObject({ status: 'completed' });
  });
});

describe('the command line', () => {
  it('calls and names the address that the server tells', async () => {
    const one = await (await External.prepare()).start();
    await one.open();
    const { app, number } = await appWith(one);
    const lines: string[] = [];
    const write = (line: string) => void lines.push(line);
    const env = { TRUNKLINE_SIP_SERVER: one.setting, TRUNKLINE_HTTP_PORT: String(new URL(app.httpUrl).port) };
    const run = (...words: string[]) => runCli(words, { env, out: write, err: write });
    expect(await run('call', number, '--duration', '300ms', '--json')).toBe(0);
    expect(JSON.stringify(lines)).toContain(`sip:127.0.0.1:${one.port};transport=udp`);
    expect(await app.finishedCall(number)).toMatchObject({ status: 'completed' });
    lines.length = 0;
    await run('doctor', '--json');
    expect(lines.join('\n')).toContain(`listens on udp 127.0.0.1:${one.port}`);
    await one.cut();
    lines.length = 0;
    expect(await run('call', number)).toBe(1);
    expect(lines.join('\n')).toContain(`127.0.0.1:${one.controlPort} cannot be reached`);
  });
});
