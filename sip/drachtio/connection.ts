/** The control connection to a SIP server that speaks drachtio's protocol: connecting, heartbeats, and reading its frames. */
import { randomUUID } from 'node:crypto';
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseUri } from '../inbound/identity.js';
import { type Peer, SipError, type SipTraceEntry } from '../leg.js';
import { rateLimited, type SipLog } from '../log.js';
import { listElements, nameAddress, readHeaders } from './header.js';
import { createStack, type Stack } from './types.js';

export interface ControlLinkOptions {
  host: string;
  port: number;
  secret: string;
  /** Limit for the first connection in all. */
  limitMs: number;
  signal: AbortSignal;
  log: SipLog;
  /** The server reads no longer frames: a longer one is not sent, and fails as if the server had refused it. Default: no limit. */
  mostFrameBytes?: number;
  /** Time between two heartbeats; the connection to a silent server is closed. Default 10,000. */
  heartbeatMs?: number;
  /** Called once before connecting, to register routes and handlers. */
  wire(stack: Stack): void;
  onMessage(entry: SipTraceEntry): void;
  /** The connection broke. drachtio-srf reconnects by itself, at least every two seconds, until `close`. */
  onLost(link: ControlLink): void;
  onRestored(link: ControlLink): void;
}

export interface ServerAddress {
  transport: string;
  host: string;
  port: number;
}

export interface ControlLink {
  readonly stack: Stack;
  /** The addresses on which the server listens, as it reports them. */
  readonly addresses: readonly ServerAddress[];
  /** The server's advertised addresses, at which phones and carriers reach it. */
  readonly contacts: readonly ServerAddress[];
  /** As the server reports it: `v0.9.10`. */
  readonly version: string;
  readonly connected: boolean;
  /** Resolves when the server has read everything sent so far, or after the limit: `close` would discard what it has not read. */
  taken(limitMs: number): Promise<void>;
  /** Closes the connection and never reconnects. */
  close(): void;
}

/** A longer pause between two attempts would outlast most outages. */
const mostReconnectMs = 2000;

/**
 * Resolves when the server accepted our secret. Rejects with one sentence: `SipError` `rejected` when it refused the secret, else
 * `not_connected`.
 */
export async function openControlLink(options: ControlLinkOptions): Promise<ControlLink> {
  const where = `The SIP server's control port ${options.host}:${options.port}`;
  const deadlineMs = performance.now() + options.limitMs;
  await reach(options, where, deadlineMs);

  const stack = createStack();
  options.wire(stack);
  let connected = false;
  let closed = false;
  let lastFrameMs = performance.now();
  let heartbeat: NodeJS.Timeout | undefined;
  let told = { version: '', addresses: [] as ServerAddress[], contacts: [] as ServerAddress[] };
  const warnRefused = rateLimited((fields, text) => options.log.warn(fields, text), 60_000);
  const link: ControlLink = {
    stack,
    get addresses() {
      return told.addresses;
    },
    get contacts() {
      return told.contacts;
    },
    get version() {
      return told.version;
    },
    get connected() {
      return connected;
    },
    taken,
    close,
  };

  function close(): void {
    closed = true;
    connected = false;
    clearInterval(heartbeat);
    const { wp, mapServer } = stack.app.client;
    wp.closing = true;
    clearTimeout(wp.reconnectVars?.retryTimer ?? undefined);
    for (const socket of mapServer.keys()) socket.destroy();
    wp.socket?.destroy();
  }

  function taken(limitMs: number): Promise<void> {
    const { wp, mapServer } = stack.app.client;
    const [socket] = mapServer.keys();
    if (!connected || !socket) return Promise.resolve();
    const question = wp.send(socket, 'ping');
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(limit);
        wp.off('msg', heard);
        resolve();
      };
      const limit = setTimeout(done, limitMs);
      const heard = (_socket: Socket, frame: string) => {
        if (frame.includes(`|response|${question}|`)) done();
      };
      wp.on('msg', heard);
    });
  }

  const accepted = new Promise<void>((resolve, reject) => {
    stack.on('connect', (err, hostports, version, localHostports) => {
      if (closed) return;
      if (err) {
        reject(new SipError('rejected', 'signalling_lost', `${where} refused our secret.`));
        warnRefused({ host: options.host, port: options.port }, 'sip server refused the secret');
        return;
      }
      const isReturn = heartbeat !== undefined;
      connected = true;
      // Asks the embedded server to pass 100 Trying up, which tells a slow gateway from a dead one; other servers accept any word here.
      for (const socket of stack.app.client.mapServer.keys()) stack.app.client.wp.send(socket, 'route|trying');
      lastFrameMs = performance.now();
      heartbeat ??= setInterval(beat, options.heartbeatMs ?? 10_000);
      heartbeat.unref();
      told = {
        version: version ?? '',
        addresses: readAddresses(localHostports || hostports || ''),
        contacts: readAddresses(hostports || localHostports || ''),
      };
      resolve();
      if (isReturn) options.onRestored(link);
    });
  });
  stack.on('error', (err) => options.log.debug({ err: err.message }, 'sip server connection error'));
  stack.on('close', () => {
    if (!connected || closed) return;
    connected = false;
    options.onLost(link);
  });

  function beat(): void {
    if (!connected) return;
    const { wp, mapServer } = stack.app.client;
    const silentMs = performance.now() - lastFrameMs;
    for (const socket of mapServer.keys()) {
      if (silentMs > 2.5 * (options.heartbeatMs ?? 10_000)) socket.destroy();
      else wp.send(socket, 'ping');
    }
  }

  const { host, port, secret } = options;
  stack.connect({ host, port, secret, reconnect: { retryMaxDelay: mostReconnectMs } });
  if (options.mostFrameBytes !== undefined) refuseLongFrames(stack, options.mostFrameBytes);
  stack.app.client.wp.on('msg', (socket, frame) => {
    lastFrameMs = performance.now();
    gather(socket);
    const entry = readFrame(frame);
    if (entry) options.onMessage(entry);
  });
  try {
    await limited(accepted, Math.max(1, deadlineMs - performance.now()), options.signal, where);
    return link;
  } catch (error) {
    accepted.catch(() => undefined);
    close();
    throw error;
  }
}

/**
 * Collects the writes of one turn of the event loop into one: under load the system calls cost most. Two turns, since the library answers
 * in the next one.
 */
function gather(socket: Socket): void {
  if (socket.writableCorked > 0) return;
  socket.cork();
  setImmediate(() => setImmediate(() => socket.uncork()));
}

/** The length of a frame's identifier, with the bar after it. */
const frameIdBytes = 37;

function refuseLongFrames({ app: { client } }: Stack, mostBytes: number): void {
  const { wp } = client;
  const send = wp.send.bind(wp);
  wp.send = (socket, frame) => {
    const bytes = Buffer.byteLength(frame) + frameIdBytes;
    if (bytes <= mostBytes) return send(socket, frame);
    const question = randomUUID();
    const why = `the message has ${bytes} bytes with its frame, and drachtio-server reads at most ${mostBytes}: send fewer or shorter headers`;
    setImmediate(() => wp.emit('msg', socket, `${randomUUID()}|response|${question}|NOK|${why}`));
    return question;
  };
}

/** Tries to connect until the port opens: a server that starts together with us may take a few seconds. */
async function reach(options: ControlLinkOptions, where: string, deadlineMs: number): Promise<void> {
  for (let waitMs = 100; ; waitMs = Math.min(waitMs * 2, 1000)) {
    if (options.signal.aborted) throw new SipError('cancelled', 'system_shutdown', 'Connecting was aborted.');
    const leftMs = deadlineMs - performance.now();
    const problem = await knock(options.host, options.port, Math.max(1, leftMs), options.signal);
    if (problem === null) return;
    if (performance.now() + waitMs >= deadlineMs) {
      throw new SipError('not_connected', 'signalling_lost', `${where} cannot be reached: ${problem}.`);
    }
    await sleep(waitMs, undefined, { signal: options.signal }).catch(() => undefined);
  }
}

function knock(host: string, port: number, limitMs: number, signal: AbortSignal): Promise<string | null> {
  return new Promise((resolve) => {
    const socket = connectTcp({ host, port });
    const done = (problem: string | null) => {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      socket.destroy();
      resolve(problem);
    };
    const onAbort = () => done('given up');
    const timer = setTimeout(() => done('no answer'), limitMs);
    signal.addEventListener('abort', onAbort, { once: true });
    socket.once('connect', () => done(null));
    socket.once('error', (err: NodeJS.ErrnoException) =>
      done(err.code === 'ECONNREFUSED' ? 'connection refused' : err.message),
    );
  });
}

function limited<T>(promise: Promise<T>, limitMs: number, signal: AbortSignal, where: string): Promise<T> {
  return new Promise((resolve, reject) => {
    const finish = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
    };
    const onAbort = () => {
      finish();
      reject(new SipError('cancelled', 'system_shutdown', 'Connecting was aborted.'));
    };
    const timer = setTimeout(() => {
      finish();
      reject(new SipError('not_connected', 'signalling_lost', `${where} did not answer in time.`));
    }, limitMs);
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(finish);
  });
}

/** `udp/10.0.0.1:5060,tcp/[::1]:5060` as a list. */
export function readAddresses(hostports: string): ServerAddress[] {
  return hostports.split(',').flatMap((item) => {
    const match = /^(\w+)\/\[?([^\]]*?)\]?:(\d+)$/.exec(item.trim());
    return match ? [{ transport: match[1] ?? '', host: match[2] ?? '', port: Number(match[3]) }] : [];
  });
}

/**
 * The SIP message in a frame; null when it has none. Requests and responses from the network come in `sip` frames. Our own messages come
 * back, as sent on the wire, in the server's `response` frame, and BYEs that the server sends by itself come as `sip` frames with source
 * `application`.
 */
export function readFrame(frame: string): SipTraceEntry | null {
  const end = frame.indexOf('\r\n');
  if (end < 0 || end + 2 >= frame.length) return null;
  const fields = frame.slice(0, end).split('|');
  const meta = fields[1] === 'sip' ? 2 : fields[1] === 'response' && fields[3] === 'OK' ? 4 : -1;
  if (meta < 0) return null;
  const to = meta === 2 ? 10 : 12;
  const message = frame.slice(end + 2);
  const received = fields[meta] === 'network';
  const isNamed = received || message.startsWith('SIP/2.0 ');
  return {
    at: new Date().toISOString(),
    direction: received ? 'received' : 'sent',
    // For our own requests these fields name our socket. Our server adds the destination; with others it is read from the request.
    peer: isNamed
      ? peerOf(fields[meta + 2], fields[meta + 3], fields[meta + 4])
      : (addressIn(fields[to]) ?? nextHopIn(message, fields[meta + 2])),
    message,
  };
}

function addressIn(field = ''): Peer | null {
  const [to] = readAddresses(field);
  return to ? peerOf(to.transport, to.host, to.port) : null;
}

/** The destination of a request by its first Route or its Request-URI; null when that is a host name. */
function nextHopIn(message: string, transport: string | undefined): Peer | null {
  const [, requestUri = ''] = /^\S+ (\S+) SIP/.exec(message) ?? [];
  const route = nameAddress(listElements(readHeaders(message).get('route'))[0])?.uri;
  const uri = parseUri(route ?? requestUri);
  return uri && isIP(uri.host) ? peerOf(transport, uri.host, uri.port ?? 5060) : null;
}

/** A peer from the fields of a frame; null when the server generated the message itself. */
export function peerOf(transport: string | undefined, address: string | undefined, port: unknown): Peer | null {
  if (!address) return null;
  const known = (['udp', 'tcp', 'tls', 'ws', 'wss'] as const).find((name) => name === transport?.toLowerCase());
  return { transport: known ?? 'udp', address: address.replace(/^\[|\]$/g, ''), port: Number(port) || 5060 };
}
