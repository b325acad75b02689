import type { StoredEvent } from '../database/store-database.js';
import type { CallEventRow } from '../database/tables.js';
import type { Mode } from '../tenants/scope.js';
import type { Connections } from './connections.js';
import type { Notifications } from './notifications.js';

export const eventsChannel = 'trunkline_events';
/** Behind the notifications. */
const lookEveryMs = 1_000;
const readAtOnce = 500;

const latest = 'select coalesce(max(position), 0) as position from call_events where position is not null';
const after = `select e.id, e.call_id, e.sequence, e.event_type, e.event_data, e.created_at, e.position, c.organization_id, c.mode
  from call_events e left join calls c on c.id = e.call_id where e.position > ? order by e.position limit ${readAtOnce}`;

type TailRow = CallEventRow & { position: number; organization_id: string | null; mode: Mode | null };

/**
 * The events of all nodes as they are committed, in the order of their commits: each has a position, drawn under the lock of those that write.
 * Read only while somebody follows them.
 */
export class EventTail {
  private position: number | null = null;
  private beginning: Promise<void> | null = null;
  private reading: Promise<void> | null = null;
  private isAgain = false;
  private timer: NodeJS.Timeout | null = null;
  private onEvents: (events: readonly StoredEvent[]) => boolean = () => false;

  constructor(
    private readonly connections: Connections,
    notifications: Notifications,
  ) {
    notifications.on(eventsChannel, () => this.wake());
  }

  /** `onEvents` gets the events, and answers whether somebody follows them still. */
  publishTo(onEvents: (events: readonly StoredEvent[]) => boolean): void {
    this.onEvents = onEvents;
  }

  /** Resolves when everything that is committed from now on will be published. */
  begin(): Promise<void> {
    if (this.position !== null) return Promise.resolve();
    this.beginning ??= this.connections
      .use((statements) => statements.row<{ position: number }>(latest))
      .then((row) => {
        this.position ??= row?.position ?? 0;
        this.poll();
      })
      .finally(() => {
        this.beginning = null;
      });
    return this.beginning;
  }

  close(): void {
    this.stop();
  }

  private wake(): void {
    if (this.position === null) return;
    if (this.reading !== null) {
      this.isAgain = true;
      return;
    }
    this.reading = this.read()
      .catch(() => {}) // the server is gone for now: the next look goes on from the same position
      .finally(() => {
        this.reading = null;
        if (this.isAgain) {
          this.isAgain = false;
          this.wake();
        }
      });
  }

  private async read(): Promise<void> {
    for (;;) {
      const from = this.position;
      if (from === null) return;
      const rows = await this.connections.use((statements) => statements.rows<TailRow>(after, from));
      const last = rows.at(-1);
      if (last === undefined) return;
      this.position = last.position;
      const events = rows.flatMap((row) =>
        row.organization_id === null || row.mode === null
          ? []
          : [{ ...row, organization_id: row.organization_id, mode: row.mode }],
      );
      if (!this.onEvents(events)) return this.stop();
      if (rows.length < readAtOnce) return;
    }
  }

  private poll(): void {
    if (this.timer !== null) return;
    this.timer = setInterval(() => this.wake(), lookEveryMs);
    this.timer.unref();
  }

  private stop(): void {
    this.position = null;
    if (this.timer !== null) clearInterval(this.timer);
    this.timer = null;
  }
}
