import pg from 'pg';
import type { Notifier } from '../database/store-database.js';
import { clientConfig } from './connections.js';

const retryEveryMs = 1_000;

/** One connection that listens. What is lost with it, its users look for when it is back: they are called with null. */
export class Notifications implements Notifier {
  private readonly handlers = new Map<string, (payload: string | null) => void>();
  private client: pg.Client | null = null;
  private timer: NodeJS.Timeout | null = null;
  private isClosed = false;

  constructor(private readonly url: string) {}

  on(channel: string, handle: (payload: string | null) => void): void {
    this.handlers.set(channel, handle);
    this.client?.query(`listen ${channel}`).catch(() => {}); // lost: all channels are listened to again
  }

  /** Rejects if the server cannot be reached now; later losses are made good by itself. */
  async start(): Promise<void> {
    await this.connect();
  }

  async close(): Promise<void> {
    this.isClosed = true;
    if (this.timer !== null) clearTimeout(this.timer);
    await this.client?.end().catch(() => {});
  }

  private async connect(): Promise<void> {
    const client = new pg.Client(clientConfig({ url: this.url, name: 'trunkline notifications' }));
    let isGone = false;
    const gone = () => {
      if (isGone) return;
      isGone = true;
      if (this.client === client) this.client = null;
      this.retry();
    };
    client.on('error', gone);
    client.on('end', gone);
    client.on('notification', ({ channel, payload }) => this.handlers.get(channel)?.(payload ?? ''));
    try {
      await client.connect();
      for (const channel of this.handlers.keys()) await client.query(`listen ${channel}`);
    } catch (error) {
      client.end().catch(() => {});
      throw error;
    }
    if (this.isClosed) await client.end();
    else if (!isGone) this.client = client;
  }

  private retry(): void {
    if (this.isClosed || this.timer !== null) return;
    this.timer = setTimeout(() => {
      this.timer = null;
      this.connect().then(
        () => {
          for (const handle of this.handlers.values()) handle(null);
        },
        () => this.retry(),
      );
    }, retryEveryMs);
    this.timer.unref();
  }
}
