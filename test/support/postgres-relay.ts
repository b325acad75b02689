import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** Between a store and its PostgreSQL server: refuses, falls silent, or hangs up between a commit and its answer. */
export class PostgresRelay {
  private readonly open = new Set<Socket>();
  private isGone = false;
  private commitsToCut = 0;
  /** Answers to commits that never arrived. */
  cuts = 0;

  private constructor(
    private readonly server: ReturnType<typeof createServer>,
    private readonly port: number,
  ) {
    server.on('connection', (client) => this.relay(client));
  }

  static async to(port: number): Promise<PostgresRelay> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new PostgresRelay(server, port);
  }

  /** `url` by way of this relay. */
  url(url: string): string {
    const changed = new URL(url);
    changed.port = String((this.server.address() as AddressInfo).port);
    return changed.href;
  }

  /** The server is gone: connections end, and new ones are hung up on. */
  goAway(): void {
    this.isGone = true;
    for (const socket of this.open) socket.destroy();
  }

  comeBack(): void {
    this.isGone = false;
  }

  /** The next so many commits are carried out, and the connection is cut before the answer. */
  cutCommits(count: number): void {
    this.commitsToCut = count;
  }

  async close(): Promise<void> {
    this.goAway();
    this.server.close();
    await once(this.server, 'close');
  }

  private relay(client: Socket): void {
    if (this.isGone) {
      client.destroy();
      return;
    }
    const server = connect(this.port, '127.0.0.1');
    const end = () => {
      for (const socket of [client, server]) {
        socket.destroy();
        this.open.delete(socket);
      }
    };
    for (const socket of [client, server]) {
      this.open.add(socket);
      socket.on('error', end);
      socket.on('close', end);
    }
    client.on('data', (bytes) => server.write(bytes));
    server.on('data', (bytes) => {
      if (this.commitsToCut > 0 && bytes.includes('COMMIT\0')) {
        this.commitsToCut -= 1;
        this.cuts += 1;
        end();
      } else client.write(bytes);
    });
  }
}
