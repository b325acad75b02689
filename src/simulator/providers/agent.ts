/** The simulated agent, independent of any provider: greets with a tone, answers each utterance with another tone, stops when interrupted. */
import { Listener } from '../../../examples/tone-agent/listener.js';
import { tone } from '../../../examples/tone-agent/sound.js';
import type { AgentInput, ProviderEncoder } from './provider-protocol.js';

export interface AgentBehaviour {
  greetingHz: number;
  /** 0: no greeting. */
  greetingMs: number;
  greetingText: string;
  answerHz: number;
  answerMs: number;
  /** Time from the end of an utterance (after `silenceMs`) to the answer. */
  answerDelayMs: number;
  silenceMs: number;
  /** Time from the end of an utterance to its transcript; above `answerDelayMs` the answer comes first. */
  transcriptionDelayMs: number;
  /** The agent sends nothing. */
  mute: boolean;
  /** The maximum duration of a session; 0: unlimited. */
  sessionMs: number;
  /** The target of the transfer that key 8 requests. */
  transferTo: string;
}

export const behaviour: AgentBehaviour = {
  greetingHz: 440,
  greetingMs: 1000,
  greetingText:
    'Hello, this is a simulated agent. Speak, and I answer with a tone. Press nine and I hang up, eight and I transfer you.',
  answerHz: 880,
  answerMs: 400,
  answerDelayMs: 200,
  silenceMs: 300,
  transcriptionDelayMs: 0,
  mute: false,
  sessionMs: 0,
  transferTo: '+12025550199',
};

export type SimulatedAgentEvent =
  | { type: 'began' }
  | { type: 'interrupted'; atMs: number }
  | { type: 'heard'; frequencyHz: number }
  | { type: 'read'; text: string }
  | { type: 'said'; text: string };

/** Length of a piece of audio; pieces are sent as fast as the socket takes them. */
const pieceMs = 100;
/** The frequency of late audio of an interrupted turn, which must not be audible to the caller. */
export const lateHz = 1900;
const lateMs = 200;

export class SimulatedAgent implements AgentInput {
  #encoder: ProviderEncoder | null = null;
  #listener: Listener | null = null;
  #speaksHz = 8000;
  #turn = 0;
  #speakingUntilMs = 0;
  #greeted = false;
  #timer: NodeJS.Timeout | undefined;
  #transcription: NodeJS.Timeout | undefined;
  #limit: NodeJS.Timeout | undefined;

  constructor(
    private readonly how: AgentBehaviour,
    private readonly late: boolean,
    private readonly onEvent: (event: SimulatedAgentEvent) => void,
  ) {}

  encodeWith(encoder: ProviderEncoder): void {
    this.#encoder = encoder;
  }

  begin({ listensHz, speaksHz }: { listensHz: number; speaksHz: number }): void {
    this.#speaksHz = speaksHz;
    this.onEvent({ type: 'began' });
    if (this.how.sessionMs > 0) this.#limit = setTimeout(() => this.expire(), this.how.sessionMs);
    this.#listener = new Listener({
      sampleRateHz: listensHz,
      silenceMs: this.how.silenceMs,
      onSpeech: () => this.#interrupt(),
      onUtterance: ({ frequencyHz }) => this.#answer(frequencyHz),
    });
  }

  greet(text = this.how.greetingText): void {
    if (this.#greeted) return;
    this.#greeted = true;
    if (this.how.greetingMs > 0) this.say(this.how.greetingHz, this.how.greetingMs, text);
  }

  hear(samples: Int16Array): void {
    this.#listener?.hear(samples);
  }

  read(text: string): void {
    this.onEvent({ type: 'read', text });
    const keys = /^[\d*#]+$/.test(text) ? text : (/\bpressed ([\d*#]+)/.exec(text)?.[1] ?? '');
    if (keys.includes('9')) this.#encoder?.hangUp();
    else if (keys.includes('8')) this.#encoder?.transfer?.(this.how.transferTo);
  }

  say(frequencyHz: number, durationMs: number, text: string): void {
    const encoder = this.#encoder;
    if (encoder === null || this.how.mute) return;
    this.#turn += 1;
    const samples = tone(frequencyHz, durationMs, this.#speaksHz);
    const piece = (this.#speaksHz * pieceMs) / 1000;
    encoder.said(text, this.#turn);
    for (let at = 0; at < samples.length; at += piece) encoder.audio(samples.subarray(at, at + piece), this.#turn);
    encoder.finished(this.#turn);
    this.#speakingUntilMs = performance.now() + durationMs;
    this.onEvent({ type: 'said', text });
  }

  /** The session reached its maximum duration. */
  expire(): void {
    this.#encoder?.expire();
  }

  /** Whether the connection has ended. */
  get ended(): boolean {
    return this.#encoder === null;
  }

  end(): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#transcription);
    clearTimeout(this.#limit);
    this.#encoder = null;
  }

  #interrupt(): void {
    if (this.how.mute) return;
    clearTimeout(this.#timer);
    const speaking = performance.now() < this.#speakingUntilMs;
    this.#speakingUntilMs = 0;
    this.onEvent({ type: 'interrupted', atMs: performance.now() });
    this.#encoder?.interrupted(speaking ? this.#turn : null);
    if (speaking && this.late) this.#encoder?.audio(tone(lateHz, lateMs, this.#speaksHz), this.#turn);
  }

  #answer(frequencyHz: number): void {
    if (this.how.mute) return;
    this.onEvent({ type: 'heard', frequencyHz });
    this.#encoder?.utterance?.();
    const transcribe = () => this.#encoder?.heard(`A tone of ${frequencyHz} hertz.`);
    const { transcriptionDelayMs } = this.how;
    if (transcriptionDelayMs === 0) transcribe();
    else this.#transcription = setTimeout(transcribe, transcriptionDelayMs);
    this.#timer = setTimeout(() => {
      this.say(this.how.answerHz, this.how.answerMs, `You sang ${frequencyHz} hertz.`);
    }, this.how.answerDelayMs);
  }
}
