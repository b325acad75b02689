/** What our engine would notice of a phone, while FreeSWITCH alone has its RTP: keys, hold, and silence for too long. */
import type { FsmrfEndpoint } from 'drachtio-fsmrf';
import type { MediaDirection, MediaEvent, MediaPolicy, MediaSession } from '../engine.js';

export interface PhoneWatchHost {
  tell(event: MediaEvent): void;
  /** No packet arrived for the time of the policy. */
  silent(): void;
}

/** FreeSWITCH counts a key in samples of 8 kHz. */
const samplesPerMs = 8;

export class PhoneWatch {
  held: MediaSession['held'] = null;
  #isOver = false;
  #packets = 0;
  /** When the packets last rose; null until the call is answered. */
  #roseMs: number | null = null;

  constructor(
    private readonly policy: MediaPolicy,
    private readonly host: PhoneWatchHost,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** The time limits of the policy apply from now on. */
  answered(): void {
    this.#roseMs ??= this.now();
  }

  keys(phone: FsmrfEndpoint): void {
    phone.on('dtmf', ({ dtmf, duration }: { dtmf: string; duration?: string | number }) => {
      const durationMs = Number(duration ?? 0) / samplesPerMs;
      if (!this.#isOver) this.host.tell({ type: 'dtmf', digit: dtmf, durationMs, form: 'event', passedOn: false });
    });
  }

  /** The direction that the phone wants. */
  direction(wanted: MediaDirection): void {
    const isHeld = wanted === 'sendonly' || wanted === 'inactive';
    const was = this.held;
    this.held = isHeld ? { sends: wanted === 'sendonly' } : null;
    if (this.#roseMs === null) return;
    this.#roseMs = this.now();
    if (this.#isOver) return;
    if (this.held !== null && was?.sends !== this.held.sends) this.host.tell({ type: 'held', sends: this.held.sends });
    else if (this.held === null && was !== null) this.host.tell({ type: 'resumed' });
  }

  /** The packets of the phone so far, every few seconds. */
  heard(packets: number): void {
    if (packets !== this.#packets) {
      this.#packets = packets;
      if (this.#roseMs !== null) this.#roseMs = this.now();
    }
    const limitMs = this.#packets === 0 ? this.policy.firstRtpTimeoutMs : this.policy.rtpTimeoutMs;
    if (this.#isOver || this.#roseMs === null || limitMs === 0 || this.held !== null) return;
    if (this.now() - this.#roseMs >= limitMs) this.host.silent();
  }

  stop(): void {
    this.#isOver = true;
  }
}
