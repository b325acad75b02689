/** Formats text for terminals: aligned tables and facts, numbers with units, times; without control characters. */

export type Cell = string | number | boolean | null | undefined;

export interface Column {
  title: string;
  right?: boolean;
}

const gap = '  ';

/** A heading and one line per row. The last column is not padded. */
export function table(columns: readonly Column[], rows: readonly (readonly Cell[])[]): string[] {
  const cells = [columns.map((column) => column.title), ...rows.map((row) => columns.map((_, i) => plain(row[i])))];
  const widths = columns.map((_, i) => Math.max(...cells.map((row) => (row[i] ?? '').length)));
  return cells.map((row) =>
    row
      .map((cell, i) => (columns[i]?.right ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0)))
      .join(gap)
      .trimEnd(),
  );
}

/** `name  value`, names padded to one width. */
export function facts(pairs: readonly (readonly [string, Cell])[]): string[] {
  const width = Math.max(0, ...pairs.map(([name]) => name.length));
  return pairs.map(([name, value]) => `${name.padEnd(width)}${gap}${plain(value)}`.trimEnd());
}

/** A number with its unit, `-` if there is none. */
export function quantity(value: number | null | undefined, unit: string, digits = 0): string {
  return value === null || value === undefined ? '-' : `${value.toFixed(digits)} ${unit}`;
}

/** `1 call`, `2 calls`. */
export function count(amount: number, one: string, many = `${one}s`): string {
  return `${amount} ${amount === 1 ? one : many}`;
}

/** An RFC 3339 time to the second, in UTC. */
export function time(iso: string | null): string {
  return iso === null ? '-' : iso.replace(/\.\d+Z$/, 'Z');
}

/** Replaces control characters by `?`, because values from callers and carriers could control the terminal. */
export function plain(value: Cell): string {
  if (value === null || value === undefined || value === '') return '-';
  return String(value).replace(/\p{Cc}|\p{Cf}|\p{Zl}|\p{Zp}/gu, '?');
}
