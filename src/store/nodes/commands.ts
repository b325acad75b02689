import { uuidv7 } from 'uuidv7';
import { StoreError } from '../database/errors.js';
import type { Notifier, StoreDatabase } from '../database/store-database.js';
import type { NodeLease } from './lease.js';

const channel = 'trunkline_commands';
/** A node that has not taken a command within this time does not get it: with one more look, the answer comes within a second. */
const takeLimitMs = 700;
/** Longer than any command of a call takes. */
const answerLimitMs = 90_000;
/** In place of the id of a call: the command is to the node itself. */
const noCall = '';
/** Behind the notifications. */
const lookEveryMs = 200;
/** A command whose sender died is forgotten after this time; sooner if nobody has taken it, since it may have keys in it. */
const keptMs = 120_000;
const keptUntakenMs = 5_000;

/** What was said in the command goes with the answer that it is taken. */
const takeOne = `update node_commands set taken_at = (extract(epoch from clock_timestamp()) * 1000)::bigint, command = ''
  from (select id as waiting_id, command as said from node_commands where id = ? and instance_id = ? and taken_at is null for update) waiting
  where id = waiting_id returning call_id, said as command`;
const ageMs = '(extract(epoch from now()) * 1000 - created_at)';
/** Of all nodes: one that died forgets nothing. */
const forgotten = `delete from node_commands where (taken_at is null and ${ageMs} > ?) or ${ageMs} > ?`;

/** `not_running`: the call has ended, or runs here. `unreachable`: its node is dead or does not answer; `message` names it. */
export type Sent =
  | { kind: 'answered'; answer: string }
  | { kind: 'not_running' }
  | { kind: 'unreachable'; message: string };

interface Owner {
  instance_id: string;
  name: string | null;
  heartbeat_at: number | null;
  now: number;
}

/** Commands to calls of other nodes. A command is a row, so that it is carried out once or not at all; a notification only says so sooner. */
export class NodeCommands {
  private readonly waiting = new Map<string, () => void>();
  private handle: ((callId: string, command: string) => Promise<string>) | null = null;
  private handleOwn: ((command: string) => Promise<string>) | null = null;

  constructor(
    private readonly database: StoreDatabase,
    private readonly lease: NodeLease,
    notifier: Notifier,
    private readonly onAnswered: (ms: number) => void = () => {},
  ) {
    notifier.on(channel, (payload) => this.notified(payload));
  }

  /** From now on `handle` carries out the commands to calls of this node, and returns the answer. */
  serve(handle: (callId: string, command: string) => Promise<string>): void {
    this.handle = handle;
    void this.takeAll();
  }

  /** Has the node that runs the call carry out the command. Rejects with `StoreError` if the database cannot be used. */
  async send(callId: string, command: string): Promise<Sent> {
    const startedMs = performance.now();
    const sent = await this.sendTo(await this.ownerOf(callId), callId, command);
    if (sent.kind === 'answered') this.onAnswered(performance.now() - startedMs);
    return sent;
  }

  /** Carries out the commands to this node that are about no call. */
  serveNode(handle: (command: string) => Promise<string>): void {
    this.handleOwn = handle;
  }

  /** Has another node carry out the command. Rejects with `StoreError` if the database cannot be used. */
  async sendToNode(instanceId: string, command: string): Promise<Sent> {
    const owner = await this.database.get(
      this.database.sql
        .selectFrom('instances')
        .select(['id as instance_id', 'name', 'heartbeat_at'])
        .select(this.database.nowSql().as('now'))
        .where('id', '=', instanceId),
    );
    return this.sendTo(owner, noCall, command);
  }

  private async sendTo(owner: Owner | undefined, callId: string, command: string): Promise<Sent> {
    if (owner === undefined || owner.instance_id === this.lease.id) return { kind: 'not_running' };
    const what = callId === noCall ? '' : ' that runs the call';
    const unreachable = (how: string): Sent => ({
      kind: 'unreachable',
      message: `The node ${owner.name ?? ''}${what} ${how}.`,
    });
    const { lengthMs } = this.database.leaseTimes;
    if (owner.heartbeat_at === null || owner.heartbeat_at < owner.now - lengthMs) return unreachable('is dead');
    const id = uuidv7();
    const added = `with added as (insert into node_commands (id, instance_id, call_id, command, created_at) values (?, ?, ?, ?, ?) returning id)
      select pg_notify('${channel}', ?::text || ' ' || id) from added`;
    const answered = this.notificationOf(id);
    try {
      await this.database.rows(added, id, owner.instance_id, callId, command, owner.now, owner.instance_id);
      const startedMs = performance.now();
      let isTaken = false;
      for (;;) {
        await answered.within(lookEveryMs);
        const row = await this.database.row<{ taken_at: number | null; answer: string | null; alive: number }>(
          `select taken_at, answer, (select count(*) from instances where id = instance_id) as alive from node_commands where id = ?`,
          id,
        );
        const passedMs = performance.now() - startedMs;
        if (row === undefined) return unreachable('does not answer');
        if (row.answer !== null) return { kind: 'answered', answer: row.answer };
        isTaken ||= row.taken_at !== null;
        if (!isTaken && passedMs > takeLimitMs && (await this.withdraw(id))) return unreachable('does not answer');
        if (isTaken && row.alive === 0) return unreachable('died while it carried out the command');
        if (passedMs > answerLimitMs) return unreachable('takes too long for the command');
      }
    } finally {
      this.waiting.delete(id);
      this.forget(id);
    }
  }

  /** Takes what waits for this node: a notification may have been lost. */
  async takeAll(): Promise<void> {
    if (this.handle === null) return;
    try {
      await this.database.rows(forgotten, keptUntakenMs, keptMs);
      const rows = await this.database.rows<{ id: string }>(
        'select id from node_commands where instance_id = ? and taken_at is null',
        this.lease.id,
      );
      for (const { id } of rows) void this.take(id);
    } catch (error) {
      if (!(error instanceof StoreError)) throw error; // the sender finds out by itself
    }
  }

  private notified(payload: string | null): void {
    if (payload === null) {
      void this.takeAll();
      for (const wake of this.waiting.values()) wake();
      return;
    }
    const [to, id = ''] = payload.split(' ');
    if (to === this.lease.id) void this.take(id);
    else if (to === '') this.waiting.get(id)?.();
  }

  private async take(id: string): Promise<void> {
    try {
      const [taken] = await this.database.rows<{ call_id: string; command: string }>(takeOne, id, this.lease.id);
      if (taken === undefined || this.handle === null) return; // another look was faster, or it was withdrawn
      const { call_id: callId, command } = taken;
      const answer = await (callId === noCall && this.handleOwn !== null
        ? this.handleOwn(command)
        : this.handle(callId, command));
      await this.database.rows(
        `with answered as (update node_commands set answer = ? where id = ? returning id)
         select pg_notify('${channel}', ' ' || id) from answered`,
        ...[answer, id],
      );
    } catch (error) {
      if (!(error instanceof StoreError)) throw error; // the sender finds out by itself
    }
  }

  private ownerOf(callId: string): Promise<Owner | undefined> {
    const { sql } = this.database;
    return this.database.get(
      sql
        .selectFrom('calls')
        .leftJoin('instances', 'instances.id', 'calls.instance_id')
        .select(['calls.instance_id', 'instances.name', 'instances.heartbeat_at'])
        .select(this.database.nowSql().as('now'))
        .where('calls.id', '=', callId)
        .where('calls.status', '=', 'in_progress'),
    );
  }

  /** True: the command is not carried out, and never will be. */
  private async withdraw(id: string): Promise<boolean> {
    const rows = await this.database.rows(
      'delete from node_commands where id = ? and taken_at is null returning id',
      id,
    );
    return rows.length === 1;
  }

  private forget(id: string): void {
    this.database.rows('delete from node_commands where id = ?', id).catch(() => {}); // its node forgets it later
  }

  /** `within` resolves at a notification about this command, or after so many milliseconds. */
  private notificationOf(id: string): { within(ms: number): Promise<void> } {
    let isNotified = false;
    let wake = (): void => {};
    this.waiting.set(id, () => {
      isNotified = true;
      wake();
    });
    return {
      within: (ms) =>
        new Promise((resolve) => {
          const done = (): void => {
            clearTimeout(timer);
            isNotified = false;
            wake = () => {}; // what comes while nobody waits is for the next wait
            resolve();
          };
          const timer = setTimeout(done, ms);
          wake = done;
          if (isNotified) done();
        }),
    };
  }
}
