/**
 * What a media thread tells the main thread. Each message wakes that thread, which then writes to the journal; so turns and quality samples, which
 * nothing waits for, wait until one message carries those of many calls. Any other message takes them along: the order is kept.
 */
import type { Time } from '../audio/playout/playout-clock.js';
import type { MediaEvent } from '../engine.js';
import type { FromThread, SessionEvent } from './channel.js';

const waitAtMostMs = 100;

export class NoticeQueue {
  private waiting: SessionEvent[] = [];
  private firstMs = 0;
  private timer: unknown = null;
  /** When each of `waiting` was told. */
  private readonly toldMs: number[] = [];

  constructor(
    private readonly send: (message: FromThread) => void,
    private readonly time: Time,
  ) {}

  readonly post = (message: FromThread): void => {
    this.flush();
    this.send(message);
  };

  event(session: number, event: MediaEvent): void {
    if (event.type !== 'turn' && event.type !== 'quality') {
      this.post({ kind: 'event', session, event });
      return;
    }
    const nowMs = this.time.now();
    // The timer itself may be late.
    if (this.waiting.length > 0 && nowMs - this.firstMs >= waitAtMostMs) this.flush();
    if (this.waiting.length === 0) this.firstMs = nowMs;
    this.waiting.push({ session, event });
    this.toldMs.push(nowMs);
    this.timer ??= this.time.setTimer(this.timeIsUp, waitAtMostMs);
  }

  close(): void {
    this.flush();
    if (this.timer !== null) this.time.clearTimer(this.timer);
    this.timer = null;
  }

  private readonly timeIsUp = (): void => {
    this.timer = null;
    this.flush();
  };

  private flush(): void {
    if (this.waiting.length === 0) return;
    const nowMs = this.time.now();
    for (const [i, { event }] of this.waiting.entries()) {
      if (event.type === 'turn') event.agoMs += nowMs - this.toldMs[i]!;
    }
    const events = this.waiting;
    this.waiting = [];
    this.toldMs.length = 0;
    this.send({ kind: 'events', events });
  }
}
