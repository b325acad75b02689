/** A connection to FreeSWITCH's event socket, for `api` commands only: each is answered in order. */
import { connect, type Socket } from 'node:net';
import { withDeadline } from '../../net/deadline.js';

export interface EventSocketAddress {
  host: string;
  port: number;
  password: string;
}

/** One sentence about why an event socket cannot be used. `refused`: waiting does not help, the settings are wrong. */
export class EventSocketError extends Error {
  constructor(
    readonly code: 'unreachable' | 'refused' | 'closed',
    message: string,
  ) {
    super(message);
    this.name = 'EventSocketError';
  }
}

interface Packet {
  headers: Map<string, string>;
  body: string;
}

/** FreeSWITCH's answers have a few kilobytes; a list of its codecs is the longest. */
const maxPacketBytes = 1024 * 1024;
/** A server under load answers late; to close its connection would make things worse. */
const answerLimitMs = 10_000;

export class EventSocket {
  /** Our address as FreeSWITCH reaches it. */
  readonly localAddress: string;
  /** Resolves once, when the connection is over. */
  readonly closed: Promise<void>;
  #received: Buffer = Buffer.alloc(0);
  readonly #waiting: ((packet: Packet) => void)[] = [];
  readonly #early: Packet[] = [];

  /** Use `openEventSocket`. */
  constructor(
    private readonly socket: Socket,
    private readonly where: string,
  ) {
    this.localAddress = (socket.localAddress ?? '').replace(/^::ffff:/, '');
    this.closed = new Promise((resolve) => {
      socket.once('close', () => {
        resolve();
        this.#fail();
      });
    });
    socket.on('error', () => undefined); // `close` follows
    socket.on('data', (chunk: Buffer) => this.#read(chunk));
  }

  /** The text that an `api` command answers. Rejects, and closes the connection, when it is not answered within ten seconds. */
  async api(command: string): Promise<string> {
    return (await this.ask(`api ${command}`)).body;
  }

  /** Sends one command; the next answer is its answer. */
  async ask(command: string): Promise<Packet> {
    if (this.socket.destroyed) throw this.#gone();
    const answer = this.next();
    this.socket.write(`${command}\n\n`);
    return answer;
  }

  /** The next packet that FreeSWITCH sends, unasked or as an answer. */
  next(): Promise<Packet> {
    const early = this.#early.shift();
    if (early) return Promise.resolve(early);
    return withDeadline(answerLimitMs, `the answer of ${this.where}`, null, () =>
      new Promise<Packet | null>((resolve) => {
        this.#waiting.push(resolve as (packet: Packet) => void);
        if (this.socket.destroyed) this.#fail();
      }).then((packet) => {
        if (packet === null) throw this.#gone();
        return packet;
      }),
    ).catch((error: unknown) => {
      this.close(); // later answers would be taken for those of other commands
      throw error;
    });
  }

  close(): void {
    this.socket.destroy();
  }

  #gone(): EventSocketError {
    return new EventSocketError('closed', `The connection to ${this.where} was closed.`);
  }

  #fail(): void {
    for (const tell of this.#waiting.splice(0)) (tell as (packet: Packet | null) => void)(null);
  }

  #read(chunk: Buffer): void {
    this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk]);
    for (;;) {
      const end = this.#received.indexOf('\n\n');
      if (end < 0 && this.#received.length <= maxPacketBytes) return;
      const headers = readHeaders(this.#received.toString('utf8', 0, Math.max(0, end)));
      const bodyBytes = Number(headers.get('content-length') ?? 0);
      if (end < 0 || !(bodyBytes >= 0 && bodyBytes <= maxPacketBytes)) {
        this.close();
        return;
      }
      const total = end + 2 + bodyBytes;
      if (this.#received.length < total) return;
      const body = this.#received.toString('utf8', end + 2, total);
      this.#received = this.#received.subarray(total);
      const kind = headers.get('content-type');
      if (kind === 'text/disconnect-notice') continue;
      const packet = { headers, body };
      const tell = this.#waiting.shift();
      if (tell) tell(packet);
      else this.#early.push(packet);
    }
  }
}

function readHeaders(text: string): Map<string, string> {
  const headers = new Map<string, string>();
  for (const line of text.split('\n')) {
    const colon = line.indexOf(':');
    if (colon > 0) headers.set(line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim());
  }
  return headers;
}

/** The name of a server in sentences. */
export function nameOf({ host, port }: EventSocketAddress): string {
  return `FreeSWITCH at ${host}:${port}`;
}

/** Connects and authenticates. Rejects with `EventSocketError`, one clear sentence. */
export async function openEventSocket(
  address: EventSocketAddress,
  limitMs: number,
  signal: AbortSignal,
): Promise<EventSocket> {
  const where = nameOf(address);
  const socket = connect({ host: address.host, port: address.port, keepAlive: true, noDelay: true });
  try {
    return await withDeadline(limitMs, `the answer of ${where}`, signal, async () => {
      await new Promise<void>((resolve, reject) => {
        socket.once('connect', resolve);
        socket.once('error', (error: NodeJS.ErrnoException) => {
          const why = error.code === 'ECONNREFUSED' ? 'connection refused' : error.message;
          reject(new EventSocketError('unreachable', `${where} cannot be reached: ${why}.`));
        });
      });
      const connection = new EventSocket(socket, where);
      const greeting = (await connection.next()).headers.get('content-type');
      if (greeting === 'text/rude-rejection') {
        const fix = 'add our address to the list in apply-inbound-acl of event_socket.conf.xml';
        throw new EventSocketError('refused', `${where} accepts no connection from our address: ${fix}.`);
      }
      if (greeting !== 'auth/request')
        throw new EventSocketError('refused', `${where} does not speak FreeSWITCH's event-socket protocol.`);
      const answer = await connection.ask(`auth ${address.password}`);
      if (!answer.headers.get('reply-text')?.startsWith('+OK'))
        throw new EventSocketError('refused', `${where} refused the password.`);
      return connection;
    });
  } catch (error) {
    socket.destroy();
    socket.on('error', () => undefined);
    if (error instanceof EventSocketError || signal.aborted) throw error;
    throw new EventSocketError('unreachable', error instanceof Error ? error.message : String(error));
  }
}
