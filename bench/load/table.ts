/** Results as a table that can be pasted into a document. */
import type { Spread } from './figures.js';
import type { Result } from './rig.js';

export const columns = [
  'case',
  'calls',
  'CPU % of a core per call',
  'wire p50 / p99 / p99.9 ms',
  'ear p50 / p99 / p99.9 ms',
  'uplink p50 / p99 ms',
  'gaps > 40 ms',
  'lost',
  'MB per call',
  'descriptors',
];

export function cells(result: Result): string[] {
  const { figures } = result;
  const own = figures.ownGaps > 0 ? ` (+${figures.ownGaps} of the load generator)` : '';
  return [
    result.name,
    String(result.answered),
    result.cpuPerCall?.toFixed(3) ?? '-',
    spreadText(result.wire),
    spreadText(result.ear),
    result.uplink ? `${result.uplink.p50.toFixed(2)} / ${result.uplink.p99.toFixed(2)}` : '-',
    `${figures.gaps}${own}`,
    `${((figures.lost / Math.max(1, figures.received + figures.lost)) * 100).toFixed(3)} %`,
    result.memoryPerCallMb?.toFixed(3) ?? '-',
    result.descriptors?.join(' → ') ?? '-',
  ];
}

export function spreadText(value: Spread | null): string {
  return value === null ? '-' : [value.p50, value.p99, value.p999].map((ms) => ms.toFixed(1)).join(' / ');
}

export function markdown([head = [], ...rows]: string[][]): string {
  const line = (row: string[]) => `| ${row.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}
