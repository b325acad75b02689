import type { InterruptedBy } from '../../../webhook/actions.js';

/** What a relay plays to the phone. Each resolves when it was heard and rejects with the reason of the signal. */
export interface RelayVoice {
  /** `heard`: a part of the text, and how much of it, from 0 to 1. */
  say(
    text: string,
    language: string | null,
    signal: AbortSignal,
    heard: (part: string, share: number) => void,
  ): Promise<void>;
  play(url: string, loop: number, signal: AbortSignal): Promise<void>;
  keys(digits: string): Promise<void>;
}

export interface SpeechTerms {
  interruptible: InterruptedBy;
  /** Later speech of the application takes its place. */
  preemptible: boolean;
}

export interface Interruption {
  /** What was heard of the text. */
  text: string;
  ms: number;
}

export interface SpeechEvents {
  /** A text was heard to its end, or to where it was interrupted. */
  heard(text: string): void;
  /** The caller interrupted a text, and it is silent now. */
  interrupted(what: Interruption): void;
  failed(error: unknown): void;
  /** The application's speech begins to be heard, or ends. */
  speaking(isOn: boolean): void;
  /** A piece of text was heard, to its end or to where it was interrupted. */
  played(piece: string): void;
}

interface Item extends SpeechTerms {
  run(signal: AbortSignal, heard: (part: string, share: number) => void): Promise<void>;
  length: number;
  /** Which text of the application it belongs to. */
  of: number;
}

/** Text that waits to be spoken. */
const mostWaiting = 100_000;
/** A beginning of a sentence is spoken when nothing more comes for this long. */
const idleMs = 1000;
/** Without the end of a sentence a text is cut after so many characters. */
const longestPiece = 200;
const sentenceEnd = /[.!?;:…。！？；：]["'”’)\]]*(?:\s|$)|[。！？；]|\n/g;

/**
 * The application's speech: tokens become sentences, which are spoken one after the other, while later ones are still written. The caller
 * may interrupt it, and then what is left of that text, and what still comes of it, is dropped.
 */
export class RelaySpeech {
  readonly #queue: Item[] = [];
  #current: { item: Item; cut: AbortController } | null = null;
  /** Tokens that are no sentence yet. */
  #buffer = '';
  #terms: SpeechTerms & { language: string | null } = { interruptible: 'any', preemptible: false, language: null };
  #number = 0;
  /** A token with `last` ended the text before. */
  #isNewText = true;
  #isDropping = false;
  #heardText = '';
  #startedMs: number | null = null;
  /** How long a text had been heard when the caller interrupted it. */
  #interruptedMs: number | null = null;
  #idle: NodeJS.Timeout | undefined;
  #isClosed = false;
  #drained: (() => void)[] = [];

  constructor(
    private readonly voice: RelayVoice,
    private readonly events: SpeechEvents,
  ) {}

  get isSpeaking(): boolean {
    return this.#current !== null || this.#queue.length > 0;
  }

  /** Throws when more text waits than a caller would ever hear. */
  text(token: string, last: boolean, terms: SpeechTerms, language: string | null): void {
    if (this.#isClosed) return;
    if (this.#isNewText) {
      this.#preempt();
      this.#isDropping = false;
      this.#number += 1;
    }
    this.#isNewText = last;
    if (this.#isDropping) return;
    this.#terms = { ...terms, language };
    this.#buffer += token;
    const waiting = this.#queue.reduce((sum, { length }) => sum + length, this.#buffer.length);
    if (waiting > mostWaiting) throw new Error(`More than ${mostWaiting} characters wait to be spoken.`);
    clearTimeout(this.#idle);
    if (last) this.#say(this.#buffer.length);
    else {
      this.#say(pieceOf(this.#buffer));
      this.#idle = setTimeout(() => this.#say(this.#buffer.length), idleMs);
    }
  }

  play(url: string, loop: number, terms: SpeechTerms): void {
    this.#preempt();
    this.#say(this.#buffer.length);
    this.#add({ ...terms, length: 0, run: (signal) => this.voice.play(url, loop, signal) });
  }

  keys(digits: string): void {
    this.#say(this.#buffer.length);
    this.#add({ interruptible: 'none', preemptible: false, length: 0, run: () => this.voice.keys(digits) });
  }

  /** The caller spoke or pressed a key. False: nothing may be interrupted by that. */
  interrupt(by: 'speech' | 'dtmf'): boolean {
    const item = this.#current?.item;
    if (item === undefined || this.#interruptedMs !== null) return false;
    if (item.interruptible !== 'any' && item.interruptible !== by) return false;
    this.#interruptedMs = this.#startedMs === null ? 0 : Math.round(performance.now() - this.#startedMs);
    this.#buffer = '';
    clearTimeout(this.#idle);
    this.#queue.length = 0;
    this.#isDropping = !this.#isNewText;
    this.#current?.cut.abort(new Error('interrupted'));
    return true;
  }

  /** The application answers to something new: what it sends now is not part of an interrupted text. */
  answersNow(): void {
    this.#isDropping = false;
    this.#isNewText = true;
  }

  /** Resolves when everything until now was heard. */
  drained(): Promise<void> {
    this.#say(this.#buffer.length);
    if (!this.isSpeaking) return Promise.resolve();
    return new Promise((resolve) => this.#drained.push(resolve));
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#idle);
    this.#queue.length = 0;
    this.#current?.cut.abort(new Error('closed'));
  }

  #preempt(): void {
    for (let i = this.#queue.length - 1; i >= 0; i--) if (this.#queue[i]?.preemptible) this.#queue.splice(i, 1);
    if (this.#current?.item.preemptible) this.#current.cut.abort(new Error('preempted'));
  }

  /** Queues the first characters of the buffer. */
  #say(length: number): void {
    clearTimeout(this.#idle);
    const text = this.#buffer.slice(0, length).trim();
    this.#buffer = this.#buffer.slice(length);
    if (text === '') return;
    const { language, ...terms } = this.#terms;
    this.#add({
      ...terms,
      length: text.length,
      run: (signal, heard) => this.voice.say(text, language, signal, heard),
    });
  }

  #add(item: Omit<Item, 'of'>): void {
    if (this.#isClosed) return;
    this.#queue.push({ ...item, of: this.#number });
    if (this.#current === null) void this.#run();
  }

  async #run(): Promise<void> {
    let isSpeaking = false;
    for (let item = this.#queue.shift(); item !== undefined; item = this.#queue.shift()) {
      const cut = new AbortController();
      if (item.of !== this.#current?.item.of) this.#textIsOver();
      this.#current = { item, cut };
      this.#startedMs ??= performance.now();
      if (!isSpeaking) this.events.speaking(true);
      isSpeaking = true;
      try {
        await item.run(cut.signal, (part, share) => {
          const piece = heardOf(part, share);
          this.#heardText += `${piece} `;
          if (piece !== '') this.events.played(piece);
        });
      } catch (error) {
        if (!cut.signal.aborted) this.events.failed(error);
      }
    }
    this.#current = null;
    if (isSpeaking) this.events.speaking(false);
    this.#textIsOver();
    for (const resolve of this.#drained.splice(0)) resolve();
  }

  #textIsOver(): void {
    const text = this.#heardText.trim();
    this.#heardText = '';
    this.#startedMs = null;
    const ms = this.#interruptedMs;
    this.#interruptedMs = null;
    if (text !== '') this.events.heard(text);
    if (ms !== null) this.events.interrupted({ text, ms });
  }
}

/** How much of the text can be spoken: whole sentences, or a long piece. */
function pieceOf(text: string): number {
  // What ends the text may go on: "3." may become "3.5".
  const ends = [...text.matchAll(sentenceEnd)].map((match) => match.index + match[0].length);
  const end = ends.filter((at) => at < text.length || /[\s。！？；]$/.test(text)).at(-1) ?? 0;
  if (end > 0 || text.length <= longestPiece) return end;
  return Math.max(text.lastIndexOf(' ', longestPiece), 0);
}

/** The words of the part that was heard. */
function heardOf(part: string, share: number): string {
  if (share >= 0.99) return part;
  const cut = part.slice(0, Math.round(part.length * share));
  return cut.slice(0, Math.max(0, cut.lastIndexOf(' ')));
}
