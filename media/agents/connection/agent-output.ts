/** What an agent says, on its way to the phone: whole samples, marks, and the text of what was heard. */
import type { AgentEvent, AgentMessage, AgentProtocol, AudioFormat, Conversation, Sink, Spoken } from '../agent.js';
import { clockMs } from '../clock.js';
import { type AlignedText, TranscriptAlignment } from '../transcript-alignment.js';
import type { AgentSocketHooks, AgentSocketLimits } from './agent-socket.js';
import { ForeignAudio } from './foreign-audio.js';
import { durationMs } from './send-queue.js';

/** Mark after the last words of an agent that hangs up; marks of agents never begin with a NUL. */
const GOODBYE = '\0goodbye';

/** What the connection does for the output. */
export interface AgentOutputLinks {
  /** Sends messages of the conversation to the agent. */
  send(messages: AgentMessage[]): void;
  /** The agent gave a sign of life. */
  reacted(): void;
  /** Audio of the agent arrived. */
  speaks(): void;
  /** The agent has more marks waiting than it may. */
  tooManyMarks(): void;
  /** The last words were heard, or took too long. */
  hungUp(): void;
}

export class AgentOutput {
  bytesReceived = 0;
  readonly #spoken: TranscriptAlignment;
  readonly #foreign = new ForeignAudio();
  #audioStarted = false;
  #isSilenced = false;
  #oddByte: Uint8Array | undefined;
  #pendingMarks = 0;
  /** Start of the caller's speech, by our own detection; null when its transcript has arrived. */
  #callerBeganMs: number | null = null;
  #goodbye: NodeJS.Timeout | undefined;

  constructor(
    private readonly protocol: AgentProtocol,
    private readonly conversation: Conversation,
    private readonly limits: Pick<AgentSocketLimits, 'pendingMarks' | 'goodbyeLimitMs'>,
    private readonly hooks: AgentSocketHooks,
    private readonly links: AgentOutputLinks,
  ) {
    this.#spoken = new TranscriptAlignment(
      (text, beganMs) => hooks.event({ type: 'transcript', speaker: 'agent', text, beganMs }),
      (name) => hooks.mark(name),
      clockMs,
    );
  }

  audio(bytes: Uint8Array, itemId?: string, aligned?: readonly AlignedText[]): void {
    const { hooks, links, conversation, protocol } = this;
    links.reacted();
    if (!this.#audioStarted) {
      this.#audioStarted = true;
      hooks.event({ type: 'audioStarted' });
    }
    this.bytesReceived += bytes.length;
    links.speaks();
    const { replyFormat } = conversation;
    const whole = replyFormat.encoding === 'l16' ? this.#wholeSamples(bytes) : bytes;
    if (whole.length === 0) return;
    if (protocol.transcribes)
      this.#spoken.audio(durationMs(whole.length, replyFormat), this.#utteranceOf(itemId), aligned);
    hooks.audio(whole, itemId);
  }

  audioOf(format: AudioFormat, bytes: Uint8Array): void {
    const converted = this.#foreign.convert(bytes, format, this.conversation.replyFormat);
    if (converted.length > 0) this.audio(converted);
  }

  said(text: string, itemId?: string): void {
    this.#spoken.said(text, this.#utteranceOf(itemId));
  }

  /** An event of the agent; a transcript gets the time when the speech began, if it names none. */
  event(event: AgentEvent): void {
    if (event.type === 'usage') {
      this.hooks.event({ ...event, provider: this.protocol.provider });
      return;
    }
    this.links.reacted();
    if (event.type === 'transcript' && event.beganMs === undefined)
      this.hooks.event({ ...event, beganMs: this.#beganOf(event.speaker) });
    else this.hooks.event(event);
  }

  callerBegan(agoMs: number): void {
    this.#callerBeganMs = clockMs() - agoMs;
  }

  saidAll(brokenOff?: boolean): void {
    this.#spoken.saidAll(brokenOff);
  }

  mark(name: string): void {
    if (name.startsWith('\0') || this.#pendingMarks >= this.limits.pendingMarks) {
      this.links.tooManyMarks();
      return;
    }
    this.#pendingMarks += 1;
    this.hooks.mark(name);
  }

  /** A mark was played, or cleared. True: it was one of the agent's own, which the agent must learn. */
  reached(name: string, cleared: boolean): boolean {
    if (this.#spoken.reached(name, cleared)) return false;
    if (name === GOODBYE) {
      this.#hangUp();
      return false;
    }
    this.#pendingMarks = Math.max(0, this.#pendingMarks - 1);
    return true;
  }

  clear(): void {
    this.links.reacted();
    const { conversation } = this;
    this.#oddByte = undefined;
    const heard = this.hooks.clear();
    for (const { whole, heard: part } of this.#spoken.cut(heard.droppedMs)) conversation.cutShort?.(whole, part);
    this.links.send(conversation.interrupted(heard));
  }

  /** Reports the hangup once the queued audio was heard, within a time limit. */
  hangUpWhenHeard(): void {
    if (this.#goodbye !== undefined) return;
    this.#goodbye = setTimeout(() => this.hooks.guard(() => this.#hangUp()), this.limits.goodbyeLimitMs);
    this.hooks.mark(GOODBYE);
  }

  /** Stops playout of this agent; its last transcript ends where playout stopped. */
  silence(sink: Sink): void {
    if (this.#isSilenced) return;
    this.#isSilenced = true;
    this.hooks.guard(() => {
      this.conversation.over?.(sink);
      this.#spoken.cut(this.hooks.silence().droppedMs);
    });
  }

  /** The agent hung up: what it sent is played to the end. */
  finish(sink: Sink): void {
    this.hooks.guard(() => {
      this.conversation.over?.(sink);
      this.#spoken.saidAll();
    });
  }

  stop(): void {
    clearTimeout(this.#goodbye);
  }

  #hangUp(): void {
    clearTimeout(this.#goodbye);
    this.links.hungUp();
  }

  /** An agent may split its stream anywhere: half a sample waits for its other half. */
  #wholeSamples(bytes: Uint8Array): Uint8Array {
    const joined = this.#oddByte === undefined ? bytes : Buffer.concat([this.#oddByte, bytes]);
    const even = joined.length & ~1;
    // A copy: the bytes are valid during the call only.
    this.#oddByte = even === joined.length ? undefined : Uint8Array.of(joined[even]!);
    return joined.subarray(0, even);
  }

  /** The caller's transcript may arrive long after the speech. */
  #beganOf(speaker: Spoken['speaker']): number {
    const beganMs = speaker === 'caller' ? this.#callerBeganMs : null;
    if (speaker === 'caller') this.#callerBeganMs = null;
    return beganMs ?? clockMs();
  }

  #utteranceOf(itemId: string | undefined): string | undefined {
    return this.protocol.idsNamePieces ? undefined : itemId;
  }
}
