/** What the engine measures of a call, for its record. */
import type { DelaySpread } from './delay-spread.js';

/** Counts by the cause of a late media thread. */
export interface LateCauses {
  garbageCollection: number;
  /** Other threads or processes had the cores. */
  waitingForCore: number;
  ownWork: number;
  /** The process or the machine stood still. */
  stopped: number;
}

export interface MediaDelay {
  /** Round trip between gateway and phone, from the phone's RTCP reports. */
  network: DelaySpread | null;
  /** From the arrival of the caller's packet until its audio goes to the agent: reordering, frames that were not full, a late thread. */
  uplink: DelaySpread | null;
  /** From the arrival of the agent's audio until it is sent. Only audio of agents that speak in real time: what is sent ahead waits on purpose. */
  playout: DelaySpread | null;
}

export interface EchoFigures {
  /** From our packet with the agent's audio to the phone's packet with its echo. */
  delayMs: number;
  /** By how much the echo is softer than what was sent (ITU-T G.168, below 4 kHz). */
  returnLossDb: number;
  /** How often it would have been taken for speech of the phone's user. */
  suppressed: number;
  /** By how much softer it is for an agent that has it removed (ITU-T G.168, ERLE with NLP); null when it was not removed. */
  removedDb: number | null;
}

/** Statistics of one direction (RFC 3550). A figure that was not measured is null, never 0. */
export interface StreamStats {
  packets: number;
  bytes: number;
  /** Percent, 0–100. null when no packet was expected. */
  lossPercent: number | null;
  lost: number | null;
  /** The current estimate (RFC 3550 A.8). */
  jitterMs: number | null;
  /** Over the whole call: mean of the transit time differences, and the largest `jitterMs`; for `sent`, from the far side's reports. */
  jitterMeanMs: number | null;
  jitterMaxMs: number | null;
  /** E-model score of `quality.ts`, 1–4.5; null under 100 audio packets. */
  mos: number | null;
}
