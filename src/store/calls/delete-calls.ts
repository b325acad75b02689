import type { Transaction } from '../database/database.js';
import type { Tables } from '../database/tables.js';

/** What belongs to a call, by its `call_id`, and is kept by month with it. */
const byMonth = ['call_quality', 'call_traces', 'call_events'] as const satisfies (keyof Tables)[];
/** What belongs to a call, and is kept for all months together. */
export const besideMonths = [
  ...(['webhook_deliveries', 'recordings', 'call_funds', 'call_dialogs', 'waiting_events'] as const),
] satisfies (keyof Tables)[];

/** Everything that belongs to a call, what refers to others first. */
export const ofCall = [...besideMonths, ...byMonth];

/** Deletes the records of calls with everything that belongs to them: on PostgreSQL no reference does it. */
export async function deleteCalls(transaction: Transaction, ids: readonly string[]): Promise<void> {
  for (const table of ofCall) await transaction.deleteAll(table, 'call_id', ids);
  await transaction.deleteAll('calls', 'id', ids);
}
