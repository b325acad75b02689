import type { MediaStats } from '../../../media/engine.js';
import type { QualitySample, Turn } from '../../store/calls/call-records.js';
import { qualityMetrics } from './quality-metrics.js';

/** Four hours of samples. */
const maxSamples = 2_880;
/** Turns kept in the record; the events have all. */
const maxTurns = 2000;

/** Figures of a call that its terminal record shows. */
export class TerminalSummary {
  readonly #samples: QualitySample[] = [];
  readonly #turns: Turn[] = [];
  #agentLeg: MediaStats | null = null;

  addSample(at: Date, stats: MediaStats): void {
    if (this.#samples.length < maxSamples) this.#samples.push({ at: at.toISOString(), ...qualityMetrics(stats) });
  }

  addTurn(turn: Turn): void {
    if (this.#turns.length < maxTurns) this.#turns.push(turn);
  }

  /** Last figures of the media of an agent behind SIP. */
  agentLegEnded(stats: MediaStats): void {
    this.#agentLeg = stats;
  }

  /** `stats`: last figures of the far side's media; null when there was none. */
  fields(stats: MediaStats | null) {
    const agentLeg = this.#agentLeg === null ? {} : { agent_leg: qualityMetrics(this.#agentLeg) };
    return {
      quality: { ...qualityMetrics(stats), ...agentLeg },
      qualitySamples: this.#samples,
      turns: this.#turns,
    };
  }
}
