import { StoreError } from '../database/errors.js';

/** Work that is done one after the other. What has waited longer than the limit is refused, and never begins. */
export class WriteQueue {
  private last: Promise<unknown> = Promise.resolve();

  constructor(private readonly limitMs: number) {}

  /** Rejects with `StoreError` `unavailable` when the turn does not come in time. */
  take<T>(work: () => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      let isLate = false;
      const limit = setTimeout(() => {
        isLate = true;
        reject(new StoreError('unavailable', 'The database is busy with other changes'));
      }, this.limitMs);
      this.last = this.last.then(() => {
        clearTimeout(limit);
        return isLate ? undefined : work().then(resolve, reject);
      });
    });
  }
}
