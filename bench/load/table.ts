/** Results as a table that can be pasted into a document. */
import { median, type Spread } from './figures.js';
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

/** Of each case the medians over its turns. */
export function medians(results: readonly Result[]): string {
  const names = [...new Set(results.map(({ name }) => name))];
  const head = [
    'median of the turns',
    'turns',
    'CPU % of a core per call',
    'wire p50 / p95 / p99 ms',
    'worst p99',
    'gaps > 40 ms',
  ];
  const rows = names.map((name) => {
    const turns = results.filter((result) => result.name === name);
    const of = (value: (result: Result) => number | null | undefined) =>
      median(turns.map((turn) => value(turn) ?? Number.NaN));
    const wire = [of(({ wire }) => wire?.p50), of(({ wire }) => wire?.p95), of(({ wire }) => wire?.p99)];
    return [
      name,
      String(turns.length),
      of(({ cpuPerCall }) => cpuPerCall).toFixed(3),
      wire.map((ms) => ms.toFixed(1)).join(' / '),
      Math.max(...turns.map(({ wire }) => wire?.p99 ?? Number.NaN)).toFixed(1),
      turns.map(({ figures }) => figures.gaps).join(', '),
    ];
  });
  return markdown([head, ...rows]);
}
