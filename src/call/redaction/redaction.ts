/**
 * What of a call is kept out of everything that is stored: marked passages, in which keys, spoken numbers and audio are redacted, and, if an
 * endpoint wants it, every key of the call.
 */
import type { MediaSession, RedactedMedia } from '../../../media/engine.js';
import { redactedText, withoutNumbers } from './spoken-numbers.js';

/** `bridge`: the passage is of a call that this one is connected with. */
export type RedactionSource = 'api' | 'agent' | 'gather' | 'bridge';

export interface PassageTerms {
  /** The passage ends by itself after this long. */
  limitMs: number;
  /** Streams that only listen get silence too. */
  streams: boolean;
  /** Whether the transcript loses numbers, or all words. */
  transcript: 'numbers' | 'all';
}

export const defaultPassage: PassageTerms = { limitMs: 300_000, streams: false, transcript: 'numbers' };

/** Speech whose beginning the agent does not report began at most this long before its transcript came. */
const transcriptDelayMs = 15_000;
/** A key may be reported this long after it was pressed, and its length is not always known. */
const keyDelayMs = 500;

interface Passage {
  origin: Redaction;
  source: RedactionSource;
  terms: PassageTerms;
  /** It may have begun this long before this process knew. */
  lateMs: number;
}

/** What a redaction needs of its call. */
export interface RedactedCall {
  event(type: 'redaction.started' | 'redaction.ended', data: Record<string, unknown>): void;
  /** Whole milliseconds from the answer; 0 before it. */
  sinceAnswerMs(): number;
  /** Milliseconds on the clock of `beganMs` of transcripts. */
  clockMs(): number;
}

/** Of what has no record: a conference, a link to another node. */
export const withoutRecord: RedactedCall = {
  event: () => {},
  sinceAnswerMs: () => 0,
  clockMs: () => performance.now(),
};

export class Redaction {
  /** The passages that are open now; the call is redacted while there is one. */
  readonly #open = new Set<Passage>();
  /** When redacted stretches began and ended; the last one may be open (`Infinity`). */
  readonly #stretches: { fromMs: number; toMs: number; all: boolean }[] = [];
  readonly #linked = new Set<Redaction>();
  readonly #sessions = new Set<Pick<MediaSession, 'redact'>>();
  /** Ends the passage that a command began. */
  #endCommanded: (() => void) | null = null;
  #everyKey = false;
  #startedMs = 0;
  #isOver = false;

  constructor(private readonly call: RedactedCall) {}

  get isOpen(): boolean {
    return this.#open.size > 0;
  }

  get hidesEveryKey(): boolean {
    return this.#everyKey;
  }

  /** What the open passages that began in others ask for together; null: there is none. */
  get ofOthers(): PassageTerms | null {
    const terms = [...this.#open].filter(({ origin }) => origin !== this).map((passage) => passage.terms);
    if (terms.length === 0) return null;
    return {
      limitMs: Math.max(...terms.map(({ limitMs }) => limitMs)),
      streams: terms.some(({ streams }) => streams),
      transcript: terms.some(({ transcript }) => transcript === 'all') ? 'all' : 'numbers',
    };
  }

  /** Begins a passage; the returned function ends it. It ends with the call at the latest. */
  begin(source: RedactionSource, terms: PassageTerms = defaultPassage, lateMs = 0): () => void {
    const passage: Passage = { origin: this, source, terms, lateMs };
    const end = (reason: 'stopped' | 'limit') => {
      clearTimeout(timer);
      this.#remove(passage, reason);
    };
    const timer = setTimeout(() => end('limit'), terms.limitMs);
    timer.unref();
    this.#add(passage);
    return () => end('stopped');
  }

  /** As `begin`, for the one passage that commands begin and end; a second begin replaces the terms. */
  start(source: 'api' | 'agent', terms: PassageTerms): void {
    const before = this.#endCommanded;
    this.#endCommanded = this.begin(source, terms);
    before?.();
  }

  /** Ends the passage that a command began, in this call or in the one it is bridged with. Without one nothing happens. */
  stop(): void {
    for (const each of [this, ...this.#linked]) {
      each.#endCommanded?.();
      each.#endCommanded = null;
    }
  }

  /** An endpoint of the call wants no key stored. */
  redactEveryKey(): void {
    if (this.#everyKey) return;
    this.#everyKey = true;
    this.#tellMedia();
    for (const other of this.#linked) other.redactEveryKey();
  }

  /** The media of a phone of this call, or the room of a conference; what the returned function forgets. */
  cover(session: Pick<MediaSession, 'redact'>): () => void {
    this.#sessions.add(session);
    if (this.isOpen || this.#everyKey) session.redact(this.#media);
    return () => this.#sessions.delete(session);
  }

  /** Two calls hear each other: the passages of either count for both, until the returned function is called. */
  link(other: Redaction): () => void {
    if (other === this || this.#linked.has(other)) return () => {};
    const open = [...this.#open, ...other.#open];
    this.#linked.add(other);
    other.#linked.add(this);
    for (const passage of open) {
      this.#add(passage);
      other.#add(passage);
    }
    if (this.#everyKey) other.redactEveryKey();
    if (other.#everyKey) this.redactEveryKey();
    return () => {
      this.#linked.delete(other);
      other.#linked.delete(this);
      for (const each of [this, other])
        for (const passage of [...each.#open]) if (!each.#hears(passage.origin)) each.#remove(passage, 'stopped');
    };
  }

  /** Whether a key that was pressed for `durationMs` (null: unknown) until now is kept out of the record. */
  hidesKey(durationMs: number | null = null): boolean {
    if (this.#everyKey || this.isOpen) return true;
    const toMs = this.#stretches.at(-1)?.toMs;
    return toMs !== undefined && this.call.clockMs() - (durationMs ?? 0) - keyDelayMs < toMs;
  }

  /** What the record may have of an utterance. `beganMs` on the clock of transcripts; absent: unknown. */
  textOf(text: string, beganMs = this.call.clockMs() - transcriptDelayMs): string {
    const within = this.#stretches.filter(({ toMs }) => toMs >= beganMs);
    if (within.length === 0) return text;
    return within.some(({ all }) => all) ? redactedText : withoutNumbers(text);
  }

  /** The call is over: what is open stays redacted for what still comes of it. */
  close(): void {
    if (this.#isOver) return;
    if (this.isOpen) this.#ended('call_ended');
    this.#isOver = true;
  }

  get #media(): RedactedMedia {
    const open = [...this.#open];
    const lateMs = Math.max(0, ...open.map((passage) => passage.lateMs));
    return {
      audio: this.isOpen,
      streams: open.some(({ terms }) => terms.streams),
      keys: this.#everyKey,
      ...(lateMs > 0 && { lateMs }),
    };
  }

  /** Directly, or through others. */
  #hears(other: Redaction, passed = new Set<Redaction>()): boolean {
    if (other === this) return true;
    passed.add(this);
    return [...this.#linked].some((each) => !passed.has(each) && each.#hears(other, passed));
  }

  #add(passage: Passage): void {
    if (this.#open.has(passage)) return;
    const wasOpen = this.isOpen;
    this.#open.add(passage);
    this.#tellMedia();
    const all = passage.terms.transcript === 'all';
    if (wasOpen) {
      const stretch = this.#stretches.at(-1);
      if (stretch !== undefined) stretch.all ||= all;
    } else {
      this.#stretches.push({ fromMs: this.call.clockMs(), toMs: Number.POSITIVE_INFINITY, all });
      this.#startedMs = this.call.sinceAnswerMs();
      if (!this.#isOver)
        this.call.event('redaction.started', { source: passage.origin === this ? passage.source : 'bridge' });
    }
    for (const other of this.#linked) other.#add(passage);
  }

  #remove(passage: Passage, reason: 'stopped' | 'limit'): void {
    if (!this.#open.delete(passage)) return;
    for (const other of this.#linked) other.#remove(passage, reason);
    if (this.#isOver) return; // its media close silent
    this.#tellMedia();
    if (this.isOpen) return;
    const stretch = this.#stretches.at(-1);
    if (stretch !== undefined) stretch.toMs = this.call.clockMs();
    this.#ended(reason);
  }

  #ended(reason: 'stopped' | 'limit' | 'call_ended'): void {
    this.call.event('redaction.ended', { reason, from_ms: this.#startedMs, to_ms: this.call.sinceAnswerMs() });
  }

  #tellMedia(): void {
    for (const session of this.#sessions) session.redact(this.#media);
  }
}
