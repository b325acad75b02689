/** Real drachtio-servers: all of them bring and carry calls, and the loss of one is noticed by its own calls only. */
import { afterEach, describe, expect, it } from 'vitest';
import { runCli } from '../../src/cli/program.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { ControlRelay } from '../support/control-relay.js';
import { drachtioServers, sayWhatIsSkipped } from '../support/external-servers.js';
import { HandPhone, numberOfAgent } from '../support/joined-call.js';
import { eventually } from '../support/media-engine.js';
import { addTrunk, placeOutbound } from '../support/outbound.js';
import { freePort } from '../support/port-ranges.js';
import { startScriptedAgent } from '../support/scripted-agent.js';

sayWhatIsSkipped();

const servers = drachtioServers ?? [];
const closing: (() => unknown)[] = [];
let nextNumber = 12025557000;
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

interface Reached {
  app: TestApp;
  relays: ControlRelay[];
  /** The SIP port of each server. */
  ports: number[];
}

/** An app whose connections to the servers can be cut. */
async function appOverRelays(): Promise<Reached> {
  const relays: ControlRelay[] = [];
  for (const { host, port } of servers) {
    const relay = new ControlRelay(await freePort(), () => ({ host, port }));
    await relay.open();
    closing.push(() => relay.cut());
    relays.push(relay);
  }
  const setting = servers.map(({ secret }, i) => `drachtio://:${secret}@127.0.0.1:${relays[i]?.port}`).join(',');
  const app = await startTestApp({ TRUNKLINE_SIP_SERVER: setting });
  closing.push(() => app.stop(0));
  const ports = app.sip.addresses.filter(({ transport }) => transport === 'udp').map(({ port }) => port);
  return { app, relays, ports };
}

async function phone(serverPort = 0): Promise<HandPhone> {
  const made = await HandPhone.open(serverPort);
  closing.push(() => made.close());
  return made;
}

async function numberWithAgent(app: TestApp) {
  const agent = await startScriptedAgent();
  closing.push(() => agent.close());
  const number = `+${nextNumber++}`;
  return { number, ...(await app.connectNumber(number, agent.url, { protocol: 'raw' })) };
}

async function readiness(app: TestApp): Promise<{ status: number; problems: string[] }> {
  const response = await fetch(`${app.httpUrl}/readyz`);
  return { status: response.status, ...((await response.json()) as { problems: string[] }) };
}

const answered = (app: TestApp, number: string) =>
  eventually(async () => {
    const { data } = await app.api<{ data: { to_number: string; answered_at: string | null }[] }>('GET', '/v1/calls');
    return data.some((call) => call.to_number === number && call.answered_at !== null);
  }, 'the answer');

describe.skipIf(servers.length === 0)('drachtio-server', () => {
  it('brings calls by each server, and carries outbound calls in turn', async () => {
    const { app, ports } = await appOverRelays();
    expect(ports).toHaveLength(servers.length);
    expect(await readiness(app)).toMatchObject({ status: 200, problems: [] });
    for (const port of ports) {
      expect(app.banner).toMatch(new RegExp(`sip:127\\.0\\.0\\.1:${port} \\([a-z, ]*udp`));
      const { number } = await numberWithAgent(app);
      const caller = await phone(port);
      caller.confirm(caller.invite(number), await caller.sip.next(200));
      await caller.hangUp();
      expect(await app.finishedCall(number)).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing' });
    }
    const callee = await phone();
    await addTrunk(app, [`sip:127.0.0.1:${callee.sip.port}`]);
    const { numberId, endpointId } = await numberWithAgent(app);
    const through = new Set<number>();
    for (let i = 0; i < servers.length * 2; i++) {
      const to = `+${nextNumber++}`;
      placeOutbound(app, { to, numberId, endpointId });
      const invite = await callee.sip.next('INVITE');
      const port = Number(/127\.0\.0\.1:(\d+)/.exec(invite.header('via'))?.[1]);
      through.add(port);
      callee.sip.serverPort = port;
      callee.sip.respond(invite, 486);
      await callee.sip.next('ACK');
      await app.finishedCall(to);
    }
    expect(through).toEqual(new Set(ports));
  });

  it.skipIf(servers.length < 2)(
    'loses one: its calls end, the other notices nothing, and it is found again',
    async () => {
      const { app, relays, ports } = await appOverRelays();
      const [first, second] = [await numberWithAgent(app), await numberWithAgent(app)];
      const [lost, kept] = [await phone(ports[0]), await phone(ports[1])];
      lost.confirm(lost.invite(first.number), await lost.sip.next(200));
      kept.confirm(kept.invite(second.number), await kept.sip.next(200));
      await answered(app, first.number);
      await answered(app, second.number);
      await relays[0]?.cut();
      expect(await app.finishedCall(first.number)).toMatchObject({ hangup_cause: 'signalling_lost', status: 'failed' });
      const state = await readiness(app);
      expect(state.status).toBe(200);
      expect(state.problems).toEqual([expect.stringContaining(`127.0.0.1:${relays[0]?.port} was lost`)]);
      await kept.hangUp();
      expect(await app.finishedCall(second.number)).toMatchObject({ status: 'completed' });
      await relays[0]?.open();
      await eventually(async () => (await readiness(app)).problems.length === 0, 'the lost server');
      lost.sip.respond(await lost.sip.next('BYE'), 200);
      const third = await numberWithAgent(app);
      const again = await phone(ports[0]);
      again.confirm(again.invite(third.number), await again.sip.next(200));
      await again.hangUp();
      expect(await app.finishedCall(third.number)).toMatchObject({ status: 'completed' });
    },
  );

  it('gives a caller that rang at the loss a final answer when it is back', async () => {
    const { app, relays, ports } = await appOverRelays();
    const [caller, agent] = [await phone(ports[0]), await phone(ports[0])];
    const number = await numberOfAgent(app, agent);
    const invite = caller.invite(number);
    const ringing = await agent.sip.next('INVITE');
    agent.sip.serverPort = Number(/127\.0\.0\.1:(\d+)/.exec(ringing.header('via'))?.[1]);
    agent.sip.respond(ringing, 180, agent.contactLine);
    await relays[0]?.cut();
    await app.finishedCall(number);
    await relays[0]?.open();
    expect((await caller.sip.next(503)).header('call-id')).toBe(invite.callId);
  });

  it('is waited for when it is down at the start', async () => {
    const [server] = servers;
    const relay = new ControlRelay(await freePort(), () => ({ host: server!.host, port: server!.port }));
    const app = await startTestApp({ TRUNKLINE_SIP_SERVER: `drachtio://:${server!.secret}@127.0.0.1:${relay.port}` });
    closing.push(
      () => relay.cut(),
      () => app.stop(0),
    );
    const state = await readiness(app);
    expect(state.status).toBe(503);
    expect(state.problems).toEqual([
      `The SIP server's control port 127.0.0.1:${relay.port} cannot be reached: connection refused.`,
    ]);
    await relay.open();
    await eventually(async () => (await readiness(app)).status === 200, 'the server');
  });

  it('refuses a wrong secret with a sentence', async () => {
    const [server] = servers;
    const wrong = `drachtio://:not-${server!.secret}@${server!.host}:${server!.port}`;
    await expect(startTestApp({ TRUNKLINE_SIP_SERVER: wrong })).rejects.toThrow(/refused our secret/);
  });

  it('is what the command line names and calls', async () => {
    const { app, relays, ports } = await appOverRelays();
    const { number } = await numberWithAgent(app);
    const lines: string[] = [];
    const setting = servers.map(({ secret }, i) => `drachtio://:${secret}@127.0.0.1:${relays[i]?.port}`).join(',');
    const env = { TRUNKLINE_SIP_SERVER: setting, TRUNKLINE_HTTP_PORT: new URL(app.httpUrl).port };
    const write = (line: string) => void lines.push(line);
    const run = (...words: string[]) => runCli(words, { env, out: write, err: write });
    expect(await run('call', number, '--duration', '300ms', '--json')).toBe(0);
    expect(await app.finishedCall(number)).toMatchObject({ status: 'completed' });
    lines.length = 0;
    await run('doctor', '--json');
    for (const port of ports) expect(lines.join('\n')).toContain(`udp 127.0.0.1:${port}`);
  });
});
