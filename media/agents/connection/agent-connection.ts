/** What happens between a conversation and its sockets, from connecting to the one end. */
import {
  type AgentCommand,
  type AgentEnd,
  type AgentEvent,
  AgentFailure,
  type AgentProtocol,
  type AgentTarget,
  type AudioFormat,
  type AudioTrack,
  type Conversation,
  type Sink,
  type Spoken,
} from '../agent.js';
import { clockMs } from '../clock.js';
import { askProvider } from '../provider-http.js';
import { type AlignedText, SpokenText } from '../transcript-alignment.js';
import type { AgentSocket, AgentSocketHooks, AgentSocketLimits } from './agent-socket.js';
import { givenUp, unusable } from './connect-failure.js';
import { ForeignAudio } from './foreign-audio.js';
import { durationMs } from './send-queue.js';
import { Renewal } from './session-renewal.js';
import { AgentWebSocket, broken } from './websocket-transport.js';

/** Mark after the last words of an agent that hangs up; marks of agents never begin with a NUL. */
const GOODBYE = '\0goodbye';

export class AgentConnection implements AgentSocket {
  readonly ready: Promise<void>;
  readonly ended: Promise<AgentEnd>;
  readonly #protocol: AgentProtocol;
  readonly #conversation: Conversation;
  readonly #target: AgentTarget;
  readonly #hooks: AgentSocketHooks;
  readonly #limits: AgentSocketLimits;
  readonly #signal: AbortSignal;
  readonly #spoken: SpokenText;
  readonly #sink: Sink;
  readonly #warned = new Set<string>();
  readonly #connecting = new AbortController();
  #settleReady!: { resolve(): void; reject(failure: AgentFailure): void };
  #settleEnded!: (end: AgentEnd) => void;
  #phase: 'connecting' | 'ready' | 'started' | 'ending' = 'connecting';
  #line: AgentWebSocket | null = null;
  /** The socket is open and its handshake is complete. */
  #lineReady = false;
  #isReady = false;
  #agentStarted = false;
  readonly #renewal: Renewal;
  /** Until ready: connecting and handshake. After `start`: the agent's first reaction. */
  #limitTimer: NodeJS.Timeout | undefined;
  #goodbyeTimer: NodeJS.Timeout | undefined;
  #digitTimer: NodeJS.Timeout | undefined;
  #digits = '';
  /** Set when we end the connection; undefined when the far side does. */
  #failure: AgentFailure | undefined;
  #end: AgentEnd | undefined;
  #held = false;
  #agentReacted = false;
  #audioStarted = false;
  #silenced = false;
  /** Start of the caller's speech, by our own detection; null when its transcript has arrived. */
  #callerBeganMs: number | null = null;
  #oddByte: Uint8Array | undefined;
  #pendingMarks = 0;
  #bytesReceived = 0;
  #garbage = 0;
  readonly #pastLines = { framesSent: 0, framesDropped: 0 };

  constructor(
    protocol: AgentProtocol,
    conversation: Conversation,
    target: AgentTarget,
    hooks: AgentSocketHooks,
    signal: AbortSignal,
    limits: AgentSocketLimits,
  ) {
    this.#protocol = protocol;
    this.#conversation = conversation;
    this.#target = target;
    this.#hooks = hooks;
    this.#signal = signal;
    this.#limits = limits;
    this.#renewal = new Renewal(limits, protocol.sessionLimitMs, {
      renew: () => this.#renew(null),
      after: (ms, fn) => this.#after(ms, fn),
      mark: (name) => hooks.mark(name),
    });
    this.#spoken = new SpokenText(
      (text, beganMs) => hooks.event({ type: 'transcript', speaker: 'agent', text, beganMs }),
      (name) => hooks.mark(name),
      clockMs,
    );
    const foreign = new ForeignAudio();
    this.#sink = {
      send: (message) => this.#line?.outflow.send(message),
      audio: (bytes, itemId, aligned) => this.#agentAudio(bytes, itemId, aligned),
      audioOf: (format, bytes) => {
        const converted = foreign.convert(bytes, format, this.#conversation.replyFormat);
        if (converted.length > 0) this.#agentAudio(converted);
      },
      clear: () => this.#clear(),
      mark: (name) => this.#mark(name),
      event: (event) => this.#agentEvent(event),
      ready: () => this.#becomeReady(),
      warn: (code, message) => this.#warn(code, message),
      garbage: (code, message) => this.#countGarbage(code, message),
      said: (text, itemId) => this.#spoken.said(text, this.#utteranceOf(itemId)),
      saidAll: (brokenOff) => {
        this.#spoken.saidAll(brokenOff);
        this.#renewal.agentSaidAll();
      },
      hangUp: () => this.#sayGoodbye(),
      fail: (failure) => this.#fail(failure, 1000),
      renew: (withinMs) => {
        if (withinMs === undefined) this.#renew(null);
        else this.#renewal.soon(withinMs);
      },
    };
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
    return this.#conversation.format;
  }

  get replyFormat(): AudioFormat {
    return this.#conversation.replyFormat;
  }

  get separateTracks(): boolean {
    return this.#protocol.separateTracks === true;
  }

  start(): void {
    if (this.#phase !== 'ready') return;
    this.#phase = 'started';
    if (this.#lineReady) this.#startAgent();
    const { firstAudioTimeoutMs } = this.#target;
    if (firstAudioTimeoutMs === 0 || this.#agentReacted) return;
    const silent = () => this.#fail(broken('The agent said nothing after the call was answered.'), 1008);
    this.#limitTimer = this.#after(firstAudioTimeoutMs, silent);
  }

  audio(bytes: Uint8Array, atMs: number, track: AudioTrack = 'caller'): void {
    if (!this.#agentStarted || this.#phase !== 'started' || bytes.length === 0) return;
    const line = this.#line;
    if (line === null || !this.#lineReady) this.#renewal.keep(bytes, atMs, track);
    else this.#frame(line, bytes, atMs, track);
  }

  callerSpeaks(agoMs: number): void {
    this.#conversation.callerSpeaks?.(this.#sink);
    this.#callerBeganMs = clockMs() - agoMs;
  }

  markReached(name: string, cleared: boolean): void {
    if (this.#spoken.reached(name, cleared) || this.#renewal.reached(name, cleared)) return;
    if (name === GOODBYE) {
      this.#hangUp();
      return;
    }
    this.#pendingMarks = Math.max(0, this.#pendingMarks - 1);
    if (this.#phase === 'started') this.#line?.send(this.#conversation.mark(name, cleared));
  }

  command(command: AgentCommand): void {
    if (command.kind === 'hold') {
      this.#held = command.on;
    } else if (this.#phase === 'started') {
      for (const digit of command.digits) this.#pressed(digit);
    }
  }

  async close(reason: string): Promise<void> {
    this.#closeBecause(reason);
    this.#silence(); // An agent that hung up may still be heard.
    await this.ended;
  }

  counters() {
    const { framesSent, framesDropped } = this.#line?.outflow ?? { framesSent: 0, framesDropped: 0 };
    return {
      framesSent: this.#pastLines.framesSent + framesSent,
      framesDropped: this.#pastLines.framesDropped + framesDropped,
      bytesReceived: this.#bytesReceived,
      garbage: this.#garbage,
    };
  }

  readonly #onAbort = () => this.#hooks.guard(() => this.#closeBecause('aborted'));

  /** Sends the REST request of protocols that have one, then opens the socket. Throws when the first socket cannot be dialled at all. */
  #connect(timeoutMs: number): void {
    const { allowPrivateAddress } = this.#target;
    const request = this.#conversation.prepare?.() ?? null;
    if (request === null) this.#dial();
    else {
      askProvider(request, allowPrivateAddress, timeoutMs, this.#connecting.signal).then(
        (body) => this.#hooks.guard(() => this.#prepared(body)),
        (error) => this.#hooks.guard(() => this.#fail(error instanceof AgentFailure ? error : broken(String(error)))),
      );
    }
    const tooLate = () => this.#fail(new AgentFailure('timeout', 'The agent was not ready in time.', true), 1000);
    clearTimeout(this.#limitTimer);
    this.#limitTimer = this.#after(timeoutMs, tooLate);
  }

  #prepared(body: string): void {
    if (this.#phase === 'ending') return;
    try {
      this.#conversation.prepared?.(body);
      this.#dial();
    } catch (error) {
      this.#fail(unusable(error));
    }
  }

  #dial(): void {
    const { allowPrivateAddress } = this.#target;
    const line: AgentWebSocket = new AgentWebSocket(this.#conversation.upgrade(), allowPrivateAddress, this.#limits, {
      opened: () => {
        line.send(this.#conversation.opening());
        if (this.#protocol.readyOn === 'connect') this.#becomeReady();
      },
      message: (message) => {
        if (this.#line === line && this.#phase !== 'ending') this.#conversation.receive(message, this.#sink);
      },
      beat: () => {
        const { keepAlive } = this.#conversation;
        if (keepAlive === undefined || !this.#lineReady || this.#line !== line) return;
        if (performance.now() - line.outflow.lastSentMs >= keepAlive.afterMs) line.send([keepAlive.message]);
      },
      closed: (code, reason, failure) => {
        if (this.#line === line) this.#lineClosed(code, reason, failure);
      },
      guard: (fn) => this.#hooks.guard(fn),
    });
    this.#line = line;
  }

  #becomeReady(): void {
    if (this.#lineReady || this.#phase === 'ending') return;
    this.#lineReady = true;
    this.#renewal.sessionBegan();
    if (this.#isReady) {
      this.#renewed();
      return;
    }
    clearTimeout(this.#limitTimer);
    this.#phase = 'ready';
    this.#isReady = true;
    this.#signal.removeEventListener('abort', this.#onAbort);
    this.#settleReady.resolve();
  }

  #startAgent(): void {
    this.#agentStarted = true;
    this.#line?.send(this.#conversation.start());
  }

  /** Sends caller audio; on hold the agent hears silence. */
  #frame(line: AgentWebSocket, bytes: Uint8Array, atMs: number, track: AudioTrack): void {
    if (!line.takesFrame()) return;
    const { format } = this.#conversation;
    const heard = this.#held ? line.outflow.silence(bytes.length, format) : bytes;
    line.frame(this.#conversation.audio(heard, atMs, track), bytes.length, format);
  }

  /** Opens a new session in place of one that ended or will end soon. False when that was tried too often. */
  #renew(failure: AgentFailure | null): boolean {
    if (!this.#isReady || this.#phase === 'ending') return false;
    if (!this.#renewal.begin()) {
      if (failure === null) this.#fail(broken('The agent asked for a new connection too often.'), 1000);
      return false;
    }
    const again = this.#renewing;
    const past = this.#line;
    this.#line = null;
    this.#lineReady = false;
    if (past !== null) {
      this.#pastLines.framesSent += past.outflow.framesSent;
      this.#pastLines.framesDropped += past.outflow.framesDropped;
      past.close(1000);
    }
    this.#spoken.saidAll(); // no more will come of it
    const connect = () => {
      try {
        this.#connect(this.#limits.renewTimeoutMs);
      } catch (error) {
        this.#fail(unusable(error));
      }
    };
    clearTimeout(this.#limitTimer);
    if (again) this.#limitTimer = this.#after(this.#limits.renewPauseMs, connect);
    else connect();
    return true;
  }

  #renewed(): void {
    clearTimeout(this.#limitTimer);
    this.#hooks.event({ type: 'reconnected' });
    if (this.#phase !== 'started') return;
    if (!this.#agentStarted) this.#startAgent();
    const line = this.#line;
    if (line !== null) for (const { bytes, atMs, track } of this.#renewal.kept()) this.#frame(line, bytes, atMs, track);
  }

  #pressed(digit: string): void {
    if (!this.#protocol.gathersDigits) {
      this.#line?.send(this.#conversation.dtmf(digit));
      return;
    }
    this.#digits += digit;
    clearTimeout(this.#digitTimer);
    if (digit === '#') this.#handOverDigits();
    else this.#digitTimer = this.#after(this.#limits.digitPauseMs, () => this.#handOverDigits());
  }

  #handOverDigits(): void {
    const digits = this.#digits;
    this.#digits = '';
    if (this.#phase === 'started') this.#line?.send(this.#conversation.dtmf(digits));
  }

  #agentAudio(bytes: Uint8Array, itemId?: string, aligned?: readonly AlignedText[]): void {
    this.#reacted();
    if (!this.#audioStarted) {
      this.#audioStarted = true;
      this.#hooks.event({ type: 'audioStarted' });
    }
    this.#bytesReceived += bytes.length;
    this.#renewal.agentSpeaks();
    const { replyFormat } = this.#conversation;
    const whole = replyFormat.encoding === 'l16' ? this.#wholeSamples(bytes) : bytes;
    if (whole.length === 0) return;
    if (this.#protocol.transcribes)
      this.#spoken.audio(durationMs(whole.length, replyFormat), this.#utteranceOf(itemId), aligned);
    this.#hooks.audio(whole, itemId);
  }

  /** An agent may split its stream anywhere: half a sample waits for its other half. */
  #wholeSamples(bytes: Uint8Array): Uint8Array {
    const joined = this.#oddByte === undefined ? bytes : Buffer.concat([this.#oddByte, bytes]);
    const even = joined.length & ~1;
    this.#oddByte = even === joined.length ? undefined : joined.slice(even);
    return joined.subarray(0, even);
  }

  #clear(): void {
    this.#reacted();
    this.#oddByte = undefined;
    const heard = this.#hooks.clear();
    for (const { whole, heard: part } of this.#spoken.cut(heard.droppedMs)) this.#conversation.cutShort?.(whole, part);
    this.#line?.send(this.#conversation.interrupted(heard));
  }

  /** Stops playout of this agent; its last transcript ends where playout stopped. */
  #silence(): void {
    if (this.#silenced) return;
    this.#silenced = true;
    this.#hooks.guard(() => {
      this.#conversation.over?.(this.#sink);
      this.#spoken.cut(this.#hooks.silence().droppedMs);
    });
  }

  #mark(name: string): void {
    if (name.startsWith('\0') || this.#pendingMarks >= this.#limits.pendingMarks) {
      this.#countGarbage('too_many_marks', 'The agent has too many marks waiting; further ones are ignored.');
      return;
    }
    this.#pendingMarks += 1;
    this.#hooks.mark(name);
  }

  #agentEvent(event: AgentEvent): void {
    this.#reacted();
    this.#hooks.event(
      event.type === 'transcript' ? { ...event, beganMs: event.beganMs ?? this.#beganOf(event) } : event,
    );
  }

  /** Start time of a transcript without one: the caller's may arrive long after the speech. */
  #beganOf({ speaker }: { speaker: Spoken['speaker'] }): number {
    const beganMs = speaker === 'caller' ? this.#callerBeganMs : null;
    if (speaker === 'caller') this.#callerBeganMs = null;
    return beganMs ?? clockMs();
  }

  #utteranceOf(itemId: string | undefined): string | undefined {
    return this.#protocol.idsNamePieces ? undefined : itemId;
  }

  #sayGoodbye(): void {
    if (this.#goodbyeTimer !== undefined) return;
    this.#goodbyeTimer = this.#after(this.#limits.goodbyeLimitMs, () => this.#hangUp());
    this.#hooks.mark(GOODBYE);
  }

  #hangUp(): void {
    clearTimeout(this.#goodbyeTimer);
    if (this.#phase !== 'ending') this.#hooks.event({ type: 'hangup' });
  }

  #reacted(): void {
    if (this.#agentReacted) return;
    this.#agentReacted = true;
    if (this.#phase === 'started' && this.#lineReady) clearTimeout(this.#limitTimer);
  }

  #countGarbage(code: string, message: string): void {
    this.#garbage += 1;
    this.#warn(code, message);
    const bearable = this.#line?.inflow.garbage() ?? true;
    if (!bearable) this.#fail(broken('The agent sent too much that could not be understood.'), 1008);
  }

  #warn(code: string, message: string): void {
    if (this.#warned.has(code)) return;
    this.#warned.add(code);
    this.#hooks.event({ type: 'warning', code, message });
  }

  #closeBecause(reason: string): void {
    // In CLOSING the agent closed first, and its close code tells how the connection ended.
    if (this.#phase === 'ending' || this.#line?.closing) return;
    const lastWords = this.#phase === 'started' && this.#lineReady ? this.#conversation.closing(reason) : [];
    this.#end = { by: 'local', detail: reason };
    this.#phase = 'ending'; // From here on nothing can make it a failure, not even an agent that does not read its last words.
    this.#silence();
    this.#line?.send(lastWords);
    this.#shut(givenUp(), 1000);
  }

  /** Without a close code the socket is destroyed, since a close frame would stay unanswered. */
  #fail(failure: AgentFailure, closeCode?: number): void {
    if (this.#phase === 'ending') return;
    this.#end = { by: 'failed', detail: failure.message };
    this.#phase = 'ending';
    this.#silence();
    this.#shut(failure, closeCode);
  }

  #shut(failure: AgentFailure, closeCode?: number): void {
    this.#failure = failure;
    this.#phase = 'ending';
    this.#stopTimers();
    this.#connecting.abort();
    if (this.#line === null) this.#conclude(1006, '');
    else if (closeCode === undefined) this.#line.break(failure);
    else this.#line.close(closeCode);
  }

  #lineClosed(code: number, reason: string, failure: AgentFailure | null): void {
    if (this.#phase !== 'ending') {
      const lost = failure ?? broken('The connection was lost.');
      const verdict = this.#verdict(code, reason);
      const worthAnother = this.#renewing ? lost.retryable : verdict === 'renew';
      if (worthAnother && this.#renew(lost)) {
        if (failure !== null) this.#hooks.event({ type: 'warning', code: 'connection_lost', message: failure.message });
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
    return this.#isReady && !this.#lineReady;
  }

  #verdict(code: number, reason: string): ReturnType<Conversation['closed']> {
    if (this.#renewal.timeIsUp() && this.#lineReady) return 'renew';
    let verdict: ReturnType<Conversation['closed']> = 'failed';
    this.#hooks.guard(() => {
      verdict = this.#conversation.closed(code, reason);
    });
    return verdict;
  }

  #stopTimers(): void {
    clearTimeout(this.#limitTimer);
    clearTimeout(this.#goodbyeTimer);
    clearTimeout(this.#digitTimer);
    this.#renewal.stop();
    this.#signal.removeEventListener('abort', this.#onAbort);
  }

  /** The last socket is closed. 1006 means that there was no close frame. */
  #conclude(code: number, reason: string): void {
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
    const by = this.#end === undefined && this.#verdict(code, reason) === 'hangup' ? 'hangup' : 'failed';
    const end = this.#end ?? { by, detail: `The agent closed the connection ${how}.` };
    // Audio of an agent that hung up is played to the end; after a failure it is not.
    if (end.by !== 'hangup') this.#silence();
    else
      this.#hooks.guard(() => {
        this.#conversation.over?.(this.#sink);
        this.#spoken.saidAll();
      });
    this.#settleEnded(code === 1006 ? end : { ...end, closeCode: code });
  }

  #after(ms: number, fn: () => void): NodeJS.Timeout {
    return setTimeout(() => this.#hooks.guard(fn), ms);
  }
}

/** The agent's close reason, without characters that would break a log line. */
function quoted(reason: string): string {
  const printable = reason.replace(/[^\x20-\x7e]/g, '');
  return printable === '' ? '' : `: ${printable}`;
}
