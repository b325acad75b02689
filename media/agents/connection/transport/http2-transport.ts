/** One HTTP/2 request to an agent whose body and response are streams of messages (`https:` URLs; `http:` without TLS). */
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from 'node:http2';
import net from 'node:net';
import tls from 'node:tls';
import { refuseInternalLiteral, safeLookup } from '../../../../net/safe-lookup.js';
import type { AgentFailure, AgentMessage, AudioFormat, Upgrade } from '../../agent.js';
import { broken, brokenConnection, connectFailure, refusedRequest } from '../connect-failure.js';
import { Heartbeat } from '../heartbeat.js';
import { ReceiveBudget } from '../receive-budget.js';
import { SendQueue } from '../send-queue.js';
import { MessageSplitter } from './message-splitter.js';
import type { AgentTransport, TransportHooks, TransportLimits } from './transport.js';

/** What the agent may send ahead of our reading. */
const WINDOW_BYTES = 1024 * 1024;
/** The time in which a connection that works takes what was written. */
const FRESH_MS = 50;

export class AgentHttp2Stream implements AgentTransport {
  readonly sendQueue: SendQueue;
  readonly receiveBudget: ReceiveBudget;
  readonly #session: ClientHttp2Session;
  readonly #stream: ClientHttp2Stream;
  readonly #limits: TransportLimits;
  readonly #heartbeat: Heartbeat;
  #failure: AgentFailure | null = null;
  /** Nothing more is read. */
  #over = false;
  #endedInOrder = false;
  #heardAtMs = 0;
  #accepting: NodeJS.Timeout | undefined;
  #closing: NodeJS.Timeout | undefined;

  constructor(upgrade: Upgrade, allowPrivateAddress: boolean, limits: TransportLimits, hooks: TransportHooks) {
    const url = new URL(upgrade.url);
    const { codec } = upgrade;
    if (codec === undefined) throw new Error('A protocol over HTTP/2 has a codec.');
    if (!allowPrivateAddress) refuseInternalLiteral(url);
    this.#limits = limits;
    const session = connect(url.origin, {
      createConnection: () => openSocket(url, allowPrivateAddress),
      settings: { enablePush: false, initialWindowSize: WINDOW_BYTES },
    });
    const stream = session.request({
      ':method': 'POST',
      ':path': `${url.pathname}${url.search}`,
      'user-agent': 'Trunkline',
      ...upgrade.headers,
    });
    this.#session = session;
    this.#stream = stream;
    let isOpen = false;
    let isAccepted = false;
    const accept = () => {
      clearTimeout(this.#accepting);
      if (isAccepted || this.#over) return;
      isAccepted = true;
      hooks.accepted();
    };
    this.receiveBudget = new ReceiveBudget(limits, stream);
    /** What was written lately, and since when: HTTP/2 writes later, so that waiting means nothing yet. */
    let freshBytes = 0;
    let freshSinceMs = 0;
    const target = {
      get isOpen() {
        return isOpen && stream.writable;
      },
      get bufferedAmount() {
        const nowMs = performance.now();
        if (nowMs - freshSinceMs > FRESH_MS) {
          freshSinceMs = nowMs;
          freshBytes = 0;
        }
        return Math.max(0, stream.writableLength - freshBytes);
      },
      write: (message: string | Uint8Array) => {
        const bytes = codec.encode(message);
        freshBytes += bytes.length;
        stream.write(bytes);
      },
    };
    this.sendQueue = new SendQueue(target, limits, () =>
      this.break(broken('The agent does not read what it is sent.')),
    );
    this.#heartbeat = new Heartbeat({
      ping: () =>
        hooks.guard(() => {
          // Servers count pings that nothing else explains: they are for an agent that has been silent.
          const silentMs = performance.now() - this.#heardAtMs;
          if (silentMs > limits.silenceLimitMs / 3 && !session.destroyed) this.#ping();
          hooks.beat();
        }),
      lost: () => hooks.guard(() => this.break(broken('The agent does not answer any more.'))),
      intervalMs: limits.pingIntervalMs,
      limitMs: limits.silenceLimitMs,
    });
    session.on('connect', () => {
      isOpen = true;
      if (this.#over) return;
      session.setLocalWindowSize(WINDOW_BYTES);
      this.#heard();
      this.#heartbeat.start();
      hooks.guard(hooks.opened);
    });
    session.once('remoteSettings', () => {
      // The response may come with the first message only, and a refusal comes at once.
      if (!this.#over) this.#accepting = setTimeout(() => hooks.guard(accept), limits.acceptLimitMs);
    });
    stream.on('response', (headers) => {
      this.#heard();
      const status = headers[':status'] ?? 0;
      if (status !== 200) this.break(refusedRequest(status, headers['x-amzn-errortype']));
      else hooks.guard(accept);
    });
    const splitter = new MessageSplitter(codec, limits.maxMessageBytes);
    const onMessage = (message: Buffer): boolean => {
      this.receiveBudget.message(message.length, performance.now());
      hooks.message(codec.decode(message));
      return !this.#over;
    };
    stream.on('data', (bytes: Buffer) => {
      this.#heard();
      if (this.#over) return;
      hooks.guard(() => {
        const fault = splitter.take(bytes, onMessage);
        if (fault !== null) this.break(broken(fault));
      });
    });
    stream.on('end', () => {
      this.#endedInOrder = !splitter.isInMessage && stream.rstCode === 0;
      if (splitter.isInMessage) this.#failure ??= broken('The agent closed the connection in the middle of a message.');
      this.close(1000);
    });
    const failed = (error: Error) => {
      const cause = error.cause instanceof Error ? error.cause : error; // of a stream: what befell its session
      this.#failure ??= isOpen ? broken(brokenConnection(cause)) : connectFailure(cause);
    };
    session.on('error', failed);
    stream.on('error', failed);
    stream.on('close', () => this.close(1000));
    session.on('close', () => {
      this.#stop();
      clearTimeout(this.#closing);
      hooks.closed(this.#endedInOrder && this.#failure === null ? 1000 : 1006, '', this.#failure);
    });
  }

  get closing(): boolean {
    return this.#stream.readableEnded || this.#session.destroyed;
  }

  send(messages: AgentMessage[]): void {
    for (const message of messages) this.sendQueue.send(message);
  }

  takesFrame(): boolean {
    return this.sendQueue.takesFrame(0);
  }

  frame(message: AgentMessage, bytes: number, format: AudioFormat): void {
    this.sendQueue.frame(message, bytes, format);
  }

  break(failure: AgentFailure): void {
    this.#failure ??= failure;
    this.#stop();
    this.#session.destroy();
  }

  close(_code: number): void {
    this.#stop();
    if (this.#session.destroyed) return;
    if (this.#session.connecting) {
      this.#session.destroy();
      return;
    }
    this.#stream.end();
    this.#stream.resume(); // what the agent still sends must not keep the stream open
    this.#session.close();
    this.#closing ??= setTimeout(() => this.#session.destroy(), this.#limits.closeLimitMs);
  }

  #heard(): void {
    this.#heardAtMs = performance.now();
    this.#heartbeat.heard(this.#heardAtMs);
  }

  #ping(): void {
    this.#session.ping((error) => {
      if (error === null) this.#heartbeat.pong();
    });
  }

  #stop(): void {
    this.#over = true;
    clearTimeout(this.#accepting);
    this.#heartbeat.stop();
    this.receiveBudget.stop();
  }
}

function openSocket(url: URL, allowPrivateAddress: boolean): net.Socket {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const isSecure = url.protocol === 'https:';
  const port = Number(url.port) || (isSecure ? 443 : 80);
  const options = { host, port, noDelay: true, ...(!allowPrivateAddress && { lookup: safeLookup }) };
  if (!isSecure) return net.connect(options);
  const servername = net.isIP(host) ? '' : host; // SNI carries names but no addresses (RFC 6066 section 3)
  return tls.connect({ ...options, servername, ALPNProtocols: ['h2'] });
}
