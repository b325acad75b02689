/**
 * What every file of faults has around its tests: one gateway, far ends and a second organization for each test, and after each of them the
 * nine promises.
 */
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import type { StartOptions } from '../../src/main.js';
import type { CallDetail } from '../../src/store/calls/call-records.js';
import type { Scope } from '../../src/store/tenants/scope.js';
import { startTestApp, type TestApp } from './app.js';
import { type FarCall, FarEnds } from './far-ends.js';
import { Baseline, Bystander, expectInvariants, type Scene } from './invariants.js';
import { OtherTenant } from './other-tenant.js';
import type { Receiver } from './receiver.js';
import { TalkingCaller } from './talking-caller.js';

export const demo = '+15550100';

export interface FaultScene {
  readonly app: TestApp;
  readonly ends: FarEnds;
  /** Where the gateway listens. */
  readonly port: number;
  /** Where the records of its calls are. */
  readonly scope: Scope;
  /** The record of a far end's call, with its events; undefined before it is begun. */
  recordOf(call: FarCall): Promise<CallDetail | undefined>;
  sinceMs: number;
  /** null: its descriptors may be others afterwards. */
  baseline: Baseline | null;
  receiver: Receiver | null;
  records: number | undefined;
  hasRecord: Scene['hasRecord'];
}

export interface FaultSetting {
  environment?: Record<string, string>;
  timersMs: { t1: number; t2: number; t4: number };
  start?: Pick<StartOptions, 'sipLimits' | 'sipTrusted' | 'log' | 'rtpQuarantineMs' | 'rtpTakenPortRetryMs'>;
  /** For the promises to come true. */
  limitMs?: number;
  /** Once, with the gateway just started. */
  prepare?(app: TestApp): Promise<void> | void;
  /** Before each test; what it opens is there already when resources are counted. */
  before?(scene: FaultScene): Promise<void> | void;
  /** After each test, before the promises are checked. */
  after?(): Promise<void> | void;
  /** And when they have been. */
  finally?(): Promise<void> | void;
}

/** Registers the hooks of a test file. */
export function faultScene(setting: FaultSetting): FaultScene {
  let app: TestApp;
  let ends: FarEnds;
  let other: OtherTenant;
  const scene: FaultScene = {
    get app() {
      return app;
    },
    get ends() {
      return ends;
    },
    get port() {
      return app.sip.addresses[0]!.port;
    },
    get scope() {
      return { organizationId: app.first?.organizationId ?? '', mode: 'live' as const };
    },
    async recordOf({ callId }) {
      const { records } = app.store;
      const { data } = await records.list(scene.scope, {}, { limit: 500, offset: 0 });
      const found = data.find((row) => row.sipCallId === callId);
      return found && (await records.detail(scene.scope, found.id));
    },
    ...{ sinceMs: 0, baseline: null, receiver: null, records: undefined, hasRecord: undefined },
  };
  beforeAll(async () => {
    const environment = { TRUNKLINE_RTP_FIRST_TIMEOUT_SEC: '0', ...setting.environment };
    app = await startTestApp(environment, setting.timersMs, setting.start);
    await setting.prepare?.(app);
    // what is opened once and stays, such as the disk's and a connection of the database, is not of a fault
    const warm = await FarEnds.open(scene.port);
    const first = warm.call(demo);
    await first.final();
    await first.bye();
    await warm.close();
    await scene.recordOf(first);
  });
  beforeEach(async () => {
    ends = await FarEnds.open(scene.port);
    other = await OtherTenant.open(app);
    await setting.before?.(scene);
    Object.assign(scene, { receiver: null, records: undefined, hasRecord: undefined });
    scene.baseline = new Baseline();
    scene.sinceMs = Date.now();
  });
  afterEach(async () => {
    try {
      await setting.after?.();
      const { baseline, receiver, records, hasRecord, sinceMs } = scene;
      await expectInvariants({
        ...{ file: app.databaseFile, sinceMs, farEnds: ends.calls.values(), app, other },
        limits: { limitMs: setting.limitMs ?? 15_000 },
        ...(baseline ? { baseline } : {}),
        ...(receiver ? { receiver } : {}),
        ...(records === undefined ? {} : { records }),
        ...(hasRecord === undefined ? {} : { hasRecord }),
      });
    } finally {
      await setting.finally?.();
      await scene.receiver?.close();
      await ends.close();
    }
  });
  afterAll(() => app.end());
  return scene;
}

/** As many at once as there are steps, in waves that two cores can carry. */
export async function sweep(steps: number, one: (step: number) => Promise<void>, wave = 50): Promise<void> {
  for (let from = 0; from < steps; from += wave)
    await Promise.all(Array.from({ length: Math.min(wave, steps - from) }, (_, i) => one(from + i)));
}

/** Calls that are answered. */
export async function answered(ends: FarEnds, count: number): Promise<FarCall[]> {
  const calls = Array.from({ length: count }, () => ends.call(demo));
  for (const call of calls) {
    const status = await call.final();
    if (status !== 200) throw new Error(`${call.callId} was answered ${status}`);
  }
  return calls;
}

/**
 * Runs `act` beside a call with sound, which nothing may disturb. On a machine that is busy with something else a packet may be late whatever we
 * do: then all of it once more.
 */
export async function undisturbed(scene: FaultScene, act: (attempt: number) => Promise<void>): Promise<void> {
  let problems: string[] = [];
  for (let attempt = 0; attempt < 3; attempt++) {
    const beside = await TalkingCaller.call(scene.ends, demo);
    try {
      await beside.phone.until(() => beside.loud > 5, 'its own words again');
      const bystander = new Bystander(beside.phone.heard);
      try {
        await act(attempt);
      } finally {
        problems = bystander.problems();
      }
    } finally {
      await beside.bye();
    }
    if (problems.length === 0) return;
  }
  throw new Error(problems.join('\n'));
}
