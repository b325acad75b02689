/**
 * Why a media thread was late: garbage collection, waiting for a core, its own work, or a stop of the process or the machine. The largest
 * share of the time counts. Garbage collections are only known some time later, so each case is judged after a while.
 */
import { openSync, readSync } from 'node:fs';
import { PerformanceObserver } from 'node:perf_hooks';
import type { LatePackets } from '../engine.js';
import type { LateCauses } from '../stats.js';

/** A slot that is later than this is heard by a phone with a short jitter buffer: with the time of a packet, a gap of 40 ms. */
export const heardFromMs = 19;
const judgedAfterMs = 100;
/** How often the thread's times are read, at most: what it did before a case would count as its cause. */
const readEveryMs = 10;
const mostPauses = 64;

/** The thread's time on a core and waiting for one, in ms since its start. */
export interface CoreTime {
  ranMs: number;
  waitedMs: number;
}

export interface LatenessParts {
  now(): number;
  /** null where the system does not tell. */
  coreTime(): CoreTime | null;
  after(ms: number, fn: () => void): void;
}

interface Case {
  dueMs: number;
  untilMs: number;
  ranMs: number;
  waitedMs: number;
  heardBy: LateCauses[];
  /** null: not judged yet. */
  cause: keyof LateCauses | null;
}

export function noLateCauses(): LateCauses {
  return { garbageCollection: 0, waitingForCore: 0, ownWork: 0, stopped: 0 };
}

export function noLatePackets(): LatePackets {
  return { ...noLateCauses(), agent: 0, unknown: 0 };
}

export class Lateness {
  /** Cases so far. */
  readonly causes = noLateCauses();
  private readonly pauses: { fromMs: number; untilMs: number }[] = [];
  private before: CoreTime | null;
  private readMs: number;
  /** The newest, and those that are not judged yet. */
  private last: Case | null = null;
  private readonly open = new Set<Case>();

  constructor(private readonly parts: LatenessParts) {
    this.before = parts.coreTime();
    this.readMs = parts.now();
  }

  /** Turns begin that are on time. */
  onTime(nowMs: number): void {
    if (nowMs - this.readMs < readEveryMs) return;
    this.before = this.parts.coreTime();
    this.readMs = nowMs;
  }

  /** A garbage collection stopped the thread. */
  collected(fromMs: number, durationMs: number): void {
    this.pauses.push({ fromMs, untilMs: fromMs + durationMs });
    if (this.pauses.length > mostPauses) this.pauses.shift();
  }

  /** A turn that was due at `dueMs` begins at `nowMs`. */
  late(dueMs: number, nowMs: number): void {
    const after = this.parts.coreTime();
    const { before } = this;
    const found: Case = {
      dueMs,
      untilMs: nowMs,
      ranMs: after && before ? after.ranMs - before.ranMs : 0,
      waitedMs: after && before ? after.waitedMs - before.waitedMs : 0,
      heardBy: [],
      cause: null,
    };
    this.before = after;
    this.readMs = nowMs;
    this.last = found;
    this.open.add(found);
    this.parts.after(judgedAfterMs, () => this.judge(found));
  }

  /** A packet of a call that was due at `dueMs` is late: the cause of the newest case counts in `causes` too. False when there is none since. */
  heard(causes: LateCauses, dueMs: number): boolean {
    const { last } = this;
    if (last === null || last.untilMs <= dueMs) return false;
    if (last.cause === null) last.heardBy.push(causes);
    else causes[last.cause] += 1;
    return true;
  }

  /** A call ends: what it heard is judged now, with the collections that are known. */
  settle(causes: LateCauses): void {
    for (const found of this.open) if (found.heardBy.includes(causes)) this.judge(found);
  }

  private judge(found: Case): void {
    if (!this.open.delete(found)) return;
    const { dueMs, untilMs, ranMs, waitedMs, heardBy } = found;
    const lateMs = untilMs - dueMs;
    let collectedMs = 0;
    for (const pause of this.pauses)
      collectedMs += Math.max(0, Math.min(pause.untilMs, untilMs) - Math.max(pause.fromMs, dueMs));
    const coreMs = Math.min(lateMs, waitedMs);
    const workMs = Math.min(lateMs, ranMs) - collectedMs;
    const stoppedMs = lateMs - coreMs - Math.min(lateMs, ranMs);
    let cause: keyof LateCauses = 'ownWork';
    let mostMs = workMs;
    for (const [name, ms] of [
      ['garbageCollection', collectedMs],
      ['waitingForCore', coreMs],
      ['stopped', stoppedMs],
    ] as const) {
      if (ms <= mostMs) continue;
      cause = name;
      mostMs = ms;
    }
    found.cause = cause;
    this.causes[cause] += 1;
    for (const causes of heardBy) causes[cause] += 1;
  }
}

/** Reports the garbage collections of the calling thread. Returns a function that stops it. */
export function observeCollections(collected: (fromMs: number, durationMs: number) => void): () => void {
  const observer = new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries()) collected(startTime, duration);
  });
  observer.observe({ entryTypes: ['gc'] });
  return () => observer.disconnect();
}

/** Reads the calling thread's times from the Linux scheduler; elsewhere always null. */
export function coreTimeOfThread(): () => CoreTime | null {
  let file: number;
  try {
    // Opened by this thread: `thread-self` is this thread, whichever thread reads.
    file = openSync('/proc/thread-self/schedstat', 'r');
  } catch {
    return () => null;
  }
  const text = Buffer.alloc(128);
  return () => {
    const [ran, waited] = text.toString('latin1', 0, readSync(file, text, 0, text.length, 0)).split(' ');
    return { ranMs: Number(ran) / 1e6, waitedMs: Number(waited) / 1e6 };
  };
}

export function addCauses(sum: LateCauses, causes: LateCauses): void {
  sum.garbageCollection += causes.garbageCollection;
  sum.waitingForCore += causes.waitingForCore;
  sum.ownWork += causes.ownWork;
  sum.stopped += causes.stopped;
}
