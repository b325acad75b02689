import { type RememberedKey, type RememberedTable, rememberedBy } from '../database/database.js';
import type { Tables } from '../database/tables.js';
import type { Connections } from './connections.js';
import type { Notifications } from './notifications.js';

export const settingsChannel = 'trunkline_settings';
/** Behind the notifications, which a lost connection loses. */
const pollEveryMs = 1_000;
const tables = Object.keys(rememberedBy) as RememberedTable[];

type Rows = ReadonlyMap<string, readonly unknown[]>;

/**
 * The settings that every call looks up, whole, in memory: a call waits for no answer of the server, and calls come in while the server is gone.
 * Read anew whenever this process or another one has changed them.
 */
export class SettingsMemory {
  private rows = new Map<RememberedTable, Rows>();
  private version = -1;
  private reading: Promise<void> | null = null;
  private isAgain = false;
  private timer: NodeJS.Timeout | null = null;
  private isClosed = false;

  /** `onChanged`: called when another process may have changed settings. */
  constructor(
    private readonly connections: Connections,
    notifications: Notifications,
    private readonly onChanged: () => void,
  ) {
    notifications.on(settingsChannel, (payload) => {
      if (payload === null) void this.look();
      else if (Number(payload) !== this.version) void this.changedElsewhere();
    });
  }

  /** Rejects if the settings cannot be read. */
  async start(): Promise<void> {
    await this.read();
    this.poll();
  }

  find<T extends RememberedTable>(table: T, key: RememberedKey<T>): readonly Tables[T][] {
    const found = this.rows.get(table)?.get(keyOf(table, key as Record<string, unknown>));
    return (found ?? []) as readonly Tables[T][];
  }

  /** Resolves when what was committed before is known. Never rejects: the next poll reads what could not be read now. */
  async refresh(): Promise<void> {
    if (this.reading !== null) {
      this.isAgain = true;
      return this.reading;
    }
    this.reading = this.readUntilCurrent().catch(() => {
      this.version = -1;
    });
    await this.reading;
  }

  async close(): Promise<void> {
    this.isClosed = true;
    if (this.timer !== null) clearTimeout(this.timer);
    await this.reading;
  }

  private async readUntilCurrent(): Promise<void> {
    try {
      do {
        this.isAgain = false;
        await this.read();
      } while (this.isAgain);
    } finally {
      this.reading = null;
    }
  }

  private read(): Promise<void> {
    return this.connections.use(async (statements, execute) => {
      await execute('begin isolation level repeatable read read only', [], 'changes');
      try {
        const current = await statements.row<{ version: number }>('select version from settings_version');
        const read = new Map<RememberedTable, Rows>();
        for (const table of tables) read.set(table, grouped(table, await statements.rows(`select * from ${table}`)));
        this.rows = read;
        this.version = current?.version ?? -1;
      } finally {
        await execute('rollback', [], 'changes');
      }
    });
  }

  private poll(): void {
    if (this.isClosed) return;
    this.timer = setTimeout(() => void this.look().finally(() => this.poll()), pollEveryMs);
    this.timer.unref();
  }

  private async look(): Promise<void> {
    try {
      const current = await this.connections.use((statements) =>
        statements.row<{ version: number }>('select version from settings_version'),
      );
      if (current?.version !== this.version) await this.changedElsewhere();
    } catch {
      // gone for now: what is remembered stays
    }
  }

  private async changedElsewhere(): Promise<void> {
    await this.refresh();
    if (!this.isClosed) this.onChanged();
  }
}

function keyOf(table: RememberedTable, key: Record<string, unknown>): string {
  return rememberedBy[table].map((column) => String(key[column])).join('\0');
}

function grouped(table: RememberedTable, rows: readonly Record<string, unknown>[]): Rows {
  const groups = new Map<string, unknown[]>();
  for (const row of rows) {
    const key = keyOf(table, row);
    const group = groups.get(key);
    if (group) group.push(Object.freeze(row));
    else groups.set(key, [Object.freeze(row)]);
  }
  return groups;
}
