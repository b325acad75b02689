/** RTP ports that are used up, that somebody else has, and that an old peer still sends to: a gateway with four pairs. */
import { createSocket, type Socket } from 'node:dgram';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, it } from 'vitest';
import type { FarCall } from '../support/far-ends.js';
import { demo, faultScene, undisturbed } from '../support/fault-scene.js';
import { asSetting, portPairs } from '../support/port-ranges.js';
import { type ScriptedAgent, startScriptedAgent } from '../support/scripted-agent.js';
import { TalkingCaller } from '../support/talking-caller.js';

const pairs = 4;
const range = portPairs(pairs);
const quietMs = 1000;
/** 30 s outside tests; long enough that a pair stays shut out while the test looks. */
const retryMs = 5000;
const number = '+19995562000';

/** Hears everybody, one after the other. */
let agent: ScriptedAgent;
let heard: number[] = [];

const scene = faultScene({
  environment: { TRUNKLINE_LOG_LEVEL: 'silent', TRUNKLINE_RTP_PORTS: asSetting(range) },
  timersMs: { t1: 50, t2: 400, t4: 500 },
  start: { rtpQuarantineMs: quietMs, rtpTakenPortRetryMs: retryMs },
  prepare: async (app) => {
    agent = await startScriptedAgent({ onBinary: (bytes) => void heard.push(...bytes) });
    await app.connectNumber(number, agent.url, { protocol: 'raw', encoding: 'ulaw' });
  },
  after: async () => {
    for (const caller of callers.splice(0)) await caller.bye();
  },
});
afterAll(() => agent.close());

/** Callers of a test; those that a failure left over hang up after it. */
const callers: TalkingCaller[] = [];
async function call(): Promise<TalkingCaller> {
  const caller = await TalkingCaller.call(scene.ends, number);
  callers.push(caller);
  return caller;
}

const ports = () => scene.app.media.load().ports;
const free = (count: number) =>
  expect.poll(() => pairs - ports().used - ports().quarantined, { timeout: 35_000 }).toBe(count);

async function ending(call: FarCall): Promise<string> {
  const scope = { organizationId: scene.app.first?.organizationId ?? '', mode: 'live' as const };
  const row = async () =>
    (await scene.app.store.records.list(scope, {}, { limit: 100, offset: 0 })).data.find(
      ({ sipCallId, status }) => sipCallId === call.callId && status !== 'in_progress',
    );
  await expect.poll(row, { timeout: 10_000 }).toBeTruthy();
  return `${(await row())!.status} ${(await row())!.hangupCause}`;
}

/** No call at all finds a pair. */
async function expectNone(): Promise<void> {
  const refused = scene.ends.call(demo);
  expect(await refused.final()).toBe(503);
  const answer = refused.received.find(({ startLine }) => startLine.startsWith('SIP/2.0 503'));
  expect(Number(answer?.get('retry-after'))).toBeGreaterThan(0);
  expect(await ending(refused)).toBe('failed overload');
}

describe('M4: a phone that goes on sending after its call', () => {
  it('keeps its port from others, and is never heard in another call', async () => {
    await free(pairs);
    await undisturbed(scene, async () => {
      heard = [];
      const old = await call();
      old.talk(() => new Uint8Array(160).fill(166));
      await expect.poll(() => heard.length).toBeGreaterThan(800);
      await old.far.bye();
      await expect.poll(() => ports().quarantined).toBe(1);
      heard = [];
      // Every other pair is used again and again meanwhile; two at once, so that none is left over.
      for (let round = 0; round < 2; round++) {
        const others = [await call(), await call()];
        await expect.poll(() => heard.length).toBeGreaterThan(1600);
        await expectNone();
        for (const other of others) expect(other.phone.to!.port).not.toBe(old.phone.to!.port);
        for (const other of others) await other.bye();
        await free(pairs - 2);
      }
      expect(heard).not.toContain(166);
      old.close();
      await free(pairs - 1); // but for the call beside it
    });
  });

  it('and whose port is used again after a pause is not heard there either, though it speaks first', async () => {
    await free(pairs);
    await undisturbed(scene, async () => {
      const old = await call();
      await old.far.bye();
      old.hush();
      await free(pairs - 1);
      heard = [];
      const others = [];
      for (let n = 0; n < pairs - 1; n++) others.push(await call());
      expect(others.map(({ phone }) => phone.to!.port)).toContain(old.phone.to!.port);
      await expect.poll(() => heard.length).toBeGreaterThan(3000);
      old.talk(() => new Uint8Array(160).fill(166));
      await sleep(500); // real time: 25 packets of the old phone, and none may be heard
      expect(heard).not.toContain(166);
      for (const other of others) await other.bye();
      old.close();
    });
  });
});

describe('M8: no pair is left', () => {
  it('503 with Retry-After, nothing is left of it, and the next call after an end finds one', async () => {
    await free(pairs);
    await undisturbed(scene, async () => {
      const all = [];
      for (let n = 0; n < pairs - 1; n++) all.push(await call());
      for (let n = 0; n < 5; n++) await expectNone();
      expect(ports()).toMatchObject({ used: pairs });
      await all.pop()!.bye();
      await free(1);
      all.push(await call());
      for (const caller of all) await caller.bye();
    });
  });
});

describe('M9: another process has ports of the range', () => {
  it('calls find the others; when all are taken 503; and afterwards each is found again', async () => {
    await free(pairs);
    scene.baseline = null; // the squatters come and go
    const squatters: Socket[] = [];
    const squat = (port: number) =>
      new Promise<void>((resolve, reject) => {
        const socket = createSocket('udp4').once('error', reject);
        squatters.push(socket.bind(port, '127.0.0.1', resolve));
      });
    await undisturbed(scene, async () => {
      const beside = [...scene.ends.calls.values()].at(-1)!;
      const answer = beside.received.find(({ startLine }) => startLine.startsWith('SIP/2.0 200'));
      const used = Number(/^m=audio (\d+)/m.exec(answer!.body.toString())?.[1]);
      const others = Array.from({ length: pairs }, (_, i) => range.from + 2 * i).filter((port) => port !== used);
      // One RTP port, one RTCP port: half of what is left.
      await squat(others[0]!);
      await squat(others[1]! + 1);
      const caller = await call();
      expect(caller.phone.to!.port).toBe(others[2]);
      await expectNone();
      expect(ports()).toEqual({ used: 2, quarantined: 2, total: pairs });
      await caller.bye();
      for (const socket of squatters.splice(0)) socket.close();
      await free(pairs - 1); // a pair that another program held is tried again after `retryMs`
    });
  }, 120_000);
});
