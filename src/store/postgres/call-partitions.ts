/** Partitions of what calls write, one for each month of the time in a call's id (UUIDv7), so that a month can be dropped as a whole. */
import type { CallMonth, CallMonths } from '../database/call-months.js';
import type { Execute, Transaction } from '../database/database.js';
import { StoreError } from '../database/errors.js';
import { boundOf, timeOf } from '../database/ids.js';

/** The tables, and the column that has the id of the call. */
export const partitionedBy = {
  calls: 'id',
  call_events: 'call_id',
  call_traces: 'call_id',
  call_quality: 'call_id',
} as const;
const tables = Object.keys(partitionedBy) as (keyof typeof partitionedBy)[];

/** This month and the next ones: retention makes them every few minutes, so that one is enough but for a process that is stopped for weeks. */
const monthsAhead = 3;
/** A partition that comes or goes waits for queries under way, and all others wait for it. */
const lockWaitMs = 200;
/** SQLSTATE: the range overlaps that of another partition; the default partition has rows of it; another process was faster. */
const takenAlready = new Set(['42P17', '23514', '42P07']);

export class CallPartitions implements CallMonths {
  constructor(
    /** Runs work on a connection of its own. */
    private readonly using: <T>(work: (execute: Execute) => Promise<T>) => Promise<T>,
    /** The server's time, which ids are made with. */
    private readonly nowMs: () => number,
  ) {}

  makeAhead(): Promise<void> {
    const from = startOfMonth(this.nowMs());
    const months = Array.from({ length: monthsAhead }, (_, i) => startOfMonth(from, i));
    return this.using((execute) => makeMonths(execute, months));
  }

  async endedBefore(ms: number): Promise<CallMonth[]> {
    const rows = (await this.using((execute) => execute(partitionsOfCalls, [], 'rows'))) as {
      name: string;
      bound: string;
    }[];
    const months = rows.flatMap(({ name, bound }) => {
      const [, from, to] = /FROM \((MINVALUE|'[^']*')\) TO \('([^']*)'\)/.exec(bound) ?? [];
      if (from === undefined || to === undefined) return []; // the default partition
      const fromId = from === 'MINVALUE' ? '' : from.slice(1, -1);
      const fromMs = fromId === '' ? 0 : timeOf(fromId);
      const toMs = timeOf(to);
      const named = new Date(fromMs === 0 ? toMs - 1 : fromMs).toISOString().slice(0, 7);
      return [{ name: fromMs === 0 ? `until ${named}` : named, fromMs, toMs, fromId, toId: to, calls: name }];
    });
    return months.filter(({ toMs }) => toMs <= ms).sort((a, b) => a.toMs - b.toMs);
  }

  async drop(transaction: Transaction, { calls }: CallMonth): Promise<void> {
    const ending = calls.slice('calls'.length);
    await transaction.write(`set local lock_timeout = ${lockWaitMs}`);
    await transaction.write(`drop table ${tables.map((table) => quoted(table + ending)).join(', ')}`);
  }
}

/** Makes the partitions of these months, given by their beginnings; what stands in the way of one is left as it is. */
export async function makeMonths(execute: Execute, months: readonly number[]): Promise<void> {
  const names = months.flatMap((ms) => tables.map((table) => nameOf(table, ms)));
  const found = (await execute(existing, [names], 'rows')) as { relname: string }[];
  const there = new Set(found.map(({ relname }) => relname));
  for (const ms of months)
    for (const table of tables) {
      const name = nameOf(table, ms);
      if (there.has(name)) continue;
      const range = `from ('${boundOf(ms)}') to ('${boundOf(startOfMonth(ms, 1))}')`;
      try {
        await execute('begin', [], 'changes');
        await execute(`set local lock_timeout = ${lockWaitMs}`, [], 'changes');
        await execute(`create table ${name} partition of ${table} for values ${range}`, [], 'changes');
        if (table === 'call_events') await execute(`create index on ${name} (id)`, [], 'changes');
        await execute('commit', [], 'changes');
      } catch (error) {
        await execute('rollback', [], 'changes').catch(() => {}); // lost with its connection
        const isPassing = error instanceof StoreError && error.code === 'unavailable'; // the next look tries again
        if (!isPassing && !takenAlready.has(String((error as { code?: unknown }).code))) throw error;
      }
    }
}

/** The beginnings of the months from one time to another, both included. */
export function monthsBetween(fromMs: number, toMs: number): number[] {
  const months: number[] = [];
  for (let ms = startOfMonth(fromMs); ms <= toMs; ms = startOfMonth(ms, 1)) months.push(ms);
  return months;
}

/** The beginning of the month that has this time, or of one so many months later. UTC. */
export function startOfMonth(ms: number, later = 0): number {
  const date = new Date(ms);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + later, 1);
}

function nameOf(table: string, ms: number): string {
  return `${table}_${new Date(ms).toISOString().slice(0, 7).replace('-', '_')}`;
}

function quoted(name: string): string {
  return `"${name}"`;
}

const existing =
  'select relname from pg_class where relname = any(?) and relnamespace = current_schema()::regnamespace';
const partitionsOfCalls = `select c.relname as name, pg_get_expr(c.relpartbound, c.oid) as bound from pg_inherits
  join pg_class c on c.oid = inhrelid where inhparent = 'calls'::regclass`;
