/**
 * When the packets of one stream are due. RTP timestamps stay contiguous while an utterance may begin between two slots of the
 * running silence, or come nearer when audio waits for its slots: the stream then leads the wall clock by up to one slot and gives it back
 * in silence, a millisecond per packet.
 */

/** The media clock leads the wall by no more than this. */
const maxLeadMs = 20;
/** A thread that stood still longer than this drops the slots it missed instead of sending them in a burst. */
const maxStallMs = 60;
const repayMs = 1;

export class PlayoutLine {
  dueMs: number;
  leadMs = 0;
  /** Start of the next utterance, if one waits. */
  private startMs: number | null = null;
  private playing = false;

  constructor(
    nowMs: number,
    public ptimeMs: number,
  ) {
    this.dueMs = nowMs + ptimeMs;
  }

  /** Audio may be played in the slot that is due. */
  get speaks(): boolean {
    return this.playing;
  }

  /** An utterance is to begin at `startMs`, never later than was said before. Moves the next slot as near to it as the lead allows. */
  start(startMs: number): void {
    this.startMs = Math.min(startMs, this.startMs ?? startMs);
    this.approach();
  }

  /** The utterance is over: the next one finds its own phase. */
  stop(): void {
    this.playing = false;
    this.startMs = null;
  }

  /** The slots come nearer by so much, as audio is there before them. False when the lead does not allow it. */
  comeNearer(ms: number): boolean {
    if (this.leadMs + ms > maxLeadMs) return false;
    this.leadMs += ms;
    this.dueMs -= ms;
    return true;
  }

  /** The slots move away, and give back of the lead. */
  giveBack(ms: number): void {
    const byMs = Math.min(ms, this.leadMs);
    this.leadMs -= byMs;
    this.dueMs += byMs;
  }

  /** Slots that a stall made worthless; the line goes on after them. */
  skip(nowMs: number): number {
    const lateMs = nowMs - this.dueMs;
    if (lateMs <= maxStallMs) return 0;
    const slots = Math.floor(lateMs / this.ptimeMs);
    this.dueMs += slots * this.ptimeMs;
    return slots;
  }

  /** The slot that is due begins: decides whether it speaks. */
  enter(nowMs: number): void {
    if (this.startMs !== null && this.startMs <= Math.max(nowMs, this.dueMs) + 0.5) {
      this.startMs = null;
      this.playing = true;
    }
  }

  /** The slot is over: `dueMs` is that of the next one. */
  leave(): void {
    const repay = !this.playing && this.startMs === null && this.leadMs > 0 ? Math.min(repayMs, this.leadMs) : 0;
    this.leadMs -= repay;
    this.dueMs += this.ptimeMs + repay;
    this.approach();
  }

  private approach(): void {
    if (this.startMs === null || this.startMs >= this.dueMs) return;
    const dueMs = Math.max(this.startMs, this.dueMs - (maxLeadMs - this.leadMs));
    this.leadMs += this.dueMs - dueMs;
    this.dueMs = dueMs;
  }
}
