/**
 * Schedule of one stream's packets. RTP timestamps stay contiguous, but an utterance may begin between two slots of the running silence, and
 * slots may move earlier when audio waits for them: the stream then leads the wall clock by up to one slot and returns the lead in silence,
 * a millisecond per packet.
 */

/** The most that the media clock may lead the wall clock. */
const maxLeadMs = 20;
/** After a longer stall of the thread, missed slots are dropped instead of sent in a burst. */
const maxStallMs = 60;
const repayMs = 1;

export class PlayoutSchedule {
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

  /** The slot that is due may play audio. */
  get speaks(): boolean {
    return this.playing;
  }

  /** Begins an utterance at `startMs`, or earlier if an earlier start was set. Moves the next slot as near to it as the lead allows. */
  start(startMs: number): void {
    this.startMs = Math.min(startMs, this.startMs ?? startMs);
    this.approach();
  }

  /** The utterance is over: the next one gets its own phase. */
  stop(): void {
    this.playing = false;
    this.startMs = null;
  }

  /** Moves the slots earlier, since audio is ready before them. False when the lead does not allow it. */
  comeNearer(ms: number): boolean {
    if (this.leadMs + ms > maxLeadMs) return false;
    this.leadMs += ms;
    this.dueMs -= ms;
    return true;
  }

  /** Moves the slots later, which reduces the lead. */
  giveBack(ms: number): void {
    const byMs = Math.min(ms, this.leadMs);
    this.leadMs -= byMs;
    this.dueMs += byMs;
  }

  /** Number of slots to drop after a stall; the schedule continues after them. */
  skip(nowMs: number): number {
    const lateMs = nowMs - this.dueMs;
    if (lateMs <= maxStallMs) return 0;
    const slots = Math.floor(lateMs / this.ptimeMs);
    this.dueMs += slots * this.ptimeMs;
    return slots;
  }

  /** Begins the slot that is due and decides whether it plays audio. */
  enter(nowMs: number): void {
    if (this.startMs !== null && this.startMs <= Math.max(nowMs, this.dueMs) + 0.5) {
      this.startMs = null;
      this.playing = true;
    }
  }

  /** Ends the slot: `dueMs` becomes that of the next one. */
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
