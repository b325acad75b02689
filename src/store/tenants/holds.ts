/** Money of calls, within the transaction of what it belongs to: holds, their extension, and the settlement. */
import { uuidv7 } from 'uuidv7';
import { affordableSec, billedSec, costOf, type Rate } from '../../billing/rate.js';
import type { Reads, Transaction } from '../database/database.js';
import type { CallFundsRow, LedgerRow } from '../database/tables.js';
import type { Admission } from '../journal/entries.js';

/** The time reserved at once: the first minute, and another minute whenever it runs out. */
const holdSec = 60;
const dayMs = 86_400_000;

export interface Balance {
  /** null: not metered. */
  microcents: number | null;
  /** For running calls. */
  heldMicrocents: number;
}

const balanceSql = `select balance_microcents as balance, (select sum(held_microcents) from call_funds
    where organization_id = organizations.id and held_microcents > 0) as held from organizations where id = ?`;

export async function balanceOf(reads: Reads, organizationId: string): Promise<Balance> {
  const row = await reads.row<{ balance: number | null; held: number | null }>(balanceSql, organizationId);
  return { microcents: row?.balance ?? null, heldMicrocents: row?.held ?? 0 };
}

/** What a hold of this rate would be now: `fundedSec` null for an organization that is not metered. */
export async function planHold(
  reads: Reads,
  organizationId: string,
  rate: Rate,
): Promise<Exclude<Admission, { kind: 'full' }>> {
  const { microcents, heldMicrocents } = await balanceOf(reads, organizationId);
  if (microcents === null || rate.microcentsPerMinute === 0)
    return { kind: 'admitted', fundedSec: null, heldMicrocents: 0 };
  const free = microcents - heldMicrocents;
  const fundedSec = Math.min(billedSec(rate, holdSec), affordableSec(rate, free));
  if (fundedSec > 0) return { kind: 'admitted', fundedSec, heldMicrocents: costOf(rate, fundedSec) };
  const requiredMicrocents = costOf(rate, rate.initialIncrementSec);
  return { kind: 'no_balance', balanceMicrocents: free, requiredMicrocents };
}

/** Notes the rate of a call that has begun and holds money for its first minute, or for as much of it as there is. */
export async function hold(
  transaction: Transaction,
  callId: string,
  organizationId: string,
  rate: Rate,
): Promise<Exclude<Admission, { kind: 'full' }>> {
  const plan = await planHold(transaction, organizationId, rate);
  if (plan.kind === 'no_balance') return plan;
  await transaction.write(
    `insert into call_funds (call_id, organization_id, microcents_per_minute, initial_increment_s, increment_s, funded_s, held_microcents)
     values (?, ?, ?, ?, ?, ?, ?)`,
    ...[callId, organizationId, rate.microcentsPerMinute, rate.initialIncrementSec, rate.incrementSec],
    ...[plan.fundedSec, plan.heldMicrocents],
  );
  return plan;
}

/** Holds money for another minute, or for as much of it as there is. Returns the seconds that are paid for; 0 without a hold. */
export async function extendHold(transaction: Transaction, callId: string): Promise<number> {
  const row = await fundsOf(transaction, callId);
  if (!row || row.funded_s === null) return 0;
  const rate = rateOf(row);
  const { microcents, heldMicrocents } = await balanceOf(transaction, row.organization_id);
  const mine = (microcents ?? 0) - heldMicrocents + row.held_microcents;
  const fundedSec = Math.min(billedSec(rate, row.funded_s + holdSec), affordableSec(rate, mine));
  if (fundedSec <= row.funded_s) return row.funded_s;
  await transaction.write(
    'update call_funds set funded_s = ?, held_microcents = ? where call_id = ?',
    ...[fundedSec, costOf(rate, fundedSec), callId],
  );
  return fundedSec;
}

/**
 * What a call has cost, in micro-cents; null: it has no rate. Once: later it is null. Never more than was held, unless `inFull`: the call went
 * on without a hold because none could be asked for.
 */
export async function settle(
  transaction: Transaction,
  callId: string,
  durationSec: number,
  nowMs: number,
  inFull: boolean,
): Promise<number | null> {
  const row = await fundsOf(transaction, callId);
  if (row === undefined) return null;
  const cost = costOf(rateOf(row), durationSec);
  const charged = row.funded_s === null || inFull ? cost : Math.min(cost, row.held_microcents);
  await transaction.write('delete from call_funds where call_id = ?', callId);
  if (charged === 0) return 0;
  const organizationId = row.organization_id;
  if (row.funded_s !== null)
    await post(transaction, { organizationId, kind: 'call', amount: -charged, callId, note: '', nowMs });
  await transaction.write(
    `insert into spend_days (organization_id, day, microcents) values (?, ?, ?)
     on conflict (organization_id, day) do update set microcents = spend_days.microcents + excluded.microcents`,
    ...[organizationId, Math.floor(nowMs / dayMs), charged],
  );
  return charged;
}

/** Changes the balance and adds a line to the ledger. */
export async function post(
  transaction: Transaction,
  entry: {
    organizationId: string;
    kind: LedgerRow['kind'];
    amount: number;
    callId: string | null;
    note: string;
    nowMs: number;
  },
): Promise<LedgerRow> {
  const changed = await transaction.row<{ balance_microcents: number }>(
    'update organizations set balance_microcents = coalesce(balance_microcents, 0) + ? where id = ? returning balance_microcents',
    ...[entry.amount, entry.organizationId],
  );
  const row: LedgerRow = {
    id: uuidv7(),
    organization_id: entry.organizationId,
    kind: entry.kind,
    amount_microcents: entry.amount,
    balance_microcents: changed?.balance_microcents ?? entry.amount,
    call_id: entry.callId,
    note: entry.note,
    created_at: entry.nowMs,
  };
  await transaction.insertAll('ledger', Object.keys(row), [Object.values(row)]);
  return row;
}

function fundsOf(reads: Reads, callId: string): Promise<CallFundsRow | undefined> {
  return reads.row<CallFundsRow>('select * from call_funds where call_id = ?', callId);
}

function rateOf(row: CallFundsRow): Rate {
  return {
    microcentsPerMinute: row.microcents_per_minute,
    initialIncrementSec: row.initial_increment_s,
    incrementSec: row.increment_s,
  };
}
