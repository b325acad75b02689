/** Percentiles, and what a process used by the kernel's own count. */
import { readdirSync, readFileSync } from 'node:fs';

export interface Spread {
  count: number;
  p50: number;
  p95: number;
  p99: number;
  p999: number;
  worst: number;
}

export function spread(values: Float64Array | number[]): Spread | null {
  const sorted = Float64Array.from(values).sort();
  if (sorted.length === 0) return null;
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!;
  return { count: sorted.length, p50: at(0.5), p95: at(0.95), p99: at(0.99), p999: at(0.999), worst: at(1) };
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

export interface ProcessFigures {
  atMs: number;
  /** Processor time of each thread, by its id: what the scheduler counted, in ms. */
  threadsMs: Map<string, number>;
  /** Clock ticks of each thread in the kernel and outside of it: coarser, for their ratio. */
  ticks: Map<string, { user: number; system: number }>;
  memoryMb: number;
  descriptors: number;
}

/** Of several processes together. */
export function figuresOfAll(pids: readonly number[]): ProcessFigures {
  const all = pids.map(figuresOf);
  const sum = (of: (each: ProcessFigures) => number) => all.reduce((whole, each) => whole + of(each), 0);
  return {
    atMs: performance.now(),
    threadsMs: new Map(all.flatMap(({ threadsMs }) => [...threadsMs])),
    ticks: new Map(all.flatMap(({ ticks }) => [...ticks])),
    memoryMb: sum(({ memoryMb }) => memoryMb),
    descriptors: sum(({ descriptors }) => descriptors),
  };
}

export function figuresOf(pid: number): ProcessFigures {
  const threadsMs: ProcessFigures['threadsMs'] = new Map();
  const ticks: ProcessFigures['ticks'] = new Map();
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    try {
      const ran = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0];
      threadsMs.set(thread, Number(ran) / 1e6);
      const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8');
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      ticks.set(thread, { user: Number(fields[11]), system: Number(fields[12]) });
    } catch {
      // It ended meanwhile.
    }
  }
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return {
    atMs: performance.now(),
    threadsMs,
    ticks,
    memoryMb: Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024,
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
  };
}

/** Percent of one core between two samples. */
export function cpuPercent(from: ProcessFigures, to: ProcessFigures): number {
  let usedMs = 0;
  for (const [thread, ms] of to.threadsMs) usedMs += ms - (from.threadsMs.get(thread) ?? 0);
  return (usedMs / (to.atMs - from.atMs)) * 100;
}

/** The same per thread, the busiest first, with the share spent in the kernel. */
export function threadPercents(pid: number, from: ProcessFigures, to: ProcessFigures): string {
  return [...to.threadsMs]
    .map(([thread, ms]) => ({
      thread,
      percent: ((ms - (from.threadsMs.get(thread) ?? 0)) / (to.atMs - from.atMs)) * 100,
    }))
    .filter(({ percent }) => percent > 0.1)
    .sort((a, b) => b.percent - a.percent)
    .map(({ thread, percent }) => {
      const [before, after] = [from.ticks.get(thread), to.ticks.get(thread)];
      const system = (after?.system ?? 0) - (before?.system ?? 0);
      const all = system + (after?.user ?? 0) - (before?.user ?? 0);
      const name = thread === String(pid) ? 'main' : 'worker';
      return `${name} ${percent.toFixed(2)} (kernel ${all > 0 ? ((system / all) * 100).toFixed(0) : '-'} %)`;
    })
    .join(', ');
}
