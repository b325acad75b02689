/** The control connection to a SIP server that speaks drachtio's protocol: dialling it, watching it, and reading what crosses it. */
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
  /** How long the first connection may take in all. */
  limitMs: number;
  signal: AbortSignal;
  log: SipLog;
  /** Between two questions whether the server still lives; a silent one is hung up on. Default 10,000. */
  heartbeatMs?: number;
  /** Called once before connecting: routes and handlers are registered here. */
  wire(stack: Stack): void;
  onMessage(entry: SipTraceEntry): void;
  /** The connection broke. drachtio-srf dials again by itself, at least every two seconds, until `close`. */
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
  /** Where the server listens, by its own account. */
  readonly addresses: readonly ServerAddress[];
  /** What it tells peers to be its addresses: where phones and carriers reach it. */
  readonly contacts: readonly ServerAddress[];
  readonly connected: boolean;
  /** Resolves when the server has taken all that was sent so far, or after the limit: what it had not read, `close` would take back. */
  taken(limitMs: number): Promise<void>;
  /** Hangs up and never dials again. */
  close(): void;
}

/** A longer pause between two attempts would outlast the outage. */
const mostReconnectMs = 2000;

/** Resolves when the server took our secret. Rejects with one sentence: `SipError` `rejected` when it refused it, else `not_connected`. */
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
  let told = { addresses: [] as ServerAddress[], contacts: [] as ServerAddress[] };
  const warnRefused = rateLimited((fields, text) => options.log.warn(fields, text), 60_000);
  const link: ControlLink = {
    stack,
    get addresses() {
      return told.addresses;
    },
    get contacts() {
      return told.contacts;
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
    stack.on('connect', (err, hostports, _version, localHostports) => {
      if (closed) return;
      if (err) {
        reject(new SipError('rejected', 'signalling_lost', `${where} refused our secret.`));
        warnRefused({ host: options.host, port: options.port }, 'sip server refused the secret');
        return;
      }
      const isReturn = heartbeat !== undefined;
      connected = true;
      // The embedded server then passes 100 Trying up, by which a slow gateway differs from a dead one; others take any word.
      for (const socket of stack.app.client.mapServer.keys()) stack.app.client.wp.send(socket, 'route|trying');
      lastFrameMs = performance.now();
      heartbeat ??= setInterval(beat, options.heartbeatMs ?? 10_000);
      heartbeat.unref();
      told = {
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
 * What is said in answer to the frames of one turn of the event loop leaves in one write: under load the system calls are what costs most. Two
 * turns, since the library answers in the one after.
 */
function gather(socket: Socket): void {
  if (socket.writableCorked > 0) return;
  socket.cork();
  setImmediate(() => setImmediate(() => socket.uncork()));
}

/** Knocks until somebody opens: a server that starts beside us may be a few seconds late. */
async function reach(options: ControlLinkOptions, where: string, deadlineMs: number): Promise<void> {
  for (let waitMs = 100; ; waitMs = Math.min(waitMs * 2, 1000)) {
    if (options.signal.aborted) throw new SipError('cancelled', 'system_shutdown', 'Connecting was given up.');
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
      reject(new SipError('cancelled', 'system_shutdown', 'Connecting was given up.'));
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
 * The SIP message in a frame, if it carries one. Requests and responses from the network come in `sip` frames; what we send comes back,
 * as it went over the wire, in the `response` frame of the server, and its own BYEs come as `sip` frames of source `application`.
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
    // For a request of ours these words name our own socket; our server adds where it went, of another's the request itself tells.
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

/** Where a request has to go by its own words: its first Route, or its Request-URI. Null when that is a name. */
function nextHopIn(message: string, transport: string | undefined): Peer | null {
  const [, requestUri = ''] = /^\S+ (\S+) SIP/.exec(message) ?? [];
  const route = nameAddress(listElements(readHeaders(message).get('route'))[0])?.uri;
  const uri = parseUri(route ?? requestUri);
  return uri && isIP(uri.host) ? peerOf(transport, uri.host, uri.port ?? 5060) : null;
}

/** A peer from the protocol's words; null when the server made the message itself and there was none. */
export function peerOf(transport: string | undefined, address: string | undefined, port: unknown): Peer | null {
  if (!address) return null;
  const known = (['udp', 'tcp', 'tls', 'ws', 'wss'] as const).find((name) => name === transport?.toLowerCase());
  return { transport: known ?? 'udp', address: address.replace(/^\[|\]$/g, ''), port: Number(port) || 5060 };
}
