let second = Number.NaN;
let beginning = '';

/**
 * A time in milliseconds as RFC 3339 in UTC, as `Date.toISOString` writes it. What belongs to one call happens within few seconds, so the
 * beginning of the last text is used again.
 */
export function writtenTime(ms: number): string {
  const ofSecond = Math.floor(ms / 1000);
  if (ofSecond !== second) {
    beginning = new Date(ofSecond * 1000).toISOString().slice(0, -4);
    second = ofSecond;
  }
  return `${beginning}${String(ms - ofSecond * 1000).padStart(3, '0')}Z`;
}
