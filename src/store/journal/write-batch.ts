import type { Transaction } from '../database/database.js';
import { StoreError } from '../database/errors.js';
import { planHold } from '../tenants/holds.js';
import { applyEntries, nothingWritten } from './apply-entries.js';
import type { Admission, BatchOutcome, BeginEntry, Entry } from './entries.js';
import { countRunning } from './running-calls.js';
import type { Batch, BatchAnswer } from './writer-protocol.js';

/** Runs `work` in a transaction that no other writer comes between. */
export type Together = <T>(work: (transaction: Transaction) => Promise<T>) => Promise<T>;

/** Writes a batch in one transaction, with its number, while the lease of its node holds. A batch whose number is written already, by a thread or a connection that was lost before it could say so, is not written again. */
export async function writeBatch(together: Together, batch: Batch): Promise<BatchAnswer> {
  const { instanceId, number, entries } = batch;
  try {
    return await together(async (transaction) => {
      const lease = await transaction.row<{ number: number | null }>(position, instanceId);
      if (lease === undefined) return fenced;
      if (lease.number !== null && lease.number >= number)
        return { ...answered, ...(await writtenBefore(transaction, entries)) };
      await transaction.write(keepPosition, instanceId, number);
      return { ...answered, ...(await applyEntries(transaction, entries, instanceId)) };
    });
  } catch (error) {
    if (isPassing(error) || entries.length === 0) throw error;
    return together((transaction) => oneByOne(transaction, batch));
  }
}

const answered = { dropped: [], isFenced: false };
const fenced: BatchAnswer = { ...nothingWritten(), dropped: [], isFenced: true };

/** Writes what can be written; one entry that the database rejects does not hold up the others. */
async function oneByOne(transaction: Transaction, { instanceId, number, entries }: Batch): Promise<BatchAnswer> {
  if ((await transaction.row(position, instanceId)) === undefined) return fenced;
  const all: BatchAnswer = { ...nothingWritten(), dropped: [], isFenced: false };
  await transaction.write(keepPosition, instanceId, number);
  for (const [index, entry] of entries.entries()) {
    await transaction.write('savepoint entry');
    try {
      const { admissions, closedElsewhere, settled, late, hasDeliveries } = await applyEntries(
        transaction,
        [entry],
        instanceId,
      );
      all.late.push(...late);
      all.admissions.push(...admissions);
      all.closedElsewhere.push(...closedElsewhere);
      all.settled.push(...settled);
      all.hasDeliveries ||= hasDeliveries;
    } catch (error) {
      if (isPassing(error)) throw error;
      await transaction.write('rollback to savepoint entry');
      all.dropped.push({ index, message: (error as Error).message });
    }
    await transaction.write('release savepoint entry');
  }
  return all;
}

/** The answer to a batch whose first answer was lost, from what it wrote. Subscribers of events are not told again. */
async function writtenBefore(transaction: Transaction, entries: readonly Entry[]): Promise<BatchOutcome> {
  const outcome: BatchOutcome = { ...nothingWritten(), hasDeliveries: true };
  for (const entry of entries)
    if (entry.kind === 'begin' && entry.admission !== null)
      outcome.admissions.push([entry.callId, await admissionBefore(transaction, entry)]);
  return outcome;
}

async function admissionBefore(transaction: Transaction, { callId, row, admission }: BeginEntry): Promise<Admission> {
  const held = await transaction.row<{ funded_s: number | null; held_microcents: number }>(
    'select funded_s, held_microcents from call_funds where call_id = ?',
    callId,
  );
  if (held !== undefined) return { kind: 'admitted', fundedSec: held.funded_s, heldMicrocents: held.held_microcents };
  const { concurrentCalls = null, rate = null } = admission ?? {};
  if (concurrentCalls !== null) {
    const running = await countRunning(transaction, { organizationId: row.organization_id, mode: row.mode });
    if (running > concurrentCalls) return { kind: 'full', concurrentCalls };
  }
  if (rate === null) return { kind: 'admitted', fundedSec: null, heldMicrocents: 0 };
  const plan = await planHold(transaction, row.organization_id, rate); // nothing was held: there was not enough
  if (plan.kind === 'no_balance') return plan;
  return { kind: 'no_balance', balanceMicrocents: 0, requiredMicrocents: rate.microcentsPerMinute };
}

/** The row of a node is its lease; whoever closed its calls has deleted it. */
const position = 'select number from instances left join journal_positions on instance_id = id where id = ?';
const keepPosition =
  'insert into journal_positions (instance_id, number) values (?, ?) on conflict (instance_id) do update set number = excluded.number';

function isPassing(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'unavailable';
}
