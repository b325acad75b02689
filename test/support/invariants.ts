/**
 * What must hold after every fault, checked by one function: nine promises about calls, records, money, events, resources, other
 * calls, webhooks, tenants and far ends. A test gives what it has; what it leaves out is not checked.
 */
import { readdirSync, readlinkSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { costOf } from '../../src/billing/rate.js';
import { type EventType, mayFollowTheEnd, terminalEvents } from '../../src/store/calls/event-types.js';
import type {
  CallEventRow,
  CallFundsRow,
  CallRow,
  LedgerRow,
  RateRow,
  WebhookDeliveryRow,
} from '../../src/store/database/tables.js';
import { loadDriver } from '../../src/store/sqlite/driver.js';
import { collectGarbage } from './collect-garbage.js';
import type { FarCall } from './far-ends.js';
import { expectNothingLeft, type Leavings, type LeftoverLimits } from './leftovers.js';
import type { OtherTenant } from './other-tenant.js';
import type { Receiver } from './receiver.js';
import type { HeardPacket } from './rtp-phone.js';

export interface Scene {
  /** The database, read by a connection of its own. Absent: there are no records to check. */
  file?: string;
  /** Calls that began before this are not looked at. Default: all. */
  sinceMs?: number;
  /** Everybody who took part, by SIP Call-ID. */
  farEnds?: Iterable<FarCall>;
  /** Whether this far end's call has a record; null: it may. Default: callers have, unless they were refused before a call was begun. */
  hasRecord?(call: FarCall): boolean | null;
  /** How many records there are; needed where `farEnds` does not tell. */
  records?: number;
  /** The process in this process; its resources must be what they were. */
  app?: Leavings;
  limits?: LeftoverLimits;
  baseline?: Baseline;
  /** By how much a duration may differ from what the far end saw, beside the second it is rounded to: after a death, the last heartbeat. */
  durationSlackSec?: number | ((call: CallRow) => number);
  /** Whether the node of this call, which the far end confirmed, may have been lost before it could write the answer. Default: never. */
  answerMayBeLost?(call: CallRow, far: FarCall): boolean;
  /** Where webhook events went. */
  receiver?: Receiver;
  /** An organization that has no part in it. */
  other?: OtherTenant;
}

/** Refused before a call was begun. */
const withoutRecord: ReadonlySet<number> = new Set([400, 401, 403, 404, 405, 416, 420, 422, 481, 482, 483]);

/** Rejects with every broken promise, each in one line. */
export async function expectInvariants(scene: Scene): Promise<void> {
  const broken: string[] = [];
  const limitMs = scene.limits?.limitMs ?? 10_000;
  if (scene.app)
    await expectNothingLeft(scene.app, { limitMs, ...scene.limits }).catch((error: Error) =>
      broken.push(`I5 ${error.message}`),
    );
  let seen = look(scene);
  // what is said at the very end of a call is on disk within 50 ms
  for (const endMs = performance.now() + limitMs; seen.length > 0 && performance.now() < endMs; seen = look(scene))
    await sleep(25);
  broken.push(...seen);
  if (scene.other) broken.push(...(await scene.other.problems()));
  if (scene.baseline) broken.push(...(await scene.baseline.compare()));
  if (broken.length > 0) throw new Error(`Broken:\n${broken.join('\n')}`);
}

function look(scene: Scene): string[] {
  if (scene.file === undefined) return farEnds(scene);
  const Driver = loadDriver();
  const database = new Driver(scene.file, { readonly: true, timeout: 1000 });
  try {
    const all = <T>(sql: string, ...values: unknown[]): T[] => database.prepare(sql).all(...values) as T[];
    const calls = all<CallRow>('select * from calls where created_at >= ?', scene.sinceMs ?? 0);
    const broken = [...recordsOf(scene, calls), ...strayRows(all)];
    const bySipCallId = new Map([...(scene.farEnds ?? [])].map((call) => [call.callId, call]));
    const owners = all<{ id: string; organization_id: string }>('select id, organization_id from phone_numbers');
    const ownerOf = new Map(owners.map((number) => [number.id, number.organization_id]));
    const live = all<{ n: number }>('select count(*) as n from call_dialogs')[0]?.n ?? 0;
    if (live !== 0) broken.push(`I9 ${live} dialogs are still in the journal of dialogs`);
    for (const call of calls) {
      const say = (text: string) => broken.push(`${text} (${call.status} ${call.hangup_cause}, ${call.sip_call_id})`);
      times(scene, call, bySipCallId.get(call.sip_call_id ?? ''), say);
      const events = all<CallEventRow>('select * from call_events where call_id = ? order by sequence', call.id);
      const isSettled = events.some((event) => event.event_type === 'call.cost_settled');
      const rate = all<RateRow>(
        "select * from rates where organization_id = ? and direction = ? and ? like '+' || prefix || '%' order by length(prefix) desc limit 1",
        call.organization_id,
        call.direction,
        call.to_number,
      )[0];
      const held = all<CallFundsRow>('select * from call_funds where call_id = ?', call.id).length > 0;
      const billed = all<LedgerRow>("select * from ledger where kind = 'call' and call_id = ?", call.id);
      money(call, isSettled ? rate : undefined, held, billed, say);
      story(call, events, say);
      const deliveries = all<WebhookDeliveryRow>('select * from webhook_deliveries where call_id = ?', call.id);
      if (scene.receiver) told(call, events, deliveries, scene.receiver, say);
      if (ownerOf.get(call.phone_number_id) !== call.organization_id)
        say('I8 lies with another organization than its number');
    }
    return [...broken, ...farEnds(scene)];
  } finally {
    database.close();
  }
}

function slackOf({ durationSlackSec = 0 }: Scene, call: CallRow): number {
  return typeof durationSlackSec === 'number' ? durationSlackSec : durationSlackSec(call);
}

/** I1: exactly one record per call. */
function recordsOf(scene: Scene, calls: readonly CallRow[]): string[] {
  const broken: string[] = [];
  if (scene.records !== undefined && calls.length !== scene.records)
    broken.push(`I1 ${calls.length} records instead of ${scene.records}`);
  const hasRecord =
    scene.hasRecord ?? ((call: FarCall) => (call.isCaller ? !withoutRecord.has(call.finalStatus ?? 0) : null));
  const counts = new Map<string, number>();
  for (const call of calls) counts.set(call.sip_call_id ?? '', (counts.get(call.sip_call_id ?? '') ?? 0) + 1);
  for (const far of scene.farEnds ?? []) {
    const has = hasRecord(far);
    const wanted = has ? 1 : 0;
    const found = counts.get(far.callId) ?? 0;
    if (has !== null && found !== wanted)
      broken.push(`I1 ${found} records of ${far.callId} (${far.finalStatus}) instead of ${wanted}`);
  }
  return broken;
}

/** I1, I2: terminal, and times that agree with each other and with what the far end saw. */
function times(scene: Scene, call: CallRow, far: FarCall | undefined, say: (text: string) => void): void {
  if (call.status === 'in_progress' || call.completed_at === null) {
    say('I1 is not terminal');
    return;
  }
  if (call.hangup_cause === null) say('I1 has no cause');
  if (call.duration_sec < 0 || call.completed_at < call.created_at) say('I2 time runs backwards');
  if (call.answered_at === null) {
    if (call.duration_sec !== 0) say(`I2 was never answered and lasted ${call.duration_sec} s`);
    const mayBeLost = far !== undefined && scene.answerMayBeLost?.(call, far);
    if (
      far?.confirmedAtMs &&
      call.hangup_cause !== 'no_ack' &&
      !mayBeLost &&
      (far.endedAtMs ?? 0) - far.confirmedAtMs > 1000
    )
      say('I2 was confirmed by the far end, and has no answered_at');
    return;
  }
  const spanSec = (call.completed_at - call.answered_at) / 1000;
  if (Math.abs(spanSec - call.duration_sec) > 1)
    say(`I2 lasted ${call.duration_sec} s, from answered_at to completed_at ${spanSec} s`);
  if (!far) return;
  if (far.confirmedAtMs === null) say('I2 has an answered_at, and the far end never confirmed');
  if (far.confirmedAtMs === null || far.endedAtMs === null) return;
  const wireSec = (far.endedAtMs - far.confirmedAtMs) / 1000;
  if (Math.abs(wireSec - call.duration_sec) > 1.5 + slackOf(scene, call))
    say(`I2 lasted ${call.duration_sec} s, on the wire ${wireSec} s`);
}

/** I3: the cost follows from duration and rate; billed once, and nothing stays held. */
function money(
  call: CallRow,
  rate: RateRow | undefined,
  isHeld: boolean,
  billed: readonly LedgerRow[],
  say: (text: string) => void,
): void {
  const cost = rate
    ? costOf(
        {
          microcentsPerMinute: rate.microcents_per_minute,
          initialIncrementSec: rate.initial_increment_s,
          incrementSec: rate.increment_s,
        },
        call.duration_sec,
      )
    : 0;
  if (call.cost_microcents !== cost) say(`I3 costs ${call.cost_microcents} instead of ${cost}`);
  if (isHeld && call.status !== 'in_progress') say('I3 money is still held');
  if (billed.length > 1) say(`I3 was billed ${billed.length} times`);
  if (billed.length === 1 && billed[0]!.amount_microcents !== -cost)
    say(`I3 was billed ${billed[0]!.amount_microcents}`);
}

/** I4: numbered without gaps, one end that fits the status, and after it only what may follow. */
function story(call: CallRow, events: readonly CallEventRow[], say: (text: string) => void): void {
  const numbers = events.map((event) => event.sequence);
  if (numbers.some((number, i) => number !== i + 1)) say(`I4 events are numbered ${numbers}`);
  if (events[0]?.event_type !== 'call.initiated') say(`I4 begins with ${events[0]?.event_type}`);
  const ends: readonly string[] = Object.values(terminalEvents);
  const at = events.findIndex((event) => ends.includes(event.event_type));
  if (call.status === 'in_progress') return;
  if (events.filter((event) => ends.includes(event.event_type)).length !== 1)
    say(`I4 ends so: ${events.map((event) => event.event_type)}`);
  else if (events[at]!.event_type !== terminalEvents[call.status]) say(`I4 ends with ${events[at]!.event_type}`);
  const after = events.slice(at + 1).filter((event) => !mayFollowTheEnd(event.event_type as EventType));
  if (after.length > 0) say(`I4 goes on after its end: ${after.map((event) => event.event_type)}`);
  if (events.some((event, i) => i > 0 && event.created_at < events[i - 1]!.created_at))
    say('I4 event times run backwards');
}

/** I7: every event of the outbox arrived, under its id, in order of its call. */
function told(
  call: CallRow,
  events: readonly CallEventRow[],
  deliveries: readonly WebhookDeliveryRow[],
  receiver: Receiver,
  say: (text: string) => void,
): void {
  if (deliveries.length === 0) return;
  const toTell = events.filter((event) => !event.event_type.startsWith('webhook.')).length;
  if (deliveries.length !== toTell) say(`I7 ${deliveries.length} of ${toTell} events are in the outbox`);
  const waiting = deliveries.filter((delivery) => delivery.status !== 'delivered').length;
  if (waiting > 0) say(`I7 ${waiting} events were not taken`);
  const first = new Map<string, number>();
  for (const { body, headers } of receiver.requests) {
    const { call_id: id, sequence } = JSON.parse(body) as { call_id: string; sequence: number };
    if (id === call.id && !first.has(String(headers['webhook-id']))) first.set(String(headers['webhook-id']), sequence);
  }
  const order = [...first.values()];
  if (order.length !== deliveries.length) say(`I7 ${order.length} of ${deliveries.length} events arrived`);
  if (order.some((sequence, i) => i > 0 && sequence < order[i - 1]!)) say(`I7 events arrived as ${order}`);
}

/** I8: whatever is kept of a call lies with the call's organization, in every table that knows both. */
function strayRows(all: <T>(sql: string) => T[]): string[] {
  const tables = all<{ name: string }>("select name from sqlite_master where type = 'table'").filter(({ name }) => {
    const columns = new Set(all<{ name: string }>(`pragma table_info(${name})`).map((column) => column.name));
    return columns.has('call_id') && columns.has('organization_id');
  });
  return tables.flatMap(({ name }) => {
    const [stray] = all<{ n: number }>(
      `select count(*) as n from ${name} t join calls on calls.id = t.call_id where calls.organization_id <> t.organization_id`,
    );
    return stray?.n ? [`I8 ${stray.n} rows of ${name} lie with another organization than their calls`] : [];
  });
}

/** I9: each far end has a final response, and each answered one gets the BYE. */
function farEnds(scene: Scene): string[] {
  const broken: string[] = [];
  for (const far of scene.farEnds ?? []) {
    if (far.isCaller && far.finalStatus === null) broken.push(`I9 ${far.callId} never got a final answer`);
    const answered = far.finalStatus !== null && far.finalStatus < 300;
    if (answered && far.endedAtMs === null && far.byesReceived === 0)
      broken.push(`I9 ${far.callId} was answered and never heard of the end`);
  }
  return broken;
}

/** I5: descriptors and timers of this process, or of another one by its id. */
export class Baseline {
  private readonly before: Record<string, number>;

  constructor(private readonly pid: number | 'self' = 'self') {
    this.before = descriptors(pid);
  }

  /** Connections that a client of the test keeps alive end within seconds. */
  async compare(limitMs = 8000): Promise<string[]> {
    const endMs = performance.now() + limitMs;
    for (;;) {
      // on Node 20 a closed connection to SQLite keeps its descriptors until its statements are collected: ours, of `look`
      if (this.pid === 'self') collectGarbage();
      const now = descriptors(this.pid);
      const more = Object.entries(now).filter(([kind, count]) => count > (this.before[kind] ?? 0));
      if (more.length === 0) return [];
      if (performance.now() > endMs)
        return more.map(([kind, count]) => `I5 ${count} ${kind} instead of ${this.before[kind] ?? 0}`);
      await sleep(50);
    }
  }
}

/** Open descriptors by what they are. */
export function descriptors(pid: number | 'self'): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const fd of readdirSync(`/proc/${pid}/fd`)) {
    let target: string;
    try {
      target = readlinkSync(`/proc/${pid}/fd/${fd}`);
    } catch {
      continue; // closed meanwhile
    }
    // SQLite holds a closed connection's descriptor until no lock is held: ours, of `look`
    if (target.endsWith('.db')) continue;
    const kind = /^(socket|pipe|anon_inode)/.exec(target)?.[1] ?? target;
    counts[kind] = (counts[kind] ?? 0) + 1;
  }
  return counts;
}

/**
 * I6: what reaches a call beside the fault. A clock beside it says how late the machine let this thread run; the media thread may have been as late,
 * before or after it.
 */
export class Bystander {
  private worstLatenessMs = 0;
  private dueMs = performance.now() + 5;
  private readonly control: NodeJS.Timeout;
  private readonly from: number;
  private readonly fromMs = performance.now();

  constructor(
    private readonly heard: readonly HeardPacket[],
    private readonly limitMs = 40,
  ) {
    this.from = heard.length;
    this.control = setInterval(() => {
      const now = performance.now();
      this.worstLatenessMs = Math.max(this.worstLatenessMs, now - this.dueMs);
      this.dueMs = now + 5;
    }, 5);
  }

  problems(): string[] {
    clearInterval(this.control);
    const packets = this.heard.slice(this.from);
    const spanMs = performance.now() - this.fromMs;
    if (packets.length < spanMs / 20 / 2) return [`I6 only ${packets.length} packets in ${Math.round(spanMs)} ms`];
    const allowedMs = this.limitMs + 2 * this.worstLatenessMs;
    return packets.slice(1).flatMap((packet, i) => {
      const gapMs = packet.atMs - packets[i]!.atMs;
      const missing = ((packet.sequence - packets[i]!.sequence) & 0xffff) - 1;
      return gapMs > allowedMs || missing !== 0
        ? [
            `I6 ${Math.round(gapMs)} ms and ${missing} packets between two packets (allowed ${Math.round(allowedMs)} ms)`,
          ]
        : [];
    });
  }
}
