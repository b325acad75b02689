/**
 * Stops a process for a moment, again and again (SIGSTOP, SIGCONT), and finds out how long the delay of each call stays above the one before. It is
 * seen at pulses only: five a second while the caller talks.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { machineMs } from './clock.js';
import type { Spread } from './figures.js';
import { spread } from './figures.js';

const everyMs = 3000;
/** The delay before a stop is the median of this long. */
const beforeMs = 2000;
/** A call has recovered when its delay exceeds the one before by no more than this. */
const toleranceMs = 5;

/** A pulse that came back: to which call, when, and after how long. */
export interface PulseTimes {
  call: Uint16Array;
  atMs: Float64Array;
  wireMs: Float64Array;
}

/** Ends after `seconds`; returns when each stop ended, on the machine's clock. */
export async function stopAgainAndAgain(pid: number, stopMs: number, seconds: number): Promise<number[]> {
  const endMs = machineMs() + seconds * 1000;
  const endedMs: number[] = [];
  await sleep(beforeMs);
  while (machineMs() + everyMs <= endMs) {
    process.kill(pid, 'SIGSTOP');
    try {
      await sleep(stopMs);
    } finally {
      process.kill(pid, 'SIGCONT');
    }
    endedMs.push(machineMs());
    await sleep(everyMs - stopMs);
  }
  return endedMs;
}

export interface Recovery {
  stops: number;
  /** From the end of a stop until the delay is the one before again, over all calls and stops, in ms; 0 when it never rose. */
  spread: Spread | null;
  /** Share of the calls whose delay was still higher at the next stop. */
  never: number;
}

export function recoveries({ call, atMs, wireMs }: PulseTimes, stopsMs: readonly number[]): Recovery {
  const calls = new Map<number, { atMs: number; wireMs: number }[]>();
  for (let i = 0; i < call.length; i++) {
    const pulses = calls.get(call[i]!) ?? [];
    pulses.push({ atMs: atMs[i]!, wireMs: wireMs[i]! });
    calls.set(call[i]!, pulses);
  }
  const took: number[] = [];
  let never = 0;
  for (const [n, stopMs] of stopsMs.entries()) {
    const untilMs = stopsMs[n + 1] ?? stopMs + everyMs;
    for (const pulses of calls.values()) {
      const before = pulses.filter((each) => each.atMs > stopMs - beforeMs && each.atMs < stopMs);
      const after = pulses.filter((each) => each.atMs >= stopMs && each.atMs < untilMs);
      if (before.length === 0 || after.length === 0) continue;
      const usualMs = before.map((each) => each.wireMs).sort((a, b) => a - b)[before.length >> 1]!;
      const lastLate = after.findLastIndex((each) => each.wireMs > usualMs + toleranceMs);
      if (lastLate === after.length - 1) never += 1;
      else took.push(lastLate < 0 ? 0 : after[lastLate + 1]!.atMs - stopMs);
    }
  }
  return { stops: stopsMs.length, spread: spread(took), never: never / Math.max(1, took.length + never) };
}

export function recoveryText({ stops, spread: took, never }: Recovery): string {
  const seconds = (ms: number) => (ms / 1000).toFixed(2);
  if (took === null)
    return `${stops} stops: ${never > 0 ? 'no call had the delay of before again before the next stop' : 'no pulses were heard'}`;
  return (
    `${stops} stops; the delay was the one before again after ${seconds(took.p50)} / ${seconds(took.p95)} / ${seconds(took.worst)} s ` +
    `(p50 / p95 / worst); not before the next stop: ${(never * 100).toFixed(1)} % of the calls`
  );
}
