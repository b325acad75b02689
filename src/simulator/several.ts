/** Several calls at a given rate, analysed after the last one: earlier analysis would delay the calls that still run. */
import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { CallPlan, CapturedCall, Phone } from './phone/phone.js';
import type { CallReport } from './report.js';

export interface SeveralPlan extends CallPlan {
  calls: number;
  callsPerSecond: number;
}

/** Statistics over all calls that have the figure. */
export interface MedianSpread {
  medianMs: number;
  p95Ms: number;
  worstMs: number;
}

export interface Summary {
  calls: number;
  answered: number;
  ok: number;
  /** Number of calls with each problem, by its text. */
  problems: Record<string, number>;
  setup: MedianSpread | null;
  roundTrip: MedianSpread | null;
  /** Share of all packets of all calls. */
  lossPercent: number | null;
  worstJitterMs: number | null;
  worstMos: number | null;
}

/** Starts the calls at the rate, each with its own random losses. Resolves when all are over. */
export async function placeSeveral(phone: Phone, plan: SeveralPlan, signal: AbortSignal): Promise<CapturedCall[]> {
  setMaxListeners(0, signal); // one listener per call
  const startMs = performance.now();
  const running: Promise<CapturedCall>[] = [];
  for (let index = 0; index < plan.calls && !signal.aborted; index++) {
    const waitMs = startMs + (index * 1000) / plan.callsPerSecond - performance.now();
    if (waitMs > 0) await sleep(waitMs, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) break;
    const impairments = { ...plan.impairments, seed: (plan.impairments.seed ?? 1) + index };
    const call = phone.call({ ...plan, impairments }, signal);
    call.catch(() => undefined); // reported by the last line, once all have begun
    running.push(call);
  }
  return Promise.all(running);
}

export function summarize(reports: readonly CallReport[]): Summary {
  const problems: Record<string, number> = {};
  for (const problem of reports.flatMap((report) => report.problems)) problems[problem] = (problems[problem] ?? 0) + 1;
  const lost = sum(reports.map((report) => report.received.lost));
  const expected = lost + sum(reports.map((report) => report.received.packets - report.received.duplicates));
  return {
    calls: reports.length,
    answered: reports.filter((report) => report.answered).length,
    ok: reports.filter((report) => report.ok).length,
    problems,
    setup: spread(reports.map((report) => report.setupMs)),
    roundTrip: spread(reports.map((report) => report.roundTrip?.medianMs ?? null)),
    lossPercent: expected > 0 ? (lost / expected) * 100 : null,
    worstJitterMs: numbers(reports.map((report) => report.received.jitterMs)).at(-1) ?? null,
    worstMos: numbers(reports.map((report) => report.received.mos))[0] ?? null,
  };
}

function spread(values: readonly (number | null)[]): MedianSpread | null {
  const sorted = numbers(values);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  return sorted.length === 0 ? null : { medianMs: at(0.5), p95Ms: at(0.95), worstMs: at(1) };
}

/** The figures that are not null, ascending. */
function numbers(values: readonly (number | null)[]): number[] {
  return values.filter((value) => value !== null).sort((a, b) => a - b);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
