/** One TCP connection to an agent whose protocol has messages of its own on it (`tcp:` URLs). */
import net from 'node:net';
import { refuseInternalLiteral, safeLookup } from '../../../../net/safe-lookup.js';
import { AgentConfigError, type AgentFailure, type AgentMessage, type AudioFormat, type Upgrade } from '../../agent.js';
import { broken, brokenConnection, connectFailure } from '../connect-failure.js';
import { ReceiveBudget } from '../receive-budget.js';
import { SendQueue } from '../send-queue.js';
import { MessageSplitter } from './message-splitter.js';
import type { AgentTransport, TransportHooks, TransportLimits } from './transport.js';

/** Read buffer of all connections of the thread: each read is handled before the next one. */
const readInto = Buffer.allocUnsafeSlow(8192);

export class AgentTcpSocket implements AgentTransport {
  readonly sendQueue: SendQueue;
  readonly receiveBudget: ReceiveBudget;
  readonly #socket: net.Socket;
  readonly #hooks: TransportHooks;
  readonly #limits: TransportLimits;
  #failure: AgentFailure | null = null;
  /** Nothing more is read. */
  #over = false;
  #endedInOrder = false;
  #tick: NodeJS.Timeout | undefined;
  #closing: NodeJS.Timeout | undefined;
  /** What the kernel has taken so far, and since when it has taken no more. */
  #takenBytes = 0;
  #takenAtMs = 0;

  constructor(upgrade: Upgrade, allowPrivateAddress: boolean, limits: TransportLimits, hooks: TransportHooks) {
    const { host, port, address } = addressOf(upgrade.url);
    const { codec } = upgrade;
    if (codec === undefined) throw new Error('A protocol over TCP has a codec.');
    if (!allowPrivateAddress) refuseInternalLiteral(address);
    this.#hooks = hooks;
    this.#limits = limits;
    const splitter = new MessageSplitter(codec, limits.maxMessageBytes);
    let isOpen = false;
    let bytes: Buffer = readInto;
    const onMessage = (message: Buffer): boolean => {
      this.receiveBudget.message(message.length, performance.now());
      hooks.message(codec.decode(message));
      return !this.#over;
    };
    const read = () => {
      const fault = splitter.take(bytes, onMessage);
      if (fault !== null) this.break(broken(fault));
    };
    const socket = net.connect({
      host,
      port,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: limits.silenceLimitMs,
      ...(!allowPrivateAddress && { lookup: safeLookup }),
      onread: {
        buffer: readInto,
        callback: (count) => {
          if (this.#over) return true;
          bytes = readInto.subarray(0, count);
          hooks.guard(read);
          if (count < readInto.length) return true;
          setImmediate(() => {
            if (!this.receiveBudget.paused) socket.resume(); // other calls are served first
          });
          return false;
        },
      },
    });
    this.#socket = socket;
    this.receiveBudget = new ReceiveBudget(limits, socket);
    const target = {
      get isOpen() {
        return isOpen && socket.writable;
      },
      get bufferedAmount() {
        return socket.writableLength;
      },
      write: (message: string | Uint8Array) => void socket.write(codec.encode(message)),
    };
    this.sendQueue = new SendQueue(target, limits, () =>
      this.break(broken('The agent does not read what it is sent.')),
    );
    socket.on('connect', () => {
      isOpen = true;
      if (this.#over) return;
      this.#takenAtMs = performance.now();
      this.#arm();
      hooks.guard(() => {
        hooks.opened();
        hooks.accepted();
      });
    });
    socket.on('end', () => {
      this.#endedInOrder = !splitter.isInMessage;
      if (!this.#endedInOrder) this.#failure ??= broken('The agent closed the connection in the middle of a message.');
    });
    socket.on('error', (error) => {
      this.#failure ??= isOpen ? broken(brokenConnection(error)) : connectFailure(error);
    });
    socket.on('close', () => {
      this.#stop();
      clearTimeout(this.#closing);
      hooks.closed(this.#endedInOrder && this.#failure === null ? 1000 : 1006, '', this.#failure);
    });
  }

  get closing(): boolean {
    return this.#socket.readableEnded || this.#socket.destroyed;
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
    this.#socket.destroy();
  }

  close(_code: number): void {
    this.#stop();
    if (this.#socket.connecting) this.#socket.destroy();
    else {
      this.#socket.end();
      this.#closing ??= setTimeout(() => this.#socket.destroy(), this.#limits.closeLimitMs);
    }
  }

  #arm(): void {
    const dueAtMs = performance.now() + this.#limits.pingIntervalMs;
    this.#tick = setTimeout(() => this.#hooks.guard(() => this.#check(dueAtMs)), this.#limits.pingIntervalMs);
  }

  /** There are no pings in these protocols. Keepalive finds an idle peer that is gone; one that takes nothing is found here. */
  #check(dueAtMs: number): void {
    const nowMs = performance.now();
    const { writableLength, bytesWritten } = this.#socket;
    const taken = bytesWritten - writableLength;
    const wasLate = nowMs - dueAtMs > this.#limits.pingIntervalMs;
    if (writableLength === 0 || taken !== this.#takenBytes || wasLate) {
      this.#takenBytes = taken;
      this.#takenAtMs = nowMs;
    }
    if (nowMs - this.#takenAtMs >= this.#limits.silenceLimitMs) {
      this.break(broken('The agent does not answer any more.'));
      return;
    }
    this.#arm();
    this.#hooks.beat();
  }

  #stop(): void {
    this.#over = true;
    clearTimeout(this.#tick);
    this.receiveBudget.stop();
  }
}

/** `address`: the same with an HTTP scheme, whose hosts `URL` brings into their plain form. */
function addressOf(url: string): { host: string; port: number; address: URL } {
  const port = Number(new URL(url).port);
  if (!(port > 0)) throw new AgentConfigError('target', 'The target must have a port.');
  const address = new URL(url.replace(/^tcp:/i, 'http:'));
  return { host: address.hostname.replace(/^\[|\]$/g, ''), port, address };
}
