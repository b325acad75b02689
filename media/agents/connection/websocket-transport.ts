/** One WebSocket to an agent: sends within limits, detects a lost peer, and reports its end once. */
import type { WebSocket } from 'ws';
import type { AgentFailure, AgentMessage, AudioFormat, Upgrade } from '../agent.js';
import { broken, brokenSocket, connectFailure, refusedUpgrade } from './connect-failure.js';
import { dial } from './dial.js';
import type { FrameHooks } from './frame-reader.js';
import type { WebSocketFrameWriter } from './frame-writer.js';
import { Heartbeat } from './heartbeat.js';
import { ReceiveBudget } from './receive-budget.js';
import { SendQueue, type SendTarget } from './send-queue.js';
import type { AgentTransport, TransportHooks, TransportLimits } from './transport/transport.js';

const EMPTY = Buffer.alloc(0);
/** The message that is being handled, of any socket of the thread. */
let receiver: AgentWebSocket | null = null;
let received: Buffer = EMPTY;
let isBinary = false;
const handle = (): void => receiver?.handle(received, isBinary);

export class AgentWebSocket implements AgentTransport, FrameHooks, SendTarget {
  readonly sendQueue: SendQueue;
  readonly receiveBudget: ReceiveBudget;
  readonly #ws: WebSocket;
  /** null before the socket is open. */
  #writer: WebSocketFrameWriter | null = null;
  readonly #hooks: TransportHooks;
  readonly #heartbeat: Heartbeat;
  #failure: AgentFailure | null = null;
  #wasOpen = false;
  /** Nothing more is read. */
  #over = false;

  /** Throws the errors of `dial`. */
  constructor(upgrade: Upgrade, allowPrivateAddress: boolean, limits: TransportLimits, hooks: TransportHooks) {
    const { ws, frames } = dial(upgrade, { ...limits, allowPrivateAddress }, this);
    this.#ws = ws;
    this.#hooks = hooks;
    const guarded = (fn: () => void) => () => hooks.guard(fn);
    this.receiveBudget = new ReceiveBudget(limits, ws);
    // The socket itself, since an object with getters of its own would have a shape of its own for each socket.
    this.sendQueue = new SendQueue(this, limits, () => this.break(broken('The agent does not read what it is sent.')));
    this.#heartbeat = new Heartbeat({
      ping: guarded(() => {
        ws.ping();
        hooks.beat();
      }),
      lost: guarded(() => this.break(broken('The agent does not answer any more.'))),
      intervalMs: limits.pingIntervalMs,
      limitMs: limits.silenceLimitMs,
    });
    ws.on('open', () => {
      this.#wasOpen = true;
      this.#writer = frames();
      if (this.#over) return;
      this.#heartbeat.start();
      hooks.guard(() => {
        hooks.opened();
        hooks.accepted();
      });
    });
    ws.on('unexpected-response', (_request, response) => this.break(refusedUpgrade(response.statusCode ?? 0)));
    ws.on('error', (error) => {
      this.#failure ??= this.#wasOpen ? broken(brokenSocket(error)) : connectFailure(error);
    });
    ws.on('pong', () => this.#heartbeat.pong());
    ws.on('close', (code, reason) => {
      this.#stop();
      hooks.closed(code, reason.toString(), this.#failure);
    });
  }

  get isOpen(): boolean {
    return this.#writer !== null && this.#ws.readyState === this.#ws.OPEN;
  }

  get bufferedAmount(): number {
    return this.isOpen ? (this.#writer?.waitingBytes ?? 0) : 0;
  }

  /** Only while the socket is open. */
  write(message: string | Uint8Array): void {
    if (typeof message === 'string') this.#writer?.text(message);
    else this.#writer?.binary(message);
  }

  get closing(): boolean {
    return this.#ws.readyState >= this.#ws.CLOSING;
  }

  send(messages: AgentMessage[]): void {
    for (const message of messages) this.sendQueue.send(message);
  }

  takesFrame(): boolean {
    return this.sendQueue.takesFrame(this.#heartbeat.unansweredMs());
  }

  frame(message: AgentMessage, bytes: number, format: AudioFormat): void {
    this.sendQueue.frame(message, bytes, format);
  }

  /** Destroys the socket without a close frame, which would stay unanswered. */
  break(failure: AgentFailure): void {
    this.#failure ??= failure;
    this.#stop();
    this.#ws.terminate();
  }

  /** Sends a close frame if the socket is open; the socket is destroyed after a time limit. */
  close(code: number): void {
    this.#stop();
    if (this.#ws.readyState === this.#ws.OPEN) this.#ws.close(code);
    else this.#ws.terminate();
  }

  /** A message arrived. */
  message(data: Buffer, binary: boolean): void {
    receiver = this;
    received = data;
    isBinary = binary;
    this.#hooks.guard(handle);
    received = EMPTY;
  }

  /** Called within the owner's guard. */
  handle(message: Buffer, binary: boolean): void {
    const nowMs = performance.now();
    this.#heartbeat.heard(nowMs);
    if (this.#over) return;
    this.receiveBudget.message(message.length, nowMs);
    if (binary) this.#hooks.message(message);
    else if (!this.#hooks.media(message)) this.#hooks.message(message.toString());
  }

  #stop(): void {
    this.#over = true;
    this.#heartbeat.stop();
    this.receiveBudget.stop();
  }
}
