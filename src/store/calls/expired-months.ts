import type { CallMonth, CallMonths } from '../database/call-months.js';
import type { Clock } from '../database/clock.js';
import type { Database, Reads } from '../database/database.js';
import type { Organizations } from '../tenants/organizations.js';
import { modes } from '../tenants/scope.js';
import { dayMs, hourMs } from './call-counts.js';
import { besideMonths } from './delete-calls.js';
import type { ExpiredCall, ExpiredCalls } from './expired-calls.js';

/** An id is made a moment after the call came: the two may be on different sides of midnight. */
const marginMs = dayMs;
const recordingsAtOnce = 100;
const deliveriesAtOnce = 500;

/** Months of calls of which no organization keeps any: they are dropped as a whole, where the database has partitions. */
export class ExpiredMonths {
  constructor(
    private readonly database: Database,
    private readonly months: CallMonths,
    private readonly organizations: Organizations,
    private readonly expired: ExpiredCalls,
    private readonly clock: Clock,
  ) {}

  makeAhead(): Promise<void> {
    return this.months.makeAhead();
  }

  /** Oldest first. */
  async all(): Promise<CallMonth[]> {
    const nowMs = this.clock.now();
    const keptFrom = (await this.organizations.all()).map(({ id, limits: { call_retention_days: days } }) => ({
      id,
      ms: days === null ? Number.NEGATIVE_INFINITY : nowMs - days * dayMs - marginMs,
    }));
    const latest = keptFrom.reduce((most, { ms }) => Math.max(most, ms), Number.NEGATIVE_INFINITY);
    if (latest === Number.NEGATIVE_INFINITY) return [];
    const found: CallMonth[] = [];
    for (const month of await this.months.endedBefore(latest)) {
      const keepers = new Set(keptFrom.filter(({ ms }) => ms < month.toMs).map(({ id }) => id));
      if (!(await this.callers(month)).some((id) => keepers.has(id))) found.push(month);
    }
    return found;
  }

  /** Some of the calls that have their figures in this month and their record in another one, or the other way round. */
  async strays(month: CallMonth, limit: number, reads: Reads = this.database): Promise<ExpiredCall[]> {
    const { calls, fromMs, toMs, fromId, toId } = month;
    const outside: [table: string, condition: string, parameters: unknown[]][] = [
      [calls, 'c.created_at < ?', [fromMs]],
      [calls, 'c.created_at >= ?', [toMs]],
      ['calls', 'c.created_at >= ? and c.created_at < ? and c.id < ?', [fromMs, toMs, fromId]],
      ['calls', 'c.created_at >= ? and c.created_at < ? and c.id >= ?', [fromMs, toMs, toId]],
    ];
    for (const [table, condition, parameters] of outside)
      for (const mode of modes) {
        // by organization, so that an index has the rows
        const sql = `select c.id, c.recording_url from organizations o join ${table} c on c.organization_id = o.id
          where c.mode = ? and ${condition} limit ?`;
        const rows = await reads.rows<{ id: string; recording_url: string | null }>(sql, mode, ...parameters, limit);
        if (rows.length > 0) return this.expired.withFiles(rows);
      }
    return [];
  }

  /** The locations of all recordings of the month, each with its call. */
  async *recordings({ calls, fromId, toId }: CallMonth): AsyncGenerator<{ callId: string; url: string }> {
    const ofCalls = `select id as call_id, id as last, recording_url as url from ${calls} where id > ? and id < ? and recording_url is not null order by id limit ?`;
    const ofWebhooks =
      'select call_id, id as last, file as url from recordings where id > ? and call_id >= ? and call_id < ? order by id limit ?';
    for (const [sql, range] of [
      [ofCalls, [toId]],
      [ofWebhooks, [fromId, toId]],
    ] as const)
      for (let last = ''; ; ) {
        const asked = [last, ...range, recordingsAtOnce];
        const rows = await this.database.rows<{ call_id: string; last: string; url: string }>(sql, ...asked);
        for (const { call_id: callId, url } of rows) yield { callId, url };
        last = rows.at(-1)?.last ?? '';
        if (rows.length < recordingsAtOnce) break;
      }
  }

  /** Deletes some deliveries of the month's events to webhooks; returns whether there may be more. */
  async forgetDeliveries({ fromId, toId }: CallMonth): Promise<boolean> {
    const some = 'select id from webhook_deliveries where call_id >= ? and call_id < ? limit ?';
    const deleted = await this.database.transaction((transaction) =>
      transaction.write(`delete from webhook_deliveries where id in (${some})`, ...[fromId, toId, deliveriesAtOnce]),
    );
    return deleted === deliveriesAtOnce;
  }

  /** Drops the month with all that was counted of it. Returns how many calls it had; null if some of them are not over, or not its own. */
  drop(month: CallMonth): Promise<number | null> {
    const { calls, fromMs, toMs, fromId, toId } = month;
    return this.database.transaction(async (transaction) => {
      if (await transaction.row(`select 1 from ${calls} where status = 'in_progress' limit 1`)) return null;
      if ((await this.strays(month, 1, transaction)).length > 0) return null;
      const days = [Math.floor(fromMs / dayMs), Math.floor(toMs / dayMs)];
      const counted = await transaction.row<{ n: number | null }>(
        "select sum(completed + failed + no_answer + busy) as n from call_days where phone_number_id = '' and day >= ? and day < ?",
        ...days,
      );
      await transaction.write('delete from call_days where day >= ? and day < ?', ...days);
      await transaction.write('delete from call_insights where day >= ? and day < ?', ...days);
      const hours = [fromMs / hourMs, toMs / hourMs].map(Math.floor);
      await transaction.write('delete from call_hours where hour >= ? and hour < ?', ...hours);
      for (const table of besideMonths)
        await transaction.write(`delete from ${table} where call_id >= ? and call_id < ?`, fromId, toId);
      await this.months.drop(transaction, month);
      return counted?.n ?? 0;
    });
  }

  /** The organizations that have a call in the month. */
  private async callers({ calls }: CallMonth): Promise<string[]> {
    const sql = `select id from organizations o where exists (select 1 from ${calls} c where c.organization_id = o.id)`;
    return (await this.database.rows<{ id: string }>(sql)).map(({ id }) => id);
  }
}
