/** UUIDv7 by the thousand: randomness is drawn for many at once, since each draw costs more than the id. */
import { randomFillSync } from 'node:crypto';
import { V7Generator } from 'uuidv7';

const pool = new Uint32Array(1024);
let at = pool.length;
const generator = new V7Generator({
  nextUint32: () => {
    if (at === pool.length) {
      randomFillSync(pool);
      at = 0;
    }
    return pool[at++] as number;
  },
});

export function newId(): string {
  return generator.generate().toString();
}

/** Smaller than every UUIDv7 of this time and later, greater than every earlier one: its first 48 bits are milliseconds since 1970. */
export function boundOf(ms: number): string {
  const digits = ms.toString(16).padStart(12, '0');
  return `${digits.slice(0, 8)}-${digits.slice(8)}`;
}

/** The time in an id, or in its beginning. */
export function timeOf(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}
