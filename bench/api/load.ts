/** Requests over sockets that stay open, one at a time on each. */
import { connect, type Socket } from 'node:net';

/** Milliseconds that each request took. */
export interface Load {
  latenciesMs: number[];
  perSecond: number;
  notOk: number;
}

const head = Buffer.from('content-length: ');

/** Sends `request` again and again on so many sockets for so long; `rests`: leaves its core to others while it waits. */
export async function load(
  port: number,
  request: string,
  sockets: number,
  forMs: number,
  { rests = false } = {},
): Promise<Load> {
  const latenciesMs: number[] = [];
  const bytes = Buffer.from(request);
  const startMs = performance.now();
  let notOk = 0;
  // Otherwise we never sleep: each answer would have to wake us, which can cost the server more than the request, and a slow server most.
  let isOver = rests;
  const stayAwake = () => {
    if (!isOver) setImmediate(stayAwake);
  };
  stayAwake();
  await Promise.all(
    Array.from({ length: sockets }, async () => {
      const line = await Line.open(port);
      while (performance.now() - startMs < forMs) {
        const sentMs = performance.now();
        const status = await line.ask(bytes);
        latenciesMs.push(performance.now() - sentMs);
        if (status !== 200) notOk += 1;
      }
      line.close();
    }),
  );
  isOver = true;
  return { latenciesMs, perSecond: latenciesMs.length / ((performance.now() - startMs) / 1000), notOk };
}

export function get(path: string, key: string): string {
  return `GET ${path} HTTP/1.1\r\nHost: bench\r\nX-Api-Key: ${key}\r\n\r\n`;
}

export class Line {
  private received: Buffer = Buffer.alloc(0);
  private answered: ((status: number) => void) | null = null;

  private constructor(private readonly socket: Socket) {
    socket.setNoDelay(true);
    socket.on('data', (data) => this.take(data));
  }

  static open(port: number): Promise<Line> {
    return new Promise((resolve, reject) => {
      const socket = connect(port, '127.0.0.1', () => resolve(new Line(socket)));
      socket.once('error', reject);
    });
  }

  /** Answers the status. */
  ask(request: Buffer): Promise<number> {
    return new Promise((resolve) => {
      this.answered = resolve;
      this.socket.write(request);
    });
  }

  close(): void {
    this.socket.destroy();
  }

  private take(data: Buffer): void {
    this.received = this.received.length === 0 ? data : Buffer.concat([this.received, data]);
    const end = this.received.indexOf('\r\n\r\n');
    if (end < 0) return;
    const at = this.received.indexOf(head);
    const length = Number.parseInt(this.received.toString('latin1', at + head.length, at + head.length + 10), 10);
    if (this.received.length < end + 4 + length) return;
    const status = Number(this.received.toString('latin1', 9, 12));
    this.received = Buffer.alloc(0);
    this.answered?.(status);
  }
}
