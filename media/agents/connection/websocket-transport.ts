/** One WebSocket of an agent: sends within limits, notices when the far side is gone, and says once how it ended. */
import type { WebSocket } from 'ws';
import { AgentFailure, type AgentMessage, type AudioFormat } from '../agent.js';
import { brokenSocket, connectFailure, refusedUpgrade } from './connect-failure.js';
import { dial } from './dial.js';
import { Heartbeat } from './heartbeat.js';
import { Inflow, type InflowLimits } from './receive-budget.js';
import { Outflow, type OutflowLimits } from './send-queue.js';

export interface LineLimits extends InflowLimits, OutflowLimits {
  maxMessageBytes: number;
  closeLimitMs: number;
  pingIntervalMs: number;
  /** Nothing heard, not even a pong. */
  silenceLimitMs: number;
}

export interface AgentWebSocketHooks {
  opened(): void;
  message(message: string | Uint8Array): void;
  /** From time to time while it is open. */
  beat(): void;
  /** Once. 1006 stands for no close frame at all; `failure`: what broke it, when that is known. */
  closed(code: number, reason: string, failure: AgentFailure | null): void;
  /** Wraps each callback but `closed`. */
  guard(fn: () => void): void;
}

const EMPTY = Buffer.alloc(0);

export class AgentWebSocket {
  readonly outflow: Outflow;
  readonly inflow: Inflow;
  readonly #ws: WebSocket;
  readonly #hooks: AgentWebSocketHooks;
  readonly #heartbeat: Heartbeat;
  #failure: AgentFailure | null = null;
  #wasOpen = false;
  /** Nothing more is read. */
  #over = false;
  #message: Buffer = EMPTY;
  #messageIsBinary = false;

  /** Throws what `dial` throws. */
  constructor(
    upgrade: { url: string; headers: Record<string, string> },
    allowPrivateAddress: boolean,
    limits: LineLimits,
    hooks: AgentWebSocketHooks,
  ) {
    const ws = dial(upgrade, { ...limits, allowPrivateAddress });
    this.#ws = ws;
    this.#hooks = hooks;
    const guarded = (fn: () => void) => () => hooks.guard(fn);
    this.inflow = new Inflow(limits, ws);
    this.outflow = new Outflow(ws, limits, () => this.break(broken('The agent does not read what it is sent.')));
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
      if (this.#over) return;
      this.#heartbeat.start();
      hooks.guard(hooks.opened);
    });
    ws.on('unexpected-response', (_request, response) => this.break(refusedUpgrade(response.statusCode ?? 0)));
    ws.on('error', (error) => {
      this.#failure ??= this.#wasOpen ? broken(brokenSocket(error)) : connectFailure(error);
    });
    ws.on('pong', () => this.#heartbeat.pong());
    ws.on('message', (data, isBinary) => {
      this.#message = data as Buffer; // ws gives a Buffer as long as nobody sets binaryType.
      this.#messageIsBinary = isBinary;
      hooks.guard(this.#received);
    });
    ws.on('close', (code, reason) => {
      this.#stop();
      hooks.closed(code, reason.toString(), this.#failure);
    });
  }

  /** The far side has already begun to close: its close code will say how it ended. */
  get closing(): boolean {
    return this.#ws.readyState >= this.#ws.CLOSING;
  }

  send(messages: AgentMessage[]): void {
    for (const message of messages) this.outflow.send(message);
  }

  takesFrame(): boolean {
    return this.outflow.takesFrame(this.#heartbeat.unansweredMs());
  }

  frame(message: AgentMessage, bytes: number, format: AudioFormat): void {
    this.outflow.frame(message, bytes, format);
  }

  /** Destroys it: nobody would answer a close frame. */
  break(failure: AgentFailure): void {
    this.#failure ??= failure;
    this.#stop();
    this.#ws.terminate();
  }

  /** With a close frame when it is open, and destroyed after a limit. */
  close(code: number): void {
    this.#stop();
    if (this.#ws.readyState === this.#ws.OPEN) this.#ws.close(code);
    else this.#ws.terminate();
  }

  /** Once per message, without a closure of its own. */
  readonly #received = () => {
    this.#heartbeat.heard();
    if (this.#over) return;
    const message = this.#message;
    this.#message = EMPTY;
    this.inflow.message(message.length);
    this.#hooks.message(this.#messageIsBinary ? message : message.toString());
  };

  #stop(): void {
    this.#over = true;
    this.#heartbeat.stop();
    this.inflow.stop();
  }
}

export function broken(message: string): AgentFailure {
  return new AgentFailure('protocol', message, true);
}
