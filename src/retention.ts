/** Deletes calls that are older than their organization keeps them, with events and recordings, in small steps beside traffic. */
import { performance } from 'node:perf_hooks';
import type { Logger } from './log.js';
import type { ExpiredCall, ExpiredCalls } from './store/calls/expired-calls.js';
import type { ExpiredMonths } from './store/calls/expired-months.js';
import type { CallMonth } from './store/database/call-months.js';
import type { Clock } from './store/database/clock.js';
import { StoreError } from './store/database/errors.js';
import type { Scope } from './store/tenants/scope.js';

export interface RetentionOptions {
  expired: ExpiredCalls;
  /** null: the database keeps calls of all times together. */
  months: ExpiredMonths | null;
  /** Deletes the file of a recording; one that is gone already is no error. */
  removeFile(recordingUrl: string): Promise<void>;
  /** Whether this node deletes: one node does it for all. */
  isOurs(): boolean;
  clock: Clock;
  log: Logger;
}

const firstLookAfterMs = 60_000;
const lookEveryMs = 600_000;
/** With 20 events each, a step of so many calls holds the writer for some 10 ms. */
const callsPerStep = 25;
/** Between two steps: so many times as long as the step took, so that traffic has most of the database. */
const pauseFactor = 4;
const leastPauseMs = 20;

export class Retention {
  /** Calls deleted since the start. */
  deleted = 0;
  private cancelTimer: (() => void) | null = null;
  private looking: Promise<void> = Promise.resolve();
  private isStopped = false;
  private endPause: (() => void) | null = null;

  constructor(private readonly options: RetentionOptions) {}

  start(): void {
    this.schedule(firstLookAfterMs);
  }

  /** Resolves when the step under way is over. */
  async stop(): Promise<void> {
    this.isStopped = true;
    this.cancelTimer?.();
    this.endPause?.();
    await this.looking;
  }

  /** Deletes all that is expired now. Resolves early when the database cannot be used; the next time goes on. */
  look(): Promise<void> {
    this.looking = this.looking.then(() => this.lookAtAll());
    return this.looking;
  }

  private schedule(inMs: number): void {
    if (this.isStopped) return;
    this.cancelTimer = this.options.clock.after(inMs, () => {
      void this.look().then(() => this.schedule(lookEveryMs));
    });
  }

  private async lookAtAll(): Promise<void> {
    const { expired, months, log, isOurs } = this.options;
    if (!isOurs()) return;
    if (months !== null) await this.dropMonths(months);
    try {
      for (const { scope, keptFromMs } of await expired.scopesWithRetention()) {
        const deleted = await this.deleteOf(scope, keptFromMs);
        if (deleted > 0)
          log.info({ organization_id: scope.organizationId, calls: deleted }, 'deleted calls that had expired');
      }
    } catch (error) {
      if (!(error instanceof StoreError)) log.error({ err: error }, 'expired calls could not be deleted');
    }
  }

  /** What cannot be dropped now goes in steps. */
  private async dropMonths(months: ExpiredMonths): Promise<void> {
    try {
      await months.makeAhead();
      for (const month of await months.all()) await this.dropMonth(months, month);
    } catch (error) {
      if (!(error instanceof StoreError))
        this.options.log.error({ err: error }, 'a month of expired calls could not be deleted');
    }
  }

  /** Deletes a month of calls that no organization keeps: what lies beside it in steps, then the rest at once. */
  private async dropMonth(months: ExpiredMonths, month: CallMonth): Promise<void> {
    const { log, isOurs } = this.options;
    const mayGoOn = () => !this.isStopped && isOurs();
    for (let strays = await months.strays(month, callsPerStep); strays.length > 0; ) {
      if (!mayGoOn() || (await this.removeStep(strays)).removed === 0) return; // a call that is not over, or a file that cannot be deleted: single calls go all the same
      strays = await months.strays(month, callsPerStep);
    }
    for await (const { callId, url } of months.recordings(month))
      if (!mayGoOn() || !(await this.removeFiles(callId, [url]))) return;
    do {
      if (!mayGoOn()) return;
      await this.pause(leastPauseMs);
    } while (await months.forgetDeliveries(month));
    const calls = await months.drop(month);
    if (calls === null) return;
    this.deleted += calls;
    log.info({ month: month.name, calls }, 'deleted a month of calls that had expired');
  }

  private async deleteOf(scope: Scope, keptFromMs: number): Promise<number> {
    const { expired, isOurs } = this.options;
    let deleted = 0;
    let skipped = 0; // calls with a file that cannot be deleted: the next look tries again
    while (!this.isStopped && isOurs()) {
      const calls = await expired.oldest(scope, keptFromMs, callsPerStep, skipped);
      if (calls.length === 0) break;
      const { ready, removed } = await this.removeStep(calls);
      skipped += calls.length - ready;
      deleted += removed;
    }
    return deleted;
  }

  /** Deletes these calls, and pauses. */
  private async removeStep(calls: readonly ExpiredCall[]): Promise<{ ready: number; removed: number }> {
    const startedMs = performance.now();
    const ready: string[] = [];
    for (const { id, recordings } of calls) if (await this.removeFiles(id, recordings)) ready.push(id);
    const removed = await this.options.expired.remove(ready);
    this.deleted += removed;
    await this.pause(Math.max(leastPauseMs, pauseFactor * (performance.now() - startedMs)));
    return { ready: ready.length, removed };
  }

  /** Files first: one that is left behind would have no record that refers to it. */
  private async removeFiles(callId: string, recordings: readonly string[]): Promise<boolean> {
    try {
      for (const url of recordings) await this.options.removeFile(url);
      return true;
    } catch (error) {
      this.options.log.error({ err: error, call_id: callId }, 'the recording of an expired call could not be deleted');
      return false;
    }
  }

  private pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      timer.unref();
      this.endPause = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
