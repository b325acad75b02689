/** The process dies under a hundred calls: after the restart no record is open and no far end waits. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { appendFile, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { SipRequest, type SipResponse } from '../../sip/server/message/message.js';
import { SipPeer as HandPeer, someSdp } from '../support/bare-sip-peer.js';
import { type FarCall, FarEnds } from '../support/far-ends.js';
import { expectInvariants } from '../support/invariants.js';
import { asSetting, freePort, gatewayPorts, processPorts } from '../support/port-ranges.js';
import { startReceiver } from '../support/receiver.js';
import { SipPeer } from '../support/sip-peer.js';
import { SDP } from '../support/sip-server.js';

const calls = 100;
const key = `trunkline_live_${'k'.repeat(32)}`;
const program = fileURLToPath(new URL('../../bin/trunkline.js', import.meta.url));

let folder: string;
let running: ChildProcess[];

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'trunkline-killed-'));
  running = [];
});
afterEach(async () => {
  for (const child of running) child.kill('SIGKILL');
  await rm(folder, { recursive: true });
});

/** The program itself, as a process of its own; resolves when it is ready. */
async function startProgram(
  sipPort: number,
  httpPort: number,
  rtpPorts = asSetting(processPorts),
  more: Record<string, string> = {},
): Promise<ChildProcess> {
  const child = spawn(process.execPath, [program, 'start'], {
    cwd: folder,
    env: {
      PATH: process.env.PATH,
      TRUNKLINE_DATA_DIR: folder,
      TRUNKLINE_SIP_PORT: String(sipPort),
      TRUNKLINE_HTTP_PORT: String(httpPort),
      TRUNKLINE_RTP_PORTS: rtpPorts,
      TRUNKLINE_MEDIA_THREADS: '1',
      TRUNKLINE_BOOTSTRAP_KEY: key,
      TRUNKLINE_RTP_FIRST_TIMEOUT_SEC: '0',
      ...more,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  running.push(child);
  let said = '';
  await new Promise<void>((resolve, reject) => {
    const limit = setTimeout(() => reject(new Error(`Not ready after 45 s: ${said}`)), 45_000);
    const hear = (chunk: Buffer) => {
      said += chunk.toString();
      if (!said.includes('trunkline is ready')) return;
      clearTimeout(limit);
      resolve();
    };
    child.stdout?.on('data', hear);
    child.stderr?.on('data', hear);
    child.once('exit', (code) => reject(new Error(`Ended with ${code}: ${said}`)));
  });
  return child;
}

interface Listed {
  data: { id: string; status: string; duration: number; hangup_cause: string | null; answered_at: string | null }[];
}

async function records(httpPort: number): Promise<Listed['data']> {
  const response = await fetch(`http://127.0.0.1:${httpPort}/v1/calls?limit=100`, {
    headers: { authorization: `Bearer ${key}` },
  });
  return ((await response.json()) as Listed).data;
}

interface Detail {
  status: string;
  hangup_cause: string;
  recording_url: string | null;
  events: { event_type: string; event_data: Record<string, unknown> }[];
}

async function detail(httpPort: number, id: string): Promise<Detail> {
  const headers = { authorization: `Bearer ${key}` };
  return (await (await fetch(`http://127.0.0.1:${httpPort}/v1/calls/${id}`, { headers })).json()) as Detail;
}

async function recordDemo(httpPort: number): Promise<void> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const listed = await fetch(`http://127.0.0.1:${httpPort}/v1/endpoints`, { headers });
  const [endpoint] = ((await listed.json()) as { data: { id: string }[] }).data;
  const body = JSON.stringify({ record: true });
  const changed = await fetch(`http://127.0.0.1:${httpPort}/v1/endpoints/${endpoint?.id}`, {
    method: 'PATCH',
    headers,
    body,
  });
  if (!changed.ok) throw new Error(await changed.text());
}

async function demoNumber(httpPort: number): Promise<string> {
  const response = await fetch(`http://127.0.0.1:${httpPort}/v1/phone-numbers`, {
    headers: { authorization: `Bearer ${key}` },
  });
  const [number] = ((await response.json()) as { data: { number: string }[] }).data;
  if (!number) throw new Error('The first start made no number');
  return number.number;
}

/** A number whose calls a webhook steers, and whose events it is told. */
async function steeredNumber(httpPort: number, url: string): Promise<string> {
  const post = async (route: string, body: object) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const made = await fetch(`http://127.0.0.1:${httpPort}${route}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    });
    if (!made.ok) throw new Error(await made.text());
    return (await made.json()) as { id: string };
  };
  const config = { target: `${url}/start`, provider_config: { events_url: `${url}/events` } };
  const { id } = await post('/v1/endpoints', { name: 'steered', type: 'webhook', ...config });
  await post('/v1/phone-numbers', { number: '+12025557777', endpoint_id: id });
  return '+12025557777';
}

/** Answered and acknowledged calls; every BYE that comes is answered and noted. */
async function establish(peer: SipPeer, sipPort: number, number: string, byes: Set<string>): Promise<void> {
  const acked = new Set<string>();
  const refusals: string[] = [];
  const wanted = calls;
  let offered = 0;
  const offer = () => {
    const i = offered++;
    const line = `INVITE sip:${number}@127.0.0.1:${sipPort} SIP/2.0`;
    peer.send(peer.request('INVITE', { 'Call-ID': `killed-${i}`, From: `<sip:+1555${i}@h>;tag=f${i}` }, SDP, line));
  };
  const done = new Promise<void>((resolve, reject) => {
    const limit = setTimeout(
      () => reject(new Error(`Only ${acked.size} calls were answered, ${refusals.length} refused: ${refusals[0]}`)),
      25_000,
    );
    peer.onMessage = (message) => {
      if (message instanceof SipRequest) {
        if (message.method !== 'BYE') return;
        byes.add(message.callId);
        peer.respond(message, 200);
        return;
      }
      if (message.cseq?.method !== 'INVITE' || message.status < 200) return;
      if (message.status !== 200) {
        // a machine that is busy with other tests may shed some: as a carrier does, offer another
        refusals.push(message.startLine);
        setTimeout(offer, 300);
        return;
      }
      const lines = { From: message.get('from')!, To: message.get('to')!, 'Call-ID': message.callId };
      peer.send(peer.request('ACK', { ...lines, CSeq: '1 ACK' }));
      acked.add(message.callId);
      if (acked.size < wanted) return;
      clearTimeout(limit);
      resolve();
    };
  });
  for (let i = 0; i < wanted; i++) {
    offer();
    if (i % 10 === 9) await new Promise((resolve) => setTimeout(resolve, 100));
  }
  await done;
}

it('kill -9 under 100 calls: 10 s after the restart every record is closed and every far end has its BYE', async () => {
  const [sipPort, httpPort] = [await freePort(), await freePort()];
  const first = await startProgram(sipPort, httpPort);
  const peer = await SipPeer.open(sipPort);
  const byes = new Set<string>();
  await establish(peer, sipPort, await demoNumber(httpPort), byes);
  await expect.poll(async () => (await records(httpPort)).filter((call) => call.answered_at).length).toBe(calls);
  first.kill('SIGKILL');
  await once(first, 'exit');
  expect(byes.size).toBe(0);

  await startProgram(sipPort, httpPort);
  const restartedMs = Date.now();
  await expect.poll(() => byes.size, { timeout: 10_000 }).toBe(calls);
  const closed = (await records(httpPort)).filter((call) => call.answered_at);
  expect(Date.now() - restartedMs).toBeLessThan(10_000);
  expect(closed.map((call) => `${call.status} ${call.hangup_cause}`)).toEqual(
    Array(calls).fill('failed system_restart'),
  );
  // never longer than the process lived: up to its last heartbeat
  for (const call of closed) expect(call.duration).toBeLessThan(40);
  await expectInvariants({ file: path.join(folder, 'trunkline.db') });
  await peer.close();
}, 90_000);

/** What is younger than this when the process dies may not be on disk: 50 ms, and what a busy machine adds. */
const unsafeMs = 1000;

it.runIf(process.env.FAULTS === 'long')(
  'kill -9 at any moment, twenty times, under up to 100 calls that come and go: each time all of it',
  async () => {
    const [sipPort, httpPort] = [await freePort(), await freePort()];
    let child = await startProgram(sipPort, httpPort);
    const number = await demoNumber(httpPort);
    for (let round = 0; round < 20; round++) {
      const sinceMs = Date.now();
      const ends = await FarEnds.open(sipPort);
      const lifeMs = 500 + Math.random() * 6000;
      const killed = sleep(lifeMs).then(() => {
        child.kill('SIGKILL');
        return performance.now();
      });
      let isDead = false;
      const exited = once(child, 'exit').then(() => {
        isDead = true;
      });
      for (let i = 0; i < calls && !isDead; i++) {
        const call = ends.call(number);
        // every third one leaves by itself, unless the process dies first
        if (i % 3 === 0)
          void call
            .final(10_000)
            .then(() => sleep(Math.random() * 1500))
            .then(() => call.bye(100))
            .catch(() => undefined);
        await sleep(20);
      }
      await exited;
      const diedMs = await killed;
      child = await startProgram(sipPort, httpPort);
      const isSafe = (call: FarCall) => call.confirmedAtMs !== null && call.confirmedAtMs < diedMs - unsafeMs;
      // whose BYE was not answered any more says it again
      for (const call of [...ends.calls.values()].filter((each) => each.cseq > 1 && each.endedAtMs === null))
        expect([200, 481]).toContain(await call.bye());
      const left = () => [...ends.calls.values()].filter((call) => isSafe(call) && call.endedAtMs === null);
      const open = left().length;
      await expect.poll(() => left().length, { timeout: 10_000 }).toBe(0);
      await expectInvariants({
        file: path.join(folder, 'trunkline.db'),
        sinceMs,
        farEnds: [...ends.calls.values()].filter(isSafe),
        durationSlackSec: 20, // up to its last heartbeat, and its BYE came after the restart
      });
      process.stdout.write(
        `${round + 1}: killed after ${Math.round(lifeMs)} ms, ${ends.calls.size} calls, ${open} closed\n`,
      );
      await ends.close();
    }
  },
  900_000,
);

it('kill -9 while a call is recorded: after the restart the file is whole, and the record knows of it', async () => {
  const [sipPort, httpPort] = [await freePort(), await freePort()];
  const first = await startProgram(sipPort, httpPort);
  const number = await demoNumber(httpPort);
  await recordDemo(httpPort);
  const peer = await SipPeer.open(sipPort);
  peer.send(peer.request('INVITE', {}, SDP, `INVITE sip:${number}@127.0.0.1:${sipPort} SIP/2.0`));
  const answer = await peer.response(200, 'INVITE');
  const lines = { From: answer.get('from')!, To: answer.get('to')!, 'Call-ID': answer.callId };
  peer.send(peer.request('ACK', { ...lines, CSeq: '1 ACK' }));
  const recorded = async () =>
    (await readdir(folder, { recursive: true }))
      .filter((name) => name.endsWith('.wav'))
      .map((name) => path.join(folder, name))[0];
  await expect
    .poll(async () => ((await recorded()) ? statSync((await recorded())!).size : 0), { timeout: 10_000 })
    .toBeGreaterThan(32_044);
  first.kill('SIGKILL');
  await once(first, 'exit');
  const file = (await recorded())!;
  await appendFile(file, Buffer.alloc(1001)); // what was written when it died, before its header was

  await startProgram(sipPort, httpPort);
  const [call] = await records(httpPort);
  await expect.poll(async () => (await detail(httpPort, call!.id)).recording_url, { timeout: 5000 }).toBeTruthy();
  const bytes = await readFile(file);
  expect(bytes.readUInt32LE(40)).toBe(bytes.length - 44);
  expect(bytes.readUInt32LE(4)).toBe(bytes.length - 8);
  const { status, hangup_cause, events } = await detail(httpPort, call!.id);
  expect([status, hangup_cause]).toEqual(['failed', 'system_restart']);
  expect(events.at(-1)).toMatchObject({ event_type: 'recording.completed', event_data: { bytes: bytes.length } });
  await expectInvariants({ file: path.join(folder, 'trunkline.db'), records: 1 });
  await peer.close();
}, 60_000);

it('SIGTERM under calls: new ones hear 503, running ones end with BYE after the grace, records are right and told, exit 0', async () => {
  const [sipPort, httpPort] = [await freePort(), await freePort()];
  const child = await startProgram(sipPort, httpPort, asSetting(processPorts), { TRUNKLINE_SHUTDOWN_GRACE_SEC: '2' });
  const number = await demoNumber(httpPort);
  const receiver = await startReceiver((request, response) => {
    const actions = [{ action: 'answer' }, { action: 'pause', seconds: 60 }];
    if (request.path === '/events') response.writeHead(204).end();
    else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ actions }));
  });
  const steered = await steeredNumber(httpPort, receiver.url);
  const ends = await FarEnds.open(sipPort);
  const calls = Array.from({ length: 10 }, (_, i) => ends.call(i < 3 ? steered : number));
  for (const call of calls) expect(await call.final()).toBe(200);
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  // the signal may take a moment on a busy machine: until then calls are taken
  let late = ends.call(number);
  while ((await late.final()) === 200) late = ends.call(number);
  expect(late.finalStatus).toBe(503);
  for (const call of calls) await call.ended();
  expect((await exited)[0]).toBe(0);
  await expectInvariants({
    file: path.join(folder, 'trunkline.db'),
    farEnds: ends.calls.values(),
    hasRecord: (call) => call !== late,
    receiver: { ...receiver, requests: receiver.requests.filter((request) => request.path === '/events') },
  });
  await ends.close();
  await receiver.close();
}, 60_000);

it('two programs on one database: neither closes the calls of the other', async () => {
  const [sipA, httpA, sipB, httpB] = [await freePort(), await freePort(), await freePort(), await freePort()];
  await startProgram(sipA, httpA);
  const peer = await SipPeer.open(sipA);
  const number = await demoNumber(httpA);
  peer.send(peer.request('INVITE', {}, SDP, `INVITE sip:${number}@127.0.0.1:${sipA} SIP/2.0`));
  const answer = await peer.response(200, 'INVITE');
  const lines = { From: answer.get('from')!, To: answer.get('to')!, 'Call-ID': answer.callId };
  peer.send(peer.request('ACK', { ...lines, CSeq: '1 ACK' }));
  await expect.poll(async () => (await records(httpA))[0]?.answered_at).toBeTruthy();
  const second = await startProgram(sipB, httpB, asSetting(gatewayPorts));
  expect((await records(httpB))[0]?.status).toBe('in_progress');
  second.kill('SIGTERM');
  const [code] = await once(second, 'exit');
  expect(code).toBe(0);
  expect((await records(httpA))[0]?.status).toBe('in_progress');
  peer.send(peer.request('BYE', { ...lines, CSeq: '2 BYE' }));
  await peer.response(200, 'BYE');
  await expect.poll(async () => (await records(httpA))[0]?.status).toBe('completed');
  await expectInvariants({ file: path.join(folder, 'trunkline.db'), records: 1 });
  await peer.close();
}, 60_000);

it('killed while a callee rings: after the restart that phone gets CANCEL, and a late 200 gets ACK and BYE', async () => {
  const [sipPort, httpPort] = [await freePort(), await freePort()];
  const child = await startProgram(sipPort, httpPort);
  const from = await demoNumber(httpPort);
  const [silenced, stubborn] = [await HandPeer.open(sipPort), await HandPeer.open(sipPort)];
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const ask = async (method: string, route: string, body?: object) => {
    const init = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
    const response = await fetch(`http://127.0.0.1:${httpPort}${route}`, init);
    if (!response.ok) throw new Error(await response.text());
    return (await response.json()) as { id: string; data: { id: string }[] };
  };
  const endpoint = (await ask('GET', '/v1/endpoints')).data[0]?.id;
  const invites = [];
  for (const [index, phone] of [silenced, stubborn].entries()) {
    const gateways = [{ uri: `sip:127.0.0.1:${phone.port}` }];
    const trunk = await ask('POST', '/v1/trunks', { name: `carrier ${index}`, direction: 'outbound', gateways });
    const wish = { to_number: `+1202555010${index}`, from_number: from, endpoint_id: endpoint };
    await ask('POST', '/v1/outbound-calls', wish);
    const invite = await phone.next('INVITE');
    phone.respond(invite, 180, [`Contact: ${phone.contact}`]);
    invites.push(invite);
    await ask('PATCH', `/v1/trunks/${trunk.id}`, { status: 'inactive' });
  }
  await expect
    .poll(async () => {
      const all = await Promise.all((await records(httpPort)).map(({ id }) => detail(httpPort, id)));
      return all.filter(({ events }) => events.some((event) => event.event_type === 'call.ringing')).length;
    })
    .toBe(2);
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
  await startProgram(sipPort, httpPort);

  for (const [index, phone] of [silenced, stubborn].entries()) {
    const cancel = await phone.next('CANCEL', 30_000);
    const invite = invites[index]!;
    expect(cancel.header('via')).toBe(invite.header('via'));
    expect(cancel.header('cseq')).toBe('1 CANCEL');
    expect([cancel.header('from'), cancel.header('to')]).toEqual([invite.header('from'), invite.header('to')]);
    expect(cancel.startLine).toBe(invite.startLine.replace('INVITE', 'CANCEL'));
  }
  silenced.respond(invites[0]!, 487);
  expect((await silenced.next('ACK')).header('cseq')).toBe('1 ACK');
  stubborn.respond(invites[1]!, 200, [`Contact: ${stubborn.contact}`], someSdp);
  await stubborn.next('ACK');
  stubborn.respond(await stubborn.next('BYE'), 200);
  expect(new Set((await records(httpPort)).map((call) => [call.status, call.hangup_cause].join(' ')))).toEqual(
    new Set(['failed system_restart']),
  );
  await silenced.close();
  await stubborn.close();
}, 90_000);

it('killed while a caller hears ringing: after the restart that caller gets 503', async () => {
  const [sipPort, httpPort] = [await freePort(), await freePort()];
  const child = await startProgram(sipPort, httpPort);
  const silent = await startReceiver(() => {});
  const number = await steeredNumber(httpPort, silent.url);
  const ends = await FarEnds.open(sipPort);
  const caller = ends.call(number);
  const ringing = (await caller.next(180)) as SipResponse;
  await expect
    .poll(async () => (await detail(httpPort, (await records(httpPort))[0]?.id ?? '')).events.map((e) => e.event_type))
    .toContain('call.ringing');
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
  await startProgram(sipPort, httpPort);
  const refusal = (await caller.next(503, 'INVITE', 30_000)) as SipResponse;
  expect(refusal.toTag).toBe(ringing.toTag);
  expect((await records(httpPort)).map((call) => [call.status, call.hangup_cause])).toEqual([
    ['failed', 'system_restart'],
  ]);
  await ends.close();
  await silent.close();
}, 90_000);
