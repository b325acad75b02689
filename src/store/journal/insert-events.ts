import type { Transaction } from '../database/database.js';
import type { EventTuple } from './entries.js';

const eventColumns = ['id', 'call_id', 'sequence', 'event_type', 'event_data', 'created_at'];

export async function insertEvents(transaction: Transaction, events: readonly EventTuple[]): Promise<void> {
  await transaction.insertAll('call_events', eventColumns, events);
}
