/**
 * The server side of drachtio's control protocol: a loopback TCP port, frames of `<byte length>#<payload>`, and the routing of methods to
 * applications.
 */
import { randomUUID, timingSafeEqual } from 'node:crypto';
import net from 'node:net';
import { parseMessage, type SipMessage } from '../message/message.js';
import { hostInUri } from '../message/uri.js';

/** The library pings only servers whose version is vX.Y.Z and at least 0.8.2. */
export const SERVER_VERSION = 'v0.9.10';
const MAX_FRAME_BYTES = 4 * 1024 * 1024;
const MAX_LENGTH_DIGITS = 7;
const MAX_UNREAD_BYTES = 64 * 1024 * 1024;

/** Splits the byte stream into payloads. Throws on anything but digits before `#`. */
export class ControlFrameReader {
  private chunks: Buffer[] = [];
  private size = 0;
  /** Bytes needed before the next attempt to read a frame. */
  private wanted = 1;

  *push(chunk: Buffer): Generator<Buffer> {
    this.chunks.push(chunk);
    this.size += chunk.length;
    while (this.size >= this.wanted) {
      const all = this.chunks.length === 1 ? this.chunks[0]! : Buffer.concat(this.chunks, this.size);
      this.chunks = [all];
      const hash = all.subarray(0, MAX_LENGTH_DIGITS + 1).indexOf(0x23);
      const digits = all.toString('latin1', 0, hash < 0 ? Math.min(all.length, MAX_LENGTH_DIGITS + 1) : hash);
      if (!/^\d*$/.test(digits) || hash === 0 || digits.length > MAX_LENGTH_DIGITS)
        throw new Error('A frame must begin with its length in digits');
      if (hash < 0) {
        this.wanted = this.size + 1;
        return;
      }
      const end = hash + 1 + Number(digits);
      if (end > MAX_FRAME_BYTES) throw new Error('A frame is too long');
      if (all.length < end) {
        this.wanted = end;
        return;
      }
      this.chunks = [all.subarray(end)];
      this.size = all.length - end;
      this.wanted = 1;
      yield all.subarray(hash + 1, end);
    }
    if (this.size === 0) this.chunks = [];
  }
}

/** `source|bytes|protocol|address|port|time`. */
export function metaFields(
  source: 'network' | 'application',
  bytes: number,
  protocol: string,
  address: string,
  port: number | string,
): string {
  return `${source}|${bytes}|${protocol}|${address}|${port}|${timeOfDay()}`;
}

/**
 * The destination of a request, as the last field of its frame: `udp/192.0.2.1:5060`. An extension of ours: the protocol's own fields for a
 * request name only our socket. drachtio-srf ignores it.
 */
export function destinationField({
  transport,
  address,
  port,
}: {
  transport: string;
  address: string;
  port: number;
}): string {
  return `${transport}/${hostInUri(address)}:${port}`;
}

/** `HH:MM:SS.uuuuuu` UTC. The text of a second is computed once. */
function timeOfDay(): string {
  const now = Date.now();
  const second = Math.floor(now / 1000);
  if (second !== lastSecond.number) lastSecond = { number: second, text: new Date(now).toISOString().slice(11, 19) };
  return `${lastSecond.text}.${String(now % 1000).padStart(3, '0')}000`;
}
let lastSecond = { number: -1, text: '' };

/** A `sip` frame of the application. */
export interface SipFrame {
  messageId: string;
  transactionId: string;
  dialogId: string;
  routeUrl: string;
  message: SipMessage | null;
  startLine: string;
}

/** The SIP side of the control port. Both `sip` and `gone` may be called at any time. */
export interface ControlUser {
  hostports(local: boolean): string;
  sip(app: ControlConnection, frame: SipFrame): void;
  gone(app: ControlConnection): void;
}

/** The connection of one application. */
export class ControlConnection {
  readonly routes = new Set<string>();
  private readonly reader = new ControlFrameReader();
  private authenticated = false;
  /** Further frames of the application are ignored. */
  private ended = false;
  private over = false;
  /** The connection closes after the last answer is written. */
  private dismissed = false;
  private outgoing: Buffer[] = [];

  constructor(
    private readonly socket: net.Socket,
    private readonly secret: string,
    private readonly user: ControlUser,
    closed: (app: ControlConnection) => void,
  ) {
    socket.setNoDelay(true);
    socket.setKeepAlive(true, 45_000);
    socket.on('data', (chunk) => {
      try {
        for (const payload of this.reader.push(chunk)) if (!this.ended) this.receive(payload);
      } catch {
        socket.destroy();
      }
    });
    socket.on('error', () => undefined); // 'close' follows
    const over = () => {
      if (this.over) return;
      this.over = true;
      this.ended = true;
      closed(this);
    };
    socket.on('end', over);
    socket.on('close', over);
  }

  get connected(): boolean {
    return !this.ended;
  }

  /** Sends a `sip` frame; `line` follows the message id. */
  deliver(line: string, message: Buffer): void {
    this.write(`${randomUUID()}|${line}\r\n`, message);
  }

  ok(messageId: string, rest = '', message: Buffer = NOTHING): void {
    this.write(
      `${randomUUID()}|response|${messageId}|OK${rest === '' ? '' : `|${rest}`}${message.length > 0 ? '\r\n' : ''}`,
      message,
    );
  }

  /** `NOK|reason`: the application's call fails with this text. */
  refuse(messageId: string, reason: string): void {
    this.write(`${randomUUID()}|response|${messageId}|NOK|${reason}`, NOTHING);
  }

  destroy(): void {
    this.socket.destroy();
  }

  private receive(payload: Buffer): void {
    const lineEnd = payload.indexOf(13);
    const line = payload.toString('latin1', 0, lineEnd < 0 ? payload.length : lineEnd);
    const fields = line.split('|');
    const [messageId = '', verb = ''] = fields;
    if (verb === 'authenticate') {
      this.authenticate(messageId, fields[2] ?? '');
      return;
    }
    if (!this.authenticated) {
      this.dismiss(messageId, 'not authenticated');
      return;
    }
    switch (verb) {
      case 'route':
        this.routes.add((fields[2] ?? '').toLowerCase());
        this.ok(messageId);
        return;
      case 'remove_route':
        this.routes.delete((fields[2] ?? '').toLowerCase());
        this.ok(messageId);
        return;
      case 'ping':
        this.ok(messageId, 'pong');
        return;
      case 'proxy':
        this.refuse(
          messageId,
          'proxy is not supported: this server begins and ends every call itself; use createB2BUA',
        );
        return;
      case 'sip': {
        const bytes = payload.subarray(lineEnd < 0 ? payload.length : lineEnd + 2);
        const newline = bytes.indexOf(13);
        this.user.sip(this, {
          messageId,
          transactionId: fields[2] ?? '',
          dialogId: fields[3] ?? '',
          routeUrl: fields[4] ?? '',
          message: parseMessage(bytes, { bodyIsRest: true }),
          startLine: bytes.toString('latin1', 0, newline < 0 ? bytes.length : newline),
        });
        return;
      }
      default:
        this.dismiss(messageId, 'Unknown message type');
        return;
    }
  }

  private authenticate(messageId: string, secret: string): void {
    const given = Buffer.from(secret, 'latin1');
    const right = Buffer.from(this.secret, 'latin1');
    if (given.length !== right.length || !timingSafeEqual(given, right)) {
      this.dismiss(messageId, 'incorrect secret');
      return;
    }
    this.authenticated = true;
    this.ok(messageId, `${this.user.hostports(false)}|${SERVER_VERSION}|${this.user.hostports(true)}`);
  }

  private dismiss(messageId: string, reason: string): void {
    this.write(`${randomUUID()}|response|${messageId}|NO|${reason}`, NOTHING);
    this.ended = true;
    this.dismissed = true;
  }

  /** Collects the frames of one turn of the event loop into one write: under load the system calls cost most. */
  private write(line: string, message: Buffer): void {
    if (this.socket.destroyed) return;
    const head = Buffer.from(line, 'latin1');
    if (this.outgoing.length === 0) setImmediate(() => this.flush());
    this.outgoing.push(Buffer.from(`${head.length + message.length}#`, 'latin1'), head);
    if (message.length > 0) this.outgoing.push(message);
  }

  private flush(): void {
    const bytes = Buffer.concat(this.outgoing);
    this.outgoing = [];
    if (this.socket.destroyed) return;
    this.socket.write(bytes);
    if (this.socket.writableLength > MAX_UNREAD_BYTES) this.socket.destroy();
    else if (this.dismissed) this.socket.end();
  }
}

const NOTHING = Buffer.alloc(0);

export class ControlServer {
  private readonly apps = new Set<ControlConnection>();
  private turn = 0;

  private constructor(
    private readonly server: net.Server,
    readonly port: number,
  ) {}

  static listen(host: string, secret: string, user: ControlUser): Promise<ControlServer> {
    const server = net.createServer();
    return new Promise((resolve, reject) => {
      server.once('error', reject);
      server.listen(0, host, () => {
        server.off('error', reject);
        server.on('error', () => undefined);
        const control = new ControlServer(server, (server.address() as net.AddressInfo).port);
        server.on('connection', (socket) => {
          const app = new ControlConnection(socket, secret, user, (closed) => {
            control.apps.delete(closed);
            user.gone(closed);
          });
          control.apps.add(app);
        });
        resolve(control);
      });
    });
  }

  /** The next application, in turn, that routes this method; null when none does. */
  appFor(method: string): ControlConnection | null {
    const verb = method.toLowerCase();
    const wanting = [...this.apps].filter((app) => app.connected && app.routes.has(verb));
    return wanting.length === 0 ? null : wanting[this.turn++ % wanting.length]!;
  }

  close(): Promise<void> {
    for (const app of this.apps) app.destroy();
    return new Promise((resolve) => this.server.close(() => resolve()));
  }
}
