/** A part of a file, with inclusive bounds. */
export interface ByteRange {
  from: number;
  to: number;
}

/**
 * The part that a `Range` header requests (RFC 9110 §14.2). null is the whole file, also for headers that may be ignored: another unit, several
 * ranges, invalid syntax. 'unsatisfiable' is a range outside the file.
 */
export function byteRange(header: string | undefined, bytes: number): ByteRange | null | 'unsatisfiable' {
  const [, first, last] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header?.trim() ?? '') ?? [];
  if (first === undefined || last === undefined || (first === '' && last === '')) return null;
  if (first === '') {
    const from = Math.max(0, bytes - Number(last));
    return from < bytes ? { from, to: bytes - 1 } : 'unsatisfiable';
  }
  if (last !== '' && Number(last) < Number(first)) return null;
  if (Number(first) >= bytes) return 'unsatisfiable';
  return { from: Number(first), to: Math.min(last === '' ? bytes - 1 : Number(last), bytes - 1) };
}
