import fc from 'fast-check';
import { expect, it } from 'vitest';
import { writtenTime } from '../../src/store/database/written-time.js';

it('a time is written as Date writes it, whatever was written before', () => {
  const lastMs = Date.UTC(9999, 11, 31);
  const near = fc.tuple(
    fc.integer({ min: -lastMs / 10, max: lastMs }),
    fc.array(fc.integer({ min: -3000, max: 3000 })),
  );
  fc.assert(
    fc.property(near, ([ms, steps]) => {
      for (const step of [0, ...steps]) expect(writtenTime(ms + step)).toBe(new Date(ms + step).toISOString());
    }),
  );
});
