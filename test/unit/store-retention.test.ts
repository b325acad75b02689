import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { RecordingFiles } from '../../src/api/recordings/recording-files.js';
import { Retention } from '../../src/retention.js';
import type { Store } from '../../src/store/store.js';
import type { Scope } from '../../src/store/tenants/scope.js';
import { FakeClock } from '../support/fake-clock.js';
import { openStore } from '../support/open-store.js';

const dayMs = 86_400_000;
const nowMs = Date.UTC(2026, 5, 1);
const end = { status: 'completed', hangupCause: 'normal_clearing', hangupSource: 'caller', durationSec: 3 } as const;
let folder: string;
let clock: FakeClock;
let store: Store;
let kept: Scope;
let limited: Scope;

beforeEach(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'trunkline-retention-'));
  clock = new FakeClock(nowMs);
  store = await openStore({ file: path.join(folder, 'trunkline.db'), clock });
  const organization = async (days: number | null): Promise<Scope> => {
    const made = await store.organizations.create({ name: 'A', tier: 'pro', limits: { call_retention_days: days } });
    return { organizationId: made.id, mode: 'live' };
  };
  kept = await organization(null);
  limited = await organization(30);
});
afterEach(async () => {
  await store.close();
  rmSync(folder, { recursive: true });
});

const retention = (removeFile?: (url: string) => Promise<void>) => {
  const files = new RecordingFiles(folder);
  const log = pino({ level: 'silent' });
  return new Retention({
    isOurs: () => true,
    expired: store.expiredCalls,
    months: store.expiredMonths,
    removeFile: removeFile ?? ((url) => files.remove(url)),
    ...{ clock, log },
  });
};

/** A call that began so many days ago and has ended, with a recording. */
async function call(scope: Scope, daysAgo: number, ended = true): Promise<{ id: string; file: string }> {
  const id = store.calls.begin({
    ...scope,
    ...{ direction: 'inbound', fromNumber: '+1', toNumber: '+2', phoneNumberId: 'n', endpointId: null },
    createdAt: new Date(nowMs - daysAgo * dayMs),
  });
  const file = path.join(folder, 'recordings', `${id}.wav`);
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, 'RIFF');
  store.calls.recorded(id, pathToFileURL(file).href);
  if (ended) store.calls.finish(id, { ...end, quality: { mos: 4.2 } });
  await store.calls.flush();
  return { id, file };
}

const idsOf = async (scope: Scope) =>
  (await store.records.list(scope, {}, { limit: 100, offset: 0 })).data.map(({ id }) => id);

describe('calls that are older than call_retention_days', () => {
  it('go with events, recordings and figures; all others stay', async () => {
    const old = await call(limited, 31);
    const test = await call({ ...limited, mode: 'test' }, 31);
    const young = await call(limited, 29);
    const running = await call(limited, 31, false);
    const others = await call(kept, 400);
    const take = path.join(folder, 'recordings', 'take.wav');
    writeFileSync(take, 'RIFF');
    const url = pathToFileURL(take).href;
    await store.recordings.add({
      ...{ id: 'r', callId: old.id, token: 't', file: url, durationMs: 1, bytes: 4, createdAt: new Date(nowMs) },
    });
    const cleaning = retention();
    await cleaning.look();
    expect(await idsOf(limited)).toEqual([young.id, running.id]);
    expect(await idsOf({ ...limited, mode: 'test' })).toEqual([]);
    expect(await idsOf(kept)).toEqual([others.id]);
    expect([old, test, young, running, others].map(({ file }) => existsSync(file))).toEqual([
      ...[false, false, true, true, true],
    ]);
    expect(existsSync(take)).toBe(false);
    expect(await store.records.detail(limited, old.id)).toBeUndefined();
    expect(await store.records.stats(limited, {})).toMatchObject({ completed: 1, in_progress: 1 });
    expect(cleaning.deleted).toBe(2);
    clock.set(nowMs + 2 * dayMs); // the young one has grown old
    const afterwards = async () => {
      await cleaning.look(); // gives up when the database is busy
      return idsOf(limited);
    };
    await expect.poll(afterwards).toEqual([running.id]);
    expect(await store.records.stats(limited, {})).toMatchObject({ completed: 0, in_progress: 1 });
  });

  it('are found by many steps, and a file that cannot be deleted keeps its record and holds up no other call', async () => {
    const stuck = await call(limited, 90);
    for (let n = 0; n < 60; n += 1) await call(limited, 60);
    const files = new RecordingFiles(folder);
    const cleaning = retention((url) =>
      url.includes(stuck.id) ? Promise.reject(new Error('EACCES')) : files.remove(url),
    );
    await cleaning.look();
    expect(await idsOf(limited)).toEqual([stuck.id]);
    expect(cleaning.deleted).toBe(60);
  });

  it('go once when two processes delete them, and figures stay right', async () => {
    const { id } = await call(limited, 31);
    expect(await Promise.all([store.expiredCalls.remove([id]), store.expiredCalls.remove([id])])).toEqual([1, 0]);
    expect(await store.records.stats(limited, {})).toMatchObject({ completed: 0 });
  });

  it('are looked for a minute after the start, and then every ten minutes', async () => {
    const cleaning = retention();
    cleaning.start();
    const first = await call(limited, 31);
    clock.advance(59_000);
    expect(await idsOf(limited)).toEqual([first.id]);
    clock.advance(1_000);
    await expect.poll(() => idsOf(limited)).toEqual([]);
    await call(limited, 31);
    await expect
      .poll(async () => {
        clock.advance(600_000);
        return idsOf(limited);
      })
      .toEqual([]);
    await cleaning.stop();
  });
});
