/**
 * Finds audio that stands in the queue of an agent that speaks in real time: it delays the call for as long as the agent goes on. One late
 * frame is enough. An agent that sends ahead of the clock has no standing delay, however long its queue is. No clock of its own: time is
 * counted in slots, and by what `passed` says.
 */

/** A window needs this much time and this many chunks, so that it has seen the agent's jitter. */
const shortestWindowMs = 200;
const leastChunks = 5;
/** After a gap an agent that was on time before is measured sooner. */
const windowAfterGapMs = 40;
const chunksAfterGap = 2;
/** It ends after this time at the latest. */
const longestWindowMs = 1000;
/** The agent's pace is also judged over this many windows: a stall and the burst after it balance. */
const pacedWindows = 5;
const paceTolerance = 0.1;
/** After this long without audio, the next audio is a new utterance. */
const forgetMs = 500;
/** If the queue runs dry this soon after audio was removed, the agent is late again and again: later windows last longer. */
const regretMs = 1000;
const mostPatience = 8;
/** After this long without regret, the windows become shorter again. */
const calmMs = 10_000;

export class StandingDelay {
  private elapsedMs = 0;
  private arrivedMs = 0;
  private chunks = 0;
  private lastChunkMs = 0;
  private leastSpareMs = Number.POSITIVE_INFINITY;
  private dryMs = 0;
  private sinceRemovalMs = Number.POSITIVE_INFINITY;
  private sinceRegretMs = 0;
  private patience = 1;
  private isPaced = false;
  /** The last windows: time, and the duration of the audio that arrived in it. */
  private readonly elapsed = new Float64Array(pacedWindows);
  private readonly arrived = new Float64Array(pacedWindows);
  private windows = 0;
  /** The current window began with a gap, and lasts for so long since its end. */
  private afterGap = false;
  private sinceGapMs = 0;

  /** The first windows of an utterance: its pace is not known yet. */
  get fresh(): boolean {
    return this.windows < 2;
  }

  /** In the last window as much audio arrived as time passed. */
  get paced(): boolean {
    return this.isPaced;
  }

  /** Audio was queued. */
  queued(durationMs: number): void {
    this.arrivedMs += durationMs;
    this.lastChunkMs = durationMs;
    this.chunks += 1;
  }

  /** The last chunk arrived this much earlier than needed. */
  spare(ms: number): void {
    if (ms < this.leastSpareMs) this.leastSpareMs = ms;
  }

  /** Audio is there again after a gap, of which `ms` passed without slots. What comes now tells what the gap left in the queue. */
  resumed(ms: number): void {
    this.elapsedMs += Math.max(0, ms);
    this.sinceGapMs = 0;
    this.afterGap = this.isPaced;
    this.restartMeasurement();
  }

  /** A slot passed in which `playedMs` were played. Returns the standing delay at the end of a window of a real-time agent, else null. */
  slot(playedMs: number, slotMs: number): number | null {
    this.elapsedMs += slotMs;
    this.sinceGapMs += slotMs;
    this.sinceRemovalMs += slotMs;
    this.sinceRegretMs += slotMs;
    if (playedMs === 0) {
      this.dry(slotMs);
      return null;
    }
    this.dryMs = 0;
    const soon = this.afterGap && this.patience === 1;
    const windowMs = soon ? windowAfterGapMs : shortestWindowMs * this.patience;
    // The burst that ended the gap says nothing: what came after it does.
    const complete = soon
      ? this.sinceGapMs >= windowMs && this.chunks >= chunksAfterGap && Number.isFinite(this.leastSpareMs)
      : this.elapsedMs >= windowMs && this.chunks >= leastChunks * this.patience;
    if (!complete && this.elapsedMs < Math.max(windowMs, longestWindowMs)) return null;
    this.judgePace(slotMs);
    const standingMs = this.isPaced && Number.isFinite(this.leastSpareMs) ? Math.max(0, this.leastSpareMs) : null;
    this.afterGap = false;
    this.restartWindow();
    return standingMs;
  }

  /**
   * So much time passed without slots: our thread stood still, or the slots moved later. The audio that arrived meanwhile belongs to it, and
   * what was measured before does not hold any more. If the queue runs dry now, that is no lateness of the agent.
   */
  passed(ms: number): void {
    this.elapsedMs += ms;
    this.sinceRegretMs += ms;
    this.sinceRemovalMs = Number.POSITIVE_INFINITY;
    this.restartMeasurement();
  }

  /** Audio was removed: what was measured before does not hold any more. */
  removed(): void {
    this.sinceRemovalMs = 0;
    this.restartMeasurement();
  }

  /** The queue was cleared. */
  cleared(): void {
    this.windows = 0;
    this.isPaced = false;
    this.afterGap = false;
    this.restartWindow();
  }

  private dry(slotMs: number): void {
    if (this.dryMs === 0 && this.sinceRemovalMs < regretMs) {
      this.patience = Math.min(mostPatience, this.patience * 2);
      this.sinceRegretMs = 0;
      this.sinceRemovalMs = Number.POSITIVE_INFINITY;
    } else if (this.sinceRegretMs > calmMs && this.patience > 1) {
      this.patience /= 2;
      this.sinceRegretMs = 0;
    }
    const wasDryMs = this.dryMs;
    this.dryMs += slotMs;
    this.afterGap = this.isPaced;
    this.restartMeasurement();
    if (this.dryMs < forgetMs) return;
    if (wasDryMs < forgetMs) this.cleared();
    else this.restartWindow();
  }

  private judgePace(slotMs: number): void {
    const tolerance = Math.min(2 * slotMs, Math.max(slotMs, this.lastChunkMs)) + 1;
    const even = Math.abs(this.arrivedMs - this.elapsedMs) <= tolerance;
    this.endWindow();
    this.isPaced = even || this.balanced();
  }

  /** Over the last windows as much audio arrived as time passed, and never more before: an agent that sends ahead and then pauses is not on time. */
  private balanced(): boolean {
    const count = Math.min(this.windows, pacedWindows);
    let elapsedMs = 0;
    let aheadMs = 0;
    for (let i = count; i >= 1; i--) {
      const at = (this.windows - i) % pacedWindows;
      elapsedMs += this.elapsed[at]!;
      aheadMs += this.arrived[at]! - this.elapsed[at]!;
      if (aheadMs > elapsedMs * paceTolerance) return false;
    }
    return count > 1 && aheadMs >= -elapsedMs * paceTolerance;
  }

  private endWindow(): void {
    const at = this.windows % pacedWindows;
    this.elapsed[at] = this.elapsedMs;
    this.arrived[at] = this.arrivedMs;
    this.windows += 1;
    this.elapsedMs = 0;
    this.arrivedMs = 0;
  }

  private restartWindow(): void {
    this.elapsedMs = 0;
    this.arrivedMs = 0;
    this.restartMeasurement();
  }

  private restartMeasurement(): void {
    this.leastSpareMs = Number.POSITIVE_INFINITY;
    this.chunks = 0;
  }
}
