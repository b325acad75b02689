/**
 * Turns an agent's speech into transcripts once it was heard, and as far as it was heard. Text and audio of an utterance arrive separately
 * and ahead of playout: marks in the queue report when its audio begins and ends, and a clear before that cuts the text where playout
 * stopped.
 */

/** A word, or a part of one, as aligned by the provider: milliseconds from the start of the audio in its message. */
export interface AlignedText {
  text: string;
  endMs: number;
}

interface Utterance {
  itemId: string | undefined;
  text: string;
  /** Times in the utterance's own audio; empty when the provider aligns nothing. */
  aligned: AlignedText[];
  /** Start of its audio within all audio of the agent; null before any arrived. */
  fromMs: number | null;
  audioMs: number;
  lastAudioAt: number;
  /** When its first audio was played. */
  beganAt: number | null;
  beginMark: string;
  /** The mark after its audio; null while more may come. */
  endMark: string | null;
  /** The agent stopped before it had sent the audio of all of the text. */
  brokenOff: boolean;
}

/** An utterance that was cut. */
export interface CutUtterance {
  whole: string;
  /** Empty when nothing was heard. */
  heard: string;
}

/** Marks of agents never begin with a NUL, so they cannot be confused with these. */
const BEGIN = '\0began:';
const END = '\0said:';
/** Limit for the text of an utterance that never ends. */
const MAX_CHARS = 64 * 1024;
/** An utterance cut less than this before its end counts as heard in full. */
const FRAME_MS = 20;
/** After this long without audio, an agent has sent all it has: many never report it. */
const AUDIO_GAP_MS = 250;
/** Pace of speech until the agent's own is known: about 16 characters a second. */
const MS_PER_CHAR = 62;

export class TranscriptAlignment {
  #utterances: Utterance[] = [];
  #count = 0;
  /** Duration of all audio that the agent sent. */
  #sentMs = 0;
  /** Heard without a text: some providers send the text only afterwards. */
  #untold: { utterance: Utterance; heardMs: number } | null = null;
  #knownChars = 0;
  #knownMs = 0;

  /** `tell` gets a text and the time at which the caller began to hear it. `clock`: milliseconds. */
  constructor(
    private readonly tell: (text: string, beganAt: number) => void,
    private readonly mark: (name: string) => void,
    private readonly clock: () => number,
  ) {}

  said(text: string, itemId?: string): void {
    const open = this.#openOf(itemId);
    if (open === undefined && this.#saidLate(text, itemId)) return;
    const utterance = open ?? this.#begin(itemId);
    if (utterance.text.length < MAX_CHARS) utterance.text += text;
  }

  /** Called before audio of this duration is queued. */
  audio(durationMs: number, itemId?: string, aligned: readonly AlignedText[] = []): void {
    const utterance = this.#openOf(itemId) ?? this.#begin(itemId);
    if (utterance.fromMs === null) {
      utterance.fromMs = this.#sentMs;
      this.#untold = null;
      this.mark(utterance.beginMark);
    }
    for (const { text, endMs } of aligned) utterance.aligned.push({ text, endMs: utterance.audioMs + endMs });
    utterance.audioMs += durationMs;
    utterance.lastAudioAt = this.clock();
    this.#sentMs += durationMs;
  }

  /** No more audio of the open utterances will come. `brokenOff`: there is more text than audio. */
  saidAll(brokenOff = false): void {
    const open = this.#utterances.filter((each) => each.endMark === null);
    if (open.length === 0) return;
    this.#count += 1;
    const mark = `${END}${this.#count}`;
    for (const utterance of open) {
      utterance.endMark = mark;
      utterance.brokenOff = brokenOff;
    }
    this.mark(mark);
  }

  /** True when the mark was ours. */
  reached(name: string, cleared: boolean): boolean {
    if (name.startsWith(BEGIN)) {
      const begun = this.#utterances.find(({ beginMark }) => beginMark === name);
      if (begun !== undefined && !cleared) begun.beganAt = this.clock();
      return true;
    }
    if (!name.startsWith(END)) return false;
    const index = cleared ? -1 : this.#utterances.findLastIndex(({ endMark }) => endMark === name);
    // Earlier utterances were played too, if their end was never reported.
    for (const utterance of this.#utterances.splice(0, index + 1)) this.#heard(utterance, utterance.audioMs);
    return true;
  }

  /** The queued audio, of this duration, will not be played. Returns what was cut, for an agent that continues. */
  cut(droppedMs: number): CutUtterance[] {
    const positionMs = this.#sentMs - droppedMs;
    const cuts: CutUtterance[] = [];
    for (const utterance of this.#utterances.splice(0)) {
      const heardMs = Math.min(positionMs - (utterance.fromMs ?? positionMs), utterance.audioMs);
      const heard = heardMs > 0 ? this.#heard(utterance, heardMs) : '';
      const whole = wholeOf(utterance);
      if (heard !== whole) cuts.push({ whole, heard });
    }
    return cuts;
  }

  #begin(itemId: string | undefined): Utterance {
    this.#count += 1;
    const utterance: Utterance = {
      itemId,
      text: '',
      aligned: [],
      fromMs: null,
      audioMs: 0,
      lastAudioAt: 0,
      beganAt: null,
      beginMark: `${BEGIN}${this.#count}`,
      endMark: null,
      brokenOff: false,
    };
    this.#utterances.push(utterance);
    return utterance;
  }

  #openOf(itemId: string | undefined): Utterance | undefined {
    return this.#utterances.findLast((each) => each.endMark === null && each.itemId === itemId);
  }

  /** Adds the text of an utterance whose audio ended without one. */
  #saidLate(text: string, itemId: string | undefined): boolean {
    const waiting = this.#utterances.at(-1);
    if (waiting !== undefined && isSilent(waiting) && waiting.itemId === itemId) {
      waiting.text = text;
      return true;
    }
    const { utterance, heardMs } = this.#untold ?? {};
    if (utterance === undefined || heardMs === undefined || utterance.itemId !== itemId) return false;
    this.#heard({ ...utterance, text }, heardMs);
    return true;
  }

  /** Emits as much of the text as was heard. */
  #heard(utterance: Utterance, heardMs: number): string {
    const { fromMs, audioMs } = utterance;
    if (fromMs === null) return ''; // text without audio
    const whole = wholeOf(utterance);
    if (whole === '') {
      this.#untold = { utterance, heardMs };
      return '';
    }
    const toItsEnd = heardMs > audioMs - FRAME_MS;
    const isComplete = this.#isComplete(utterance);
    let heard: string;
    if (toItsEnd && isComplete) heard = whole;
    else if (utterance.aligned.length > 0) heard = alignedUntil(utterance.aligned, heardMs);
    else heard = cutText(whole, heardMs / (isComplete ? audioMs : Math.max(audioMs, this.#spokenMs(whole))));
    if (heard === whole && isComplete) this.#learnPace(whole.length, audioMs);
    if (heard !== '') this.tell(heard, utterance.beganAt ?? this.clock() - heardMs);
    return heard;
  }

  /** While audio is still arriving, its total duration is unknown. */
  #isComplete({ endMark, brokenOff, lastAudioAt }: Utterance): boolean {
    return endMark === null ? this.clock() - lastAudioAt >= AUDIO_GAP_MS : !brokenOff;
  }

  #learnPace(chars: number, ms: number): void {
    this.#knownChars += chars;
    this.#knownMs += ms;
  }

  /** How long this agent takes to speak the text. */
  #spokenMs(text: string): number {
    return text.length * (this.#knownChars > 0 ? this.#knownMs / this.#knownChars : MS_PER_CHAR);
  }
}

function isSilent(utterance: Utterance): boolean {
  return utterance.endMark !== null && utterance.fromMs !== null && wholeOf(utterance) === '';
}

function wholeOf({ text, aligned }: Utterance): string {
  const written = text.trim();
  return written === '' ? joined(aligned).trim() : written;
}

function joined(aligned: readonly AlignedText[]): string {
  return aligned.map(({ text }) => text).join('');
}

function alignedUntil(aligned: readonly AlignedText[], heardMs: number): string {
  const heard = aligned.filter(({ endMs }) => endMs <= heardMs);
  return wholeWords(joined(aligned), joined(heard).length);
}

/** The first part of a text. */
function cutText(text: string, share: number): string {
  return wholeWords(text, Math.floor(text.length * Math.min(1, share)));
}

/** The first `length` characters, up to the end of the last whole word. */
function wholeWords(text: string, length: number): string {
  if (length >= text.length) return text.trim();
  const end = /\s/.test(text[length] ?? ' ') ? length : text.lastIndexOf(' ', length);
  const words = text.slice(0, Math.max(0, end)).trim();
  return words === '' ? '' : `${words}…`;
}
