/**
 * Answering machine detection on calls that we placed: a person greets briefly and waits, a machine speaks on and ends with a beep. It only
 * listens to the callee's audio, so that the call never waits for it.
 */
import type { MachineVerdict, PhoneCodec } from '../../engine.js';
import { RtpTimeline } from '../receive/rtp-timeline.js';
import { G711Converter } from '../sample-format.js';
import { SpeechDetector } from './speech-detector.js';
import { type SteadyTone, ToneListener } from './steady-tone.js';

/** The longest greeting that counts as a person's. */
const longestHumanGreetingMs = 2400;
/** A person waits this long after the greeting. */
const waitAfterGreetingMs = 1000;
/** Without any speech for this long, the result is unknown. */
const silenceLimitMs = 5000;
/** Silence that ends the greeting of a machine without a beep. */
const messageEndSilenceMs = 2500;
const limitMs = 30_000;
/** In whole blocks of the tone listener: of a tone of 100 ms at least three are pure. */
const shortestBeepMs = 60;
/** A vowel may be pure for this long: a shorter tone is a beep only after a pause. */
const voiceBeepMs = 160;
const beforeShortBeepMs = 120;
const knownBeforeToneMs = 60;
const longestBeepMs = 2500;
const lowestBeepHz = 400;
/** A beep is followed by silence; a series of tones is a network announcement. */
const afterBeepMs = 100;
/** CNG (1100 Hz) and CED (2100 Hz) of ITU-T T.30. */
const faxTonesHz = [1100, 2100];
const shortestFaxToneMs = 450;
/** Special information tone: three tones of 330 ms, within 50 Hz and 70 ms, up to 30 ms apart (ITU-T E.180), and a block more. */
const sitTonesHz = [950, 1400, 1800];
const sitToleranceHz = 60;
const shortestSitToneMs = 220;
const longestSitToneMs = 440;
const sitGapMs = 80;
/** A tone that sounds from the very begin is the end of the ringing. */
const ringingMs = 60;

const samplesPerMs = 8;

export class AnswerListener {
  private readonly track = new RtpTimeline();
  private readonly narrow = new G711Converter();
  private readonly speech: SpeechDetector;
  private readonly tones = new ToneListener();
  private greetingFromMs: number | null = null;
  private greetingUntilMs = 0;
  private beep: SteadyTone | null = null;
  private toneEndedMs = Number.NEGATIVE_INFINITY;
  private spokeUntilMs = Number.NEGATIVE_INFINITY;
  private readonly spoken: { atMs: number; untilMs: number }[] = [];
  /** Tones of a special information tone so far. */
  private sitTones = 0;
  private verdict: MachineVerdict | null = null;
  private over = false;

  /** `settle` is called once. All times are counted from `startMs`, the answer. `early`: before it; only an operator is detected. */
  constructor(
    private readonly startMs: number,
    private readonly rules: { untilMessageEnd: boolean; early: boolean },
    private readonly settle: (verdict: MachineVerdict) => void,
  ) {
    this.speech = new SpeechDetector({
      started: (atMs) => {
        this.greetingFromMs ??= atMs;
      },
      ended: (atMs) => {
        this.greetingUntilMs = atMs;
      },
    });
  }

  /** A packet from the callee that arrived now. */
  hear(timestamp: number, audio: Uint8Array, of: PhoneCodec, nowMs: number): void {
    if (this.over) return;
    const bytes = this.narrow.of(audio, of);
    const codec = G711Converter.lawOf(of);
    const arrived = Math.round((nowMs - this.startMs) * samplesPerMs) - bytes.length;
    const atMs = this.track.place(timestamp, arrived) / samplesPerMs;
    if (this.tones.current === null) this.noteSpeech(atMs);
    const tone = this.tones.hear(bytes, 0, bytes.length, codec, atMs);
    if (tone) this.toneEnded(tone);
    const sounding = this.tones.current;
    if (sounding && !this.rules.early && isFaxTone(sounding)) this.end({ result: 'fax', reason: 'fax_tone' }, atMs);
    // A tone is not speech.
    else if (sounding && sounding.durationMs >= 60) this.speech.quiet(atMs);
    else this.speech.hear(bytes, 0, bytes.length, codec, atMs);
  }

  /** Called every packet time. */
  tick(nowMs: number): void {
    if (this.over) return;
    const atMs = nowMs - this.startMs;
    // Packets still on their way may contain speech.
    this.speech.quiet(atMs - 100);
    const tone = this.tones.quiet(atMs);
    if (tone) this.toneEnded(tone);
    if (this.rules.early) return;
    if (this.beep && this.tones.current === null && atMs - this.beep.endedMs >= afterBeepMs) this.beeped(atMs);
    else if (this.verdict) this.waitForMessageEnd(atMs);
    else this.decide(atMs);
  }

  /** The call or the session is over. */
  close(nowMs: number): void {
    if (this.verdict) this.end({ messageEnd: null }, nowMs - this.startMs);
    else this.end({ result: 'unknown', reason: 'call_ended' }, nowMs - this.startMs);
  }

  private toneEnded({ frequencyHz, durationMs, endedMs }: SteadyTone): void {
    if (durationMs < shortestBeepMs) return;
    const beganMs = endedMs - durationMs;
    // The first moments of a tone sound like speech: the end of the ringing is no greeting.
    if (beganMs <= ringingMs) this.greetingFromMs = null;
    const sinceToneMs = beganMs - this.toneEndedMs;
    if (this.isNextSitTone(frequencyHz, durationMs, sinceToneMs)) this.sitTones += 1;
    else this.sitTones = this.isSitTone(0, frequencyHz, durationMs) ? 1 : 0;
    if (this.sitTones === sitTonesHz.length) {
      this.end({ result: 'operator', reason: 'sit_tone' }, endedMs);
      return;
    }
    const isWithinSpeech = durationMs < voiceBeepMs && beganMs - this.spokeUntilMs < beforeShortBeepMs;
    const isBeep =
      sinceToneMs >= afterBeepMs &&
      beganMs > ringingMs &&
      !isWithinSpeech &&
      durationMs <= longestBeepMs &&
      frequencyHz >= lowestBeepHz;
    this.beep = isBeep ? { frequencyHz, durationMs, endedMs } : null;
    this.toneEndedMs = endedMs;
  }

  /** Where speech ended, as it was known a little before a tone: the tone's own begin sounds like speech. */
  private noteSpeech(atMs: number): void {
    const [before] = this.spoken;
    if (before && before.atMs <= atMs - knownBeforeToneMs) {
      this.spokeUntilMs = before.untilMs;
      this.spoken.shift();
    }
    this.spoken.push({ atMs, untilMs: this.speech.loudUntilMs });
  }

  private isNextSitTone(frequencyHz: number, durationMs: number, sinceToneMs: number): boolean {
    return this.sitTones > 0 && sinceToneMs <= sitGapMs && this.isSitTone(this.sitTones, frequencyHz, durationMs);
  }

  private isSitTone(place: number, frequencyHz: number, durationMs: number): boolean {
    const hz = sitTonesHz[place];
    const fits = durationMs >= shortestSitToneMs && durationMs <= longestSitToneMs;
    return fits && hz !== undefined && Math.abs(frequencyHz - hz) <= sitToleranceHz;
  }

  private beeped(atMs: number): void {
    const beepHz = Math.round(this.beep?.frequencyHz ?? 0);
    this.verdict ??= this.verdictOf('machine', 'beep', atMs);
    this.end({ beepHz, messageEnd: 'beep', messageEndMs: Math.round(this.beep?.endedMs ?? atMs) }, atMs);
  }

  private decide(atMs: number): void {
    const { greetingFromMs } = this;
    if (atMs >= limitMs) this.end({ result: 'unknown', reason: 'timeout' }, atMs);
    else if (greetingFromMs === null) {
      if (this.speech.speaking && this.speech.loudUntilMs > this.toneEndedMs) this.greetingFromMs = this.toneEndedMs;
      if (atMs >= silenceLimitMs) this.end({ result: 'unknown', reason: 'silence' }, atMs);
    } else this.judgeGreeting(greetingFromMs, atMs);
  }

  private judgeGreeting(greetingFromMs: number, atMs: number): void {
    const { speech } = this;
    const untilMs = speech.speaking ? speech.loudUntilMs : this.greetingUntilMs;
    if (untilMs - greetingFromMs > longestHumanGreetingMs) {
      this.verdict = this.verdictOf('machine', 'long_greeting', atMs);
      if (!this.rules.untilMessageEnd) this.end({}, atMs);
    } else if (!speech.speaking && this.tones.current === null && atMs - untilMs >= waitAfterGreetingMs) {
      this.end({ result: 'human', reason: 'short_greeting' }, atMs);
    }
  }

  private waitForMessageEnd(atMs: number): void {
    const { speech } = this;
    const silentMs = atMs - (speech.speaking ? speech.loudUntilMs : this.greetingUntilMs);
    if (this.tones.current === null && !speech.speaking && silentMs >= messageEndSilenceMs)
      this.end({ messageEnd: 'silence', messageEndMs: Math.round(this.greetingUntilMs) }, atMs);
    else if (atMs >= limitMs) this.end({ messageEnd: 'timeout', messageEndMs: Math.round(atMs) }, atMs);
  }

  private end(more: Partial<MachineVerdict>, atMs: number): void {
    if (this.over) return;
    this.over = true;
    const { result = 'unknown', reason = 'silence' } = more;
    this.settle({ ...(this.verdict ?? this.verdictOf(result, reason, atMs)), ...more });
  }

  private verdictOf(result: MachineVerdict['result'], reason: MachineVerdict['reason'], atMs: number): MachineVerdict {
    const untilMs = this.speech.speaking ? this.speech.loudUntilMs : this.greetingUntilMs;
    return {
      result,
      reason,
      decidedMs: Math.round(atMs),
      greetingMs: this.greetingFromMs === null ? null : Math.max(0, Math.round(untilMs - this.greetingFromMs)),
      messageEnd: null,
      messageEndMs: null,
      beepHz: null,
    };
  }
}

function isFaxTone({ frequencyHz, durationMs }: SteadyTone): boolean {
  return durationMs >= shortestFaxToneMs && faxTonesHz.some((hz) => Math.abs(frequencyHz - hz) <= 25);
}
