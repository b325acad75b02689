/** The one WebSocket client for all agents. Runs on the media thread. */
import { WebSocket } from 'ws';
import { BlockedAddressError } from '../../net/safe-lookup.js';
import {
  type AgentCommand,
  AgentConfigError,
  type AgentEnd,
  type AgentEvent,
  AgentFailure,
  type AgentProtocol,
  type AgentTarget,
  type AudioFormat,
  type Conversation,
  type Outgoing,
  type Sink,
} from './agent.js';
import { brokenSocket, connectFailure, refusedUpgrade } from './connect-failure.js';
import { dial } from './dial.js';
import { Heartbeat } from './heartbeat.js';
import { Inflow, type InflowLimits } from './inflow.js';
import { Outflow, type OutflowLimits } from './outflow.js';
import { agentProtocols } from './registry.js';

/** What the session's playout does for the socket. Every call comes from inside the session's `guard`. */
export interface AgentSocketHooks {
  /** In `replyFormat`, whole samples, not aligned in memory; the bytes may be kept. */
  audio(bytes: Uint8Array, itemId?: string): void;
  /** Returns what was heard of the queue and what was dropped. The hook also calls `markReached` for each pending mark with `cleared`. */
  clear(): { itemId?: string; heardMs: number; droppedMs: number };
  mark(name: string): void;
  event(event: AgentEvent): void;
  /** Wraps each callback of the socket. */
  guard(fn: () => void): void;
}

export interface AgentSocket {
  /** What `audio()` takes. Fixed once ready. */
  readonly format: AudioFormat;
  /** What `hooks.audio` gets. Fixed once ready. */
  readonly replyFormat: AudioFormat;
  /** Connected and ready. Rejects with `AgentFailure`; then the socket is closed. */
  ready: Promise<void>;
  /** Resolves once, also after `ready` rejected. */
  ended: Promise<AgentEnd>;
  /** The caller answered: tells the agent of the call. Before `ready` and after the end it does nothing; neither does a second one. */
  start(): void;
  /** Caller audio in `format`; before `start` it goes nowhere. Never blocks: over the send limit the frame is dropped and counted. */
  audio(bytes: Uint8Array, atMs: number): void;
  markReached(name: string, cleared: boolean): void;
  command(command: AgentCommand): void;
  /** Sends the protocol's last words, closes, and destroys after a limit. Idempotent. */
  close(reason: string): Promise<void>;
  counters(): { framesSent: number; framesDropped: number; bytesReceived: number; garbage: number };
}

export interface AgentSocketLimits extends InflowLimits, OutflowLimits {
  maxMessageBytes: number;
  closeLimitMs: number;
  pingIntervalMs: number;
  /** Nothing heard, not even a pong. */
  silenceLimitMs: number;
  /** Marks the agent may have waiting. */
  pendingMarks: number;
}

const LIMITS: AgentSocketLimits = {
  maxMessageBytes: 1024 * 1024,
  closeLimitMs: 1000,
  pingIntervalMs: 2000,
  silenceLimitMs: 15_000,
  pendingMarks: 1000,
  sendQueueMs: 500,
  unreadLimitMs: 1500,
  sendQueueBytes: 1024 * 1024,
  windowMs: 100,
  messagesPerWindow: 500,
  bytesPerWindow: 1024 * 1024,
  garbagePerSec: 100,
};

const EMPTY = Buffer.alloc(0);

/** For tests. */
export interface AgentSocketOptions {
  limits?: Partial<AgentSocketLimits>;
  protocols?: ReadonlyMap<string, AgentProtocol>;
}

/**
 * Starts connecting. `signal` holds until ready; after that the socket ends by `close()` or by the agent.
 *
 * @throws AgentFailure when nothing was opened: aborted before, unknown protocol, unusable config or URL (`protocol`), or a literal address
 * that is not allowed (`blocked_address`).
 */
export function openAgentSocket(
  target: AgentTarget,
  hooks: AgentSocketHooks,
  signal: AbortSignal,
  options: AgentSocketOptions = {},
): AgentSocket {
  if (signal.aborted) throw givenUp();
  const protocol = (options.protocols ?? agentProtocols).get(target.protocol);
  if (protocol === undefined) throw new AgentFailure('protocol', 'There is no such agent protocol.', false);
  const limits = { ...LIMITS, ...options.limits };
  try {
    const conversation = protocol.converse(protocol.parseConfig(target.config), target);
    const ws = dial(conversation.upgrade(), { ...limits, allowPrivateAddress: target.allowPrivateAddress });
    return new AgentConnection(ws, protocol.readyOn, conversation, target, hooks, signal, limits);
  } catch (error) {
    if (error instanceof BlockedAddressError) throw connectFailure(error);
    const why = error instanceof AgentConfigError ? error.message : "The agent's URL or headers cannot be used.";
    throw new AgentFailure('protocol', why, false);
  }
}

class AgentConnection implements AgentSocket {
  readonly ready: Promise<void>;
  readonly ended: Promise<AgentEnd>;
  readonly #ws: WebSocket;
  readonly #conversation: Conversation;
  readonly #target: AgentTarget;
  readonly #hooks: AgentSocketHooks;
  readonly #limits: AgentSocketLimits;
  readonly #signal: AbortSignal;
  readonly #heartbeat: Heartbeat;
  readonly #inflow: Inflow;
  readonly #outflow: Outflow;
  readonly #sink: Sink;
  readonly #warned = new Set<string>();
  #settleReady!: { resolve(): void; reject(failure: AgentFailure): void };
  #phase: 'connecting' | 'ready' | 'started' | 'ending' = 'connecting';
  #wasOpen = false;
  #isReady = false;
  /** Until ready: connecting and handshake. After `start`: the agent's first sign of life. */
  #limitTimer: NodeJS.Timeout | undefined;
  /** Decided here before the socket is closed; undefined when the far side decides. */
  #failure: AgentFailure | undefined;
  #end: AgentEnd | undefined;
  #held = false;
  #agentReacted = false;
  #audioStarted = false;
  #oddByte: Uint8Array | undefined;
  #pendingMarks = 0;
  #bytesReceived = 0;
  #garbage = 0;
  #message: Buffer = EMPTY;
  #messageIsBinary = false;

  constructor(
    ws: WebSocket,
    readyOn: AgentProtocol['readyOn'],
    conversation: Conversation,
    target: AgentTarget,
    hooks: AgentSocketHooks,
    signal: AbortSignal,
    limits: AgentSocketLimits,
  ) {
    this.#ws = ws;
    this.#conversation = conversation;
    this.#target = target;
    this.#hooks = hooks;
    this.#signal = signal;
    this.#limits = limits;
    const guarded = (fn: () => void) => () => hooks.guard(fn);
    this.#inflow = new Inflow(limits, ws);
    this.#outflow = new Outflow(ws, limits, () => this.#fail(broken('The agent does not read what it is sent.')));
    this.#heartbeat = new Heartbeat({
      ping: guarded(() => ws.ping()),
      lost: guarded(() => this.#fail(broken('The agent does not answer any more.'))),
      intervalMs: limits.pingIntervalMs,
      limitMs: limits.silenceLimitMs,
    });
    this.#sink = {
      send: (message) => this.#outflow.send(message),
      audio: (bytes, itemId) => this.#agentAudio(bytes, itemId),
      clear: () => this.#clear(),
      mark: (name) => this.#mark(name),
      event: (event) => this.#agentEvent(event),
      ready: () => this.#becomeReady(),
      garbage: (code, message) => this.#countGarbage(code, message),
    };
    this.ready = new Promise((resolve, reject) => {
      this.#settleReady = { resolve, reject };
    });
    this.ready.catch(() => {}); // An owner that only waits for `ended` must not crash the thread.
    this.ended = new Promise((resolve) => {
      ws.on('close', (code, reason) => resolve(this.#concluded(code, reason.toString())));
    });
    const tooLate = () => this.#fail(new AgentFailure('timeout', 'The agent was not ready in time.', true), 1000);
    this.#limitTimer = setTimeout(guarded(tooLate), target.connectTimeoutMs);
    signal.addEventListener('abort', this.#onAbort);
    ws.on(
      'open',
      guarded(() => this.#opened(readyOn)),
    );
    ws.on('unexpected-response', (_request, response) => {
      hooks.guard(() => this.#fail(refusedUpgrade(response.statusCode ?? 0)));
    });
    ws.on('error', (error) => hooks.guard(() => this.#broke(error)));
    ws.on('pong', () => this.#heartbeat.pong());
    ws.on('message', (data, isBinary) => {
      this.#message = data as Buffer; // ws gives a Buffer as long as nobody sets binaryType.
      this.#messageIsBinary = isBinary;
      hooks.guard(this.#received);
    });
  }

  get format(): AudioFormat {
    return this.#conversation.format;
  }

  get replyFormat(): AudioFormat {
    return this.#conversation.replyFormat;
  }

  start(): void {
    if (this.#phase !== 'ready') return;
    this.#phase = 'started';
    this.#send(this.#conversation.start());
    const { firstAudioTimeoutMs } = this.#target;
    if (firstAudioTimeoutMs === 0 || this.#agentReacted) return;
    const silent = () => this.#fail(broken('The agent said nothing after the call was answered.'), 1008);
    this.#limitTimer = setTimeout(() => this.#hooks.guard(silent), firstAudioTimeoutMs);
  }

  audio(bytes: Uint8Array, atMs: number): void {
    if (this.#phase !== 'started' || bytes.length === 0) return;
    if (!this.#outflow.takesFrame(this.#heartbeat.unansweredMs())) return;
    const { format } = this.#conversation;
    const heard = this.#held ? this.#outflow.silence(bytes.length, format) : bytes;
    this.#outflow.frame(this.#conversation.audio(heard, atMs), bytes.length, format);
  }

  markReached(name: string, cleared: boolean): void {
    this.#pendingMarks = Math.max(0, this.#pendingMarks - 1);
    if (this.#phase === 'started') this.#send(this.#conversation.mark(name, cleared));
  }

  command(command: AgentCommand): void {
    if (command.kind === 'hold') {
      this.#held = command.on;
    } else if (this.#phase === 'started') {
      for (const digit of command.digits) this.#send(this.#conversation.dtmf(digit));
    }
  }

  async close(reason: string): Promise<void> {
    this.#closeBecause(reason);
    await this.ended;
  }

  counters() {
    return {
      framesSent: this.#outflow.framesSent,
      framesDropped: this.#outflow.framesDropped,
      bytesReceived: this.#bytesReceived,
      garbage: this.#garbage,
    };
  }

  readonly #onAbort = () => this.#hooks.guard(() => this.#closeBecause('aborted'));

  /** Once per message, without a closure of its own. */
  readonly #received = () => {
    this.#heartbeat.heard();
    if (this.#phase === 'ending') return;
    const message = this.#message;
    this.#message = EMPTY;
    this.#inflow.message(message.length);
    this.#conversation.receive(this.#messageIsBinary ? message : message.toString(), this.#sink);
  };

  #opened(readyOn: AgentProtocol['readyOn']): void {
    this.#wasOpen = true;
    this.#heartbeat.start();
    this.#send(this.#conversation.opening());
    if (readyOn === 'connect') this.#becomeReady();
  }

  #becomeReady(): void {
    if (this.#phase !== 'connecting') return;
    this.#phase = 'ready';
    this.#isReady = true;
    clearTimeout(this.#limitTimer);
    this.#signal.removeEventListener('abort', this.#onAbort);
    this.#settleReady.resolve();
  }

  #send(messages: Outgoing[]): void {
    for (const message of messages) this.#outflow.send(message);
  }

  #agentAudio(bytes: Uint8Array, itemId?: string): void {
    this.#reacted();
    if (!this.#audioStarted) {
      this.#audioStarted = true;
      this.#hooks.event({ type: 'audioStarted' });
    }
    this.#bytesReceived += bytes.length;
    const whole = this.#conversation.replyFormat.encoding === 'l16' ? this.#wholeSamples(bytes) : bytes;
    if (whole.length > 0) this.#hooks.audio(whole, itemId);
  }

  /** An agent may cut its stream anywhere: half a sample waits for its other half. */
  #wholeSamples(bytes: Uint8Array): Uint8Array {
    const joined = this.#oddByte === undefined ? bytes : Buffer.concat([this.#oddByte, bytes]);
    const even = joined.length & ~1;
    this.#oddByte = even === joined.length ? undefined : joined.slice(even);
    return joined.subarray(0, even);
  }

  #clear(): void {
    this.#oddByte = undefined;
    this.#send(this.#conversation.interrupted(this.#hooks.clear()));
  }

  #mark(name: string): void {
    if (this.#pendingMarks >= this.#limits.pendingMarks) {
      this.#countGarbage('too_many_marks', 'The agent has too many marks waiting; further ones are ignored.');
      return;
    }
    this.#pendingMarks += 1;
    this.#hooks.mark(name);
  }

  #agentEvent(event: AgentEvent): void {
    this.#reacted();
    this.#hooks.event(event);
  }

  #reacted(): void {
    if (this.#agentReacted) return;
    this.#agentReacted = true;
    if (this.#phase === 'started') clearTimeout(this.#limitTimer);
  }

  #countGarbage(code: string, message: string): void {
    this.#garbage += 1;
    if (!this.#warned.has(code)) {
      this.#warned.add(code);
      this.#hooks.event({ type: 'warning', code, message });
    }
    if (!this.#inflow.garbage()) this.#fail(broken('The agent sent too much that could not be understood.'), 1008);
  }

  #closeBecause(reason: string): void {
    // In CLOSING the agent was first, and its close code says how it ended.
    if (this.#phase === 'ending' || this.#ws.readyState >= WebSocket.CLOSING) return;
    const lastWords = this.#phase === 'started' ? this.#conversation.closing(reason) : [];
    this.#end = { by: 'local', detail: reason };
    this.#phase = 'ending'; // From here on nothing can make it a failure, not even an agent that does not read its last words.
    this.#send(lastWords);
    this.#shut(givenUp(), 1000);
  }

  /** Without a close code the socket is destroyed: nobody would answer. */
  #fail(failure: AgentFailure, closeCode?: number): void {
    if (this.#phase === 'ending') return;
    this.#end = { by: 'failed', detail: failure.message };
    this.#shut(failure, closeCode);
  }

  #shut(failure: AgentFailure, closeCode?: number): void {
    this.#failure = failure;
    this.#phase = 'ending';
    this.#stopTimers();
    if (this.#ws.readyState === WebSocket.OPEN && closeCode !== undefined) this.#ws.close(closeCode);
    else this.#ws.terminate();
  }

  #broke(error: Error): void {
    this.#failure ??= this.#wasOpen ? broken(brokenSocket(error)) : connectFailure(error);
    this.#end ??= { by: 'failed', detail: this.#failure.message };
  }

  #stopTimers(): void {
    clearTimeout(this.#limitTimer);
    this.#heartbeat.stop();
    this.#inflow.stop();
    this.#signal.removeEventListener('abort', this.#onAbort);
  }

  /** The socket is gone. 1006 stands for no close frame at all. */
  #concluded(code: number, reason: string): AgentEnd {
    this.#stopTimers();
    this.#phase = 'ending';
    const how = code === 1006 ? 'without a close frame' : `with code ${code}${quoted(reason)}`;
    if (!this.#isReady) {
      this.#failure ??= new AgentFailure(
        'refused',
        `The agent closed the connection ${how} before it was ready.`,
        true,
      );
      this.#settleReady.reject(this.#failure);
      this.#end ??= { by: 'failed', detail: this.#failure.message };
    }
    let by: AgentEnd['by'] = 'failed';
    this.#hooks.guard(() => {
      by = this.#conversation.closed(code, reason);
    });
    const end = this.#end ?? { by, detail: `The agent closed the connection ${how}.` };
    return code === 1006 ? end : { ...end, closeCode: code };
  }
}

/** The agent's own words, without characters that would break a log line. */
function quoted(reason: string): string {
  const printable = reason.replace(/[^\x20-\x7e]/g, '');
  return printable === '' ? '' : `: ${printable}`;
}

function broken(message: string): AgentFailure {
  return new AgentFailure('protocol', message, true);
}

function givenUp(): AgentFailure {
  return new AgentFailure('aborted', 'Connecting to the agent was given up.', false);
}
