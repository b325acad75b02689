/** The life of the connection to one agent: connecting, ready, started, renewed, and its one end. */
import {
  type AgentCommand,
  type AgentEnd,
  AgentFailure,
  type AgentProtocol,
  type AgentTarget,
  type AudioFormat,
  type AudioTrack,
  type Conversation,
  type Sink,
} from '../agent.js';
import { WEBSOCKET_SCHEMES } from '../descriptor.js';
import { askProvider } from '../provider-http.js';
import { AgentFaults } from './agent-faults.js';
import { AgentOutput } from './agent-output.js';
import type { AgentSocket, AgentSocketHooks, AgentSocketLimits } from './agent-socket.js';
import { broken, givenUp, howClosed, unusable } from './connect-failure.js';
import { DigitGroups } from './digit-groups.js';
import { Renewal } from './session-renewal.js';
import { connectTransport } from './transport/connect-transport.js';
import type { AgentTransport } from './transport/transport.js';

export class AgentConnection implements AgentSocket {
  readonly ready: Promise<void>;
  readonly ended: Promise<AgentEnd>;
  readonly #output: AgentOutput;
  readonly #digits: DigitGroups;
  readonly #sink: Sink;
  readonly #faults: AgentFaults;
  readonly #connecting = new AbortController();
  #settleReady!: { resolve(): void; reject(failure: AgentFailure): void };
  #settleEnded!: (end: AgentEnd) => void;
  #phase: 'connecting' | 'ready' | 'started' | 'ending' = 'connecting';
  #socket: AgentTransport | null = null;
  /** The socket is open and its handshake is complete. */
  #isSessionReady = false;
  #isReady = false;
  #agentStarted = false;
  readonly #renewal: Renewal;
  /** Until ready: connecting and handshake. After `start`: the agent's first reaction. */
  #limitTimer: NodeJS.Timeout | undefined;
  /** Set when we end the connection; undefined when the far side does. */
  #failure: AgentFailure | undefined;
  #end: AgentEnd | undefined;
  #held = false;
  #agentReacted = false;
  readonly #pastSockets = { framesSent: 0, framesDropped: 0 };

  constructor(
    private readonly protocol: AgentProtocol,
    private readonly conversation: Conversation,
    private readonly target: AgentTarget,
    private readonly hooks: AgentSocketHooks,
    private readonly signal: AbortSignal,
    private readonly limits: AgentSocketLimits,
  ) {
    this.#renewal = new Renewal(limits, protocol.sessionLimitMs, {
      renew: () => this.#renew(null),
      after: (ms, fn) => this.#after(ms, fn),
      mark: (name) => hooks.mark(name),
    });
    this.#faults = new AgentFaults(
      (code, message) => hooks.event({ type: 'warning', code, message }),
      () => this.#socket?.receiveBudget.garbage() ?? true,
      () => this.#fail(broken('The agent sent too much that could not be understood.'), 1008),
    );
    this.#output = new AgentOutput(protocol, conversation, limits, hooks, {
      send: (messages) => this.#socket?.send(messages),
      reacted: () => this.#reacted(),
      speaks: () => this.#renewal.agentSpeaks(),
      tooManyMarks: () =>
        this.#faults.garbage('too_many_marks', 'The agent has too many marks waiting; further ones are ignored.'),
      hungUp: () => {
        if (this.#phase !== 'ending') hooks.event({ type: 'hangup' });
      },
    });
    this.#digits = new DigitGroups(
      protocol.gathersDigits ? limits.digitPauseMs : null,
      (ms, fn) => this.#after(ms, fn),
      (digits) => {
        if (this.#phase === 'started') this.#socket?.send(conversation.dtmf(digits));
      },
    );
    this.#sink = this.#sinkOf(this.#output);
    this.ready = new Promise((resolve, reject) => {
      this.#settleReady = { resolve, reject };
    });
    this.ready.catch(() => {}); // An owner that only waits for `ended` must not crash the thread.
    this.ended = new Promise((resolve) => {
      this.#settleEnded = resolve;
    });
    this.#connect(target.connectTimeoutMs);
    signal.addEventListener('abort', this.#onAbort);
  }

  get format(): AudioFormat {
    return this.conversation.format;
  }

  get replyFormat(): AudioFormat {
    return this.conversation.replyFormat;
  }

  get separateTracks(): boolean {
    return this.protocol.separateTracks === true;
  }

  start(): void {
    if (this.#phase !== 'ready') return;
    this.#phase = 'started';
    if (this.#isSessionReady) this.#startAgent();
    const { firstAudioTimeoutMs } = this.target;
    if (firstAudioTimeoutMs === 0 || this.#agentReacted) return;
    const silent = () => this.#fail(broken('The agent said nothing after the call was answered.'), 1008);
    this.#limitTimer = this.#after(firstAudioTimeoutMs, silent);
  }

  audio(bytes: Uint8Array, atMs: number, track: AudioTrack = 'caller'): void {
    if (!this.#agentStarted || this.#phase !== 'started' || bytes.length === 0) return;
    const socket = this.#socket;
    if (socket === null || !this.#isSessionReady) this.#renewal.keep(bytes, atMs, track);
    else this.#frame(socket, bytes, atMs, track);
  }

  callerSpeaks(agoMs: number): void {
    this.conversation.callerSpeaks?.(this.#sink);
    this.#output.callerBegan(agoMs);
  }

  markReached(name: string, cleared: boolean): void {
    if (this.#renewal.reached(name, cleared) || !this.#output.reached(name, cleared)) return;
    if (this.#phase === 'started') this.#socket?.send(this.conversation.mark(name, cleared));
  }

  command(command: AgentCommand): void {
    if (command.kind === 'hold') this.#held = command.on;
    else if (this.#phase === 'started') {
      for (const digit of command.digits) this.#digits.press(digit);
    }
  }

  async close(reason: string): Promise<void> {
    this.#closeBecause(reason);
    this.#output.silence(this.#sink); // An agent that hung up may still be heard.
    await this.ended;
  }

  counters() {
    const { framesSent, framesDropped } = this.#socket?.sendQueue ?? { framesSent: 0, framesDropped: 0 };
    return {
      framesSent: this.#pastSockets.framesSent + framesSent,
      framesDropped: this.#pastSockets.framesDropped + framesDropped,
      bytesReceived: this.#output.bytesReceived,
      garbage: this.#faults.count,
    };
  }

  readonly #onAbort = () => this.hooks.guard(() => this.#closeBecause('aborted'));

  /** Sends the REST request of protocols that have one, then opens the socket. Throws when the first socket cannot be dialled at all. */
  #connect(timeoutMs: number): void {
    const { allowPrivateAddress } = this.target;
    const request = this.conversation.prepare?.() ?? null;
    if (request === null) this.#dial();
    else {
      askProvider(request, allowPrivateAddress, timeoutMs, this.#connecting.signal).then(
        (body) => this.hooks.guard(() => this.#prepared(body)),
        (error) => this.hooks.guard(() => this.#fail(error instanceof AgentFailure ? error : broken(String(error)))),
      );
    }
    const tooLate = () => this.#fail(new AgentFailure('timeout', 'The agent was not ready in time.', true), 1000);
    clearTimeout(this.#limitTimer);
    this.#limitTimer = this.#after(timeoutMs, tooLate);
  }

  #prepared(body: string): void {
    if (this.#phase === 'ending') return;
    try {
      this.conversation.prepared?.(body);
      this.#dial();
    } catch (error) {
      this.#fail(unusable(error));
    }
  }

  #dial(): void {
    const { allowPrivateAddress, headers } = this.target;
    const { schemes = WEBSOCKET_SCHEMES } = this.protocol;
    const asked = this.conversation.upgrade();
    const upgrade = headers === undefined ? asked : { ...asked, headers: { ...headers, ...asked.headers } };
    const socket: AgentTransport = connectTransport(upgrade, schemes, allowPrivateAddress, this.limits, {
      opened: () => socket.send(this.conversation.opening()),
      accepted: () => {
        if (this.protocol.readyOn === 'connect') this.#becomeReady();
      },
      message: (message) => {
        if (this.#socket === socket && this.#phase !== 'ending') this.#receive(message);
      },
      media: (message) => this.#socket === socket && this.#phase !== 'ending' && this.#readMedia(message),
      beat: () => {
        const { keepAlive } = this.conversation;
        if (keepAlive === undefined || !this.#isSessionReady || this.#socket !== socket) return;
        if (performance.now() - socket.sendQueue.lastSentMs >= keepAlive.afterMs) socket.send([keepAlive.message]);
      },
      closed: (code, reason, failure) => {
        if (this.#socket === socket) this.#socketClosed(code, reason, failure);
      },
      guard: (fn) => this.hooks.guard(fn),
    });
    this.#socket = socket;
  }

  #becomeReady(): void {
    if (this.#isSessionReady || this.#phase === 'ending') return;
    this.#isSessionReady = true;
    this.#renewal.sessionBegan();
    if (this.#isReady) {
      this.#renewed();
      return;
    }
    clearTimeout(this.#limitTimer);
    this.#phase = 'ready';
    this.#isReady = true;
    this.signal.removeEventListener('abort', this.#onAbort);
    this.#settleReady.resolve();
  }

  #startAgent(): void {
    this.#agentStarted = true;
    this.#socket?.send(this.conversation.start());
  }

  #receive(message: string | Uint8Array): void {
    if (typeof message === 'string' || !this.conversation.binaryIsAudio) this.conversation.receive(message, this.#sink);
    else if (message.length > 0) this.#output.audio(message);
  }

  #readMedia(message: Uint8Array): boolean {
    const audio = this.conversation.readMedia?.(message) ?? null;
    if (audio === null) return false;
    this.#output.audio(audio);
    return true;
  }

  /** Sends caller audio; on hold the agent hears silence. */
  #frame(socket: AgentTransport, bytes: Uint8Array, atMs: number, track: AudioTrack): void {
    if (!socket.takesFrame()) return;
    const { format } = this.conversation;
    const heard = this.#held ? socket.sendQueue.silence(bytes.length, format) : bytes;
    socket.frame(this.conversation.audio(heard, atMs, track), bytes.length, format);
  }

  /** Opens a new session in place of one that ended or will end soon. False when that was tried too often. */
  #renew(failure: AgentFailure | null): boolean {
    if (!this.#isReady || this.#phase === 'ending') return false;
    if (!this.#renewal.begin()) {
      if (failure === null) this.#fail(broken('The agent asked for a new connection too often.'), 1000);
      return false;
    }
    const again = this.#renewing;
    const past = this.#socket;
    this.#socket = null;
    this.#isSessionReady = false;
    if (past !== null) {
      this.#pastSockets.framesSent += past.sendQueue.framesSent;
      this.#pastSockets.framesDropped += past.sendQueue.framesDropped;
      past.close(1000);
    }
    this.#output.saidAll(); // nothing more follows
    const connect = () => {
      try {
        this.#connect(this.limits.renewTimeoutMs);
      } catch (error) {
        this.#fail(unusable(error));
      }
    };
    clearTimeout(this.#limitTimer);
    if (again) this.#limitTimer = this.#after(this.limits.renewPauseMs, connect);
    else connect();
    return true;
  }

  #renewed(): void {
    clearTimeout(this.#limitTimer);
    this.hooks.event({ type: 'reconnected' });
    if (this.#phase !== 'started') return;
    if (!this.#agentStarted) this.#startAgent();
    const socket = this.#socket;
    if (socket !== null)
      for (const { bytes, atMs, track } of this.#renewal.kept()) this.#frame(socket, bytes, atMs, track);
  }

  /** The effects of the messages that the conversation reads. */
  #sinkOf(output: AgentOutput): Sink {
    return {
      send: (message) => this.#socket?.sendQueue.send(message),
      audio: (bytes, itemId, aligned) => output.audio(bytes, itemId, aligned),
      audioOf: (format, bytes) => output.audioOf(format, bytes),
      clear: () => output.clear(),
      mark: (name) => output.mark(name),
      event: (event) => output.event(event),
      ready: () => this.#becomeReady(),
      warn: (code, message) => this.#faults.warn(code, message),
      garbage: (code, message) => this.#faults.garbage(code, message),
      said: (text, itemId) => output.said(text, itemId),
      saidAll: (brokenOff) => {
        output.saidAll(brokenOff);
        this.#renewal.agentSaidAll();
      },
      hangUp: () => output.hangUpWhenHeard(),
      fail: (failure) => this.#fail(failure, 1000),
      renew: (withinMs) => {
        if (withinMs === undefined) this.#renew(null);
        else this.#renewal.soon(withinMs);
      },
    };
  }

  #reacted(): void {
    if (this.#agentReacted) return;
    this.#agentReacted = true;
    if (this.#phase === 'started' && this.#isSessionReady) clearTimeout(this.#limitTimer);
  }

  #closeBecause(reason: string): void {
    // In CLOSING the agent closed first, and its close code tells how the connection ended.
    if (this.#phase === 'ending' || this.#socket?.closing) return;
    const lastWords = this.#phase === 'started' && this.#isSessionReady ? this.conversation.closing(reason) : [];
    this.#end = { by: 'local', detail: reason };
    this.#phase = 'ending'; // From here on nothing can make it a failure, not even an agent that does not read its last words.
    this.#output.silence(this.#sink);
    this.#socket?.send(lastWords);
    this.#shut(givenUp(), 1000);
  }

  /** Without a close code the socket is destroyed, since a close frame would stay unanswered. */
  #fail(failure: AgentFailure, closeCode?: number): void {
    if (this.#phase === 'ending') return;
    this.#end = { by: 'failed', detail: failure.message };
    this.#phase = 'ending';
    this.#output.silence(this.#sink);
    this.#shut(failure, closeCode);
  }

  #shut(failure: AgentFailure, closeCode?: number): void {
    this.#failure = failure;
    this.#stopTimers();
    this.#connecting.abort(failure); // a reason of its own would be an exception with a stack, for each call
    if (this.#socket === null) this.#conclude(1006, '');
    else if (closeCode === undefined) this.#socket.break(failure);
    else this.#socket.close(closeCode);
  }

  #socketClosed(code: number, reason: string, failure: AgentFailure | null): void {
    if (this.#phase !== 'ending') {
      const lost = failure ?? broken('The connection was lost.');
      const verdict = this.#verdict(code, reason);
      const worthAnother = this.#renewing ? lost.retryable : verdict === 'renew';
      if (worthAnother && this.#renew(lost)) {
        if (failure !== null) this.hooks.event({ type: 'warning', code: 'connection_lost', message: failure.message });
        return;
      }
      if (failure !== null) {
        this.#failure = failure;
        this.#end = { by: 'failed', detail: failure.message };
      }
    }
    this.#conclude(code, reason);
  }

  /** Between two sessions. */
  get #renewing(): boolean {
    return this.#isReady && !this.#isSessionReady;
  }

  #verdict(code: number, reason: string): ReturnType<Conversation['closed']> {
    if (this.#renewal.timeIsUp() && this.#isSessionReady) return 'renew';
    let verdict: ReturnType<Conversation['closed']> = 'failed';
    this.hooks.guard(() => {
      verdict = this.conversation.closed(code, reason);
    });
    return verdict;
  }

  #stopTimers(): void {
    clearTimeout(this.#limitTimer);
    this.#output.stop();
    this.#digits.stop();
    this.#renewal.stop();
    this.signal.removeEventListener('abort', this.#onAbort);
  }

  /** The last socket is closed. 1006 means that there was no close frame. */
  #conclude(code: number, reason: string): void {
    this.#stopTimers();
    this.#phase = 'ending';
    const how = howClosed(code, reason);
    if (!this.#isReady) {
      const message = `The agent closed the connection ${how} before it was ready.`;
      this.#failure ??= new AgentFailure('refused', message, true);
      this.#settleReady.reject(this.#failure);
      this.#end ??= { by: 'failed', detail: this.#failure.message };
    }
    const by = this.#end === undefined && this.#verdict(code, reason) === 'hangup' ? 'hangup' : 'failed';
    const end = this.#end ?? { by, detail: `The agent closed the connection ${how}.` };
    // Audio of an agent that hung up is played to the end; after a failure it is not.
    if (end.by === 'hangup') this.#output.finish(this.#sink);
    else this.#output.silence(this.#sink);
    this.#settleEnded(code === 1006 ? end : { ...end, closeCode: code });
  }

  #after(ms: number, fn: () => void): NodeJS.Timeout {
    return setTimeout(() => this.hooks.guard(fn), ms);
  }
}
