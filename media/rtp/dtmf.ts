/** DTMF keys as RTP events (RFC 4733): receiving reports each press once, sending repeats the end three times. */
import { writeUint32 } from './packet.js';

const keys = '0123456789*#ABCD';
const ticksPerMs = 8;
/** A press whose end packets were all lost is over after this long without a packet. */
const lostEndMs = 200;
const longestSegment = 0xffff;

export interface KeyPress {
  digit: string;
  durationMs: number;
}

export class DtmfReceiver {
  private event = -1;
  /** Of the current segment; a press longer than 8 s has several (section 2.5.1.3). */
  private timestamp = 0;
  private duration = 0;
  private earlierSegments = 0;
  private lastHeardMs = 0;
  private over = true;
  private any = false;
  /** Clock of the event's timestamps and durations; that of the audio beside it. */
  clockKhz = 8;

  /** Returns the press that this packet completes. */
  packet(payload: Uint8Array, timestamp: number, nowMs: number): KeyPress | null {
    if (payload.length < 4) return null;
    const event = payload[0]!;
    if (event >= keys.length) return null;
    const ended = (payload[1]! & 0x80) !== 0;
    const duration = (payload[2]! << 8) | payload[3]!;
    let completed: KeyPress | null = null;
    if (!this.any || timestamp !== this.timestamp) {
      if (this.any && ((timestamp - this.timestamp) | 0) < 0) return null; // late, of an earlier press
      const continues = !this.over && event === this.event && timestamp === (this.timestamp + longestSegment) >>> 0;
      if (continues) this.earlierSegments += longestSegment;
      else {
        completed = this.finish();
        this.earlierSegments = 0;
        this.over = false;
      }
      this.any = true;
      this.event = event;
      this.timestamp = timestamp;
      this.duration = 0;
    } else if (this.over) return null; // a repeated end
    this.duration = Math.max(this.duration, duration);
    this.lastHeardMs = nowMs;
    return completed ?? (ended ? this.finish() : null);
  }

  /** A key is pressed, or its end was lost. */
  get pressed(): boolean {
    return !this.over;
  }

  /** Returns a press whose end packets were lost, once it is over. */
  expire(nowMs: number): KeyPress | null {
    return !this.over && nowMs - this.lastHeardMs >= lostEndMs ? this.finish() : null;
  }

  private finish(): KeyPress | null {
    if (this.over) return null;
    this.over = true;
    return { digit: keys[this.event]!, durationMs: (this.earlierSegments + this.duration) / this.clockKhz };
  }
}

/** What is sent instead of audio in one packet time. */
export interface DtmfStep {
  /** First packet of a press. */
  marker: boolean;
  /** Eighths of a millisecond since the press began: all packets of a press carry the RTP timestamp of the first. */
  ticksIntoPress: number;
  /** null in a pause, when audio may be sent. */
  payload: Uint8Array | null;
  /** The key while its tones sound; null is silence. */
  key: string | null;
}

const pressMs = 100;
const endsSent = 3;
const gapMs = 60;
const waitMs = 500;
const volume = 10;

export const dtmfDigits = /^[0-9A-Da-d*#wW]+$/;

/** Sends digits, one step per packet time. */
export class DtmfSender {
  private queue = '';
  private step = 0;
  private readonly payload = new Uint8Array(4);
  private readonly result: DtmfStep = {
    marker: false,
    ticksIntoPress: 0,
    payload: null,
    key: null,
  };

  get active(): boolean {
    return this.queue.length > 0;
  }

  send(digits: string): void {
    this.queue += digits.toUpperCase();
  }

  stop(): void {
    this.queue = '';
    this.step = 0;
  }

  /** The step for the next packet time. Only while `active`. `clockKhz`: clock of the durations. */
  next(ptimeMs: number, clockKhz = ticksPerMs): DtmfStep {
    const { result } = this;
    const digit = this.queue[0]!;
    const step = this.step;
    const pressSteps = digit === 'W' ? 0 : Math.ceil(pressMs / ptimeMs);
    const eventSteps = digit === 'W' ? 0 : pressSteps + endsSent - 1;
    const steps =
      digit === 'W' ? Math.ceil(waitMs / ptimeMs) : Math.max(eventSteps, pressSteps + Math.ceil(gapMs / ptimeMs));
    result.marker = step === 0 && digit !== 'W';
    result.ticksIntoPress = step * ptimeMs * ticksPerMs;
    result.payload = step < eventSteps ? this.payload : null;
    result.key = step < pressSteps ? digit : null;
    if (step < eventSteps) {
      const duration = Math.min(step + 1, pressSteps) * ptimeMs * clockKhz;
      const end = step + 1 >= pressSteps ? 0x80 : 0;
      writeUint32(this.payload, 0, (keys.indexOf(digit) << 24) | ((end | volume) << 16) | duration);
    }
    this.step += 1;
    if (this.step >= steps) {
      this.queue = this.queue.slice(1);
      this.step = 0;
    }
    return result;
  }
}
