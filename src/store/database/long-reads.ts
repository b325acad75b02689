import { CallInsights } from '../calls/call-insights.js';
import { CallOverviews } from '../calls/call-overview.js';
import { CallReads } from '../calls/call-reads.js';
import { CallSearch } from '../calls/call-search.js';
import { RecordingList } from '../calls/recording-list.js';
import { WebhookDeliveries } from '../routing/webhook-deliveries.js';
import { Accounts } from '../tenants/accounts.js';
import { systemClock } from './clock.js';
import type { Database } from './database.js';

/**
 * Questions that take the longer the more records there are, by name; the first argument says whose they are. They are asked in a process of
 * their own (`sqlite/long-read-process.ts`), so that they hold up no call.
 */
export function longReads(database: Database) {
  const insights = new CallInsights(database);
  const accounts = new Accounts(database, systemClock);
  const calls = new CallReads(database, () => Promise.resolve()); // the caller flushes queued writes first
  const deliveries = new WebhookDeliveries(database, systemClock);
  const overviews = new CallOverviews(database);
  const search = new CallSearch(database);
  const recordings = new RecordingList(database);
  return {
    overview: overviews.read.bind(overviews),
    search: search.find.bind(search),
    listCalls: search.findListed.bind(search),
    listRecordings: recordings.find.bind(recordings),
    insights: insights.read.bind(insights),
    ledger: accounts.ledger.bind(accounts),
    eventsAfter: calls.eventsAfter.bind(calls),
    deliveries: deliveries.list.bind(deliveries),
  };
}

export type LongReads = ReturnType<typeof longReads>;

export interface LongReader {
  /** Rejects with `StoreError` `too_slow`, `too_many` or `unavailable`. */
  ask<N extends keyof LongReads>(
    name: N,
    ...asked: Parameters<LongReads[N]>
  ): Promise<Awaited<ReturnType<LongReads[N]>>>;
  close(): void;
}
