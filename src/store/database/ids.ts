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
