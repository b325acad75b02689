import type { MediaStats } from '../../../media/engine.js';
import type { QualitySample, Turn } from '../../store/calls/call-records.js';
import { audioDelay, qualityMetrics, recentDelay } from './quality-metrics.js';

/** Four hours of samples. */
const maxSamples = 2_880;
/** Turns in the terminal record. The events have all turns. */
const maxTurns = 2000;

/** Figures of a call that its terminal record shows. */
export class TerminalSummary {
  readonly #samples: QualitySample[] = [];
  readonly #turns: Turn[] = [];
  #agentLeg: MediaStats | null = null;

  addSample(at: Date, stats: MediaStats): void {
    if (this.#samples.length >= maxSamples) return;
    const recent = recentDelay(stats.recentDelay);
    this.#samples.push({
      at: at.toISOString(),
      ...qualityMetrics(stats),
      ...(recent && { recent_audio_delay: recent }),
    });
  }

  addTurn(turn: Turn): void {
    if (this.#turns.length < maxTurns) this.#turns.push(turn);
  }

  /** Final figures of the media of an agent behind SIP. */
  agentLegEnded(stats: MediaStats): void {
    this.#agentLeg = stats;
  }

  /** `stats`: the final figures of the party's media; null without media. */
  fields(stats: MediaStats | null) {
    const agentLeg = this.#agentLeg === null ? {} : { agent_leg: qualityMetrics(this.#agentLeg) };
    const delay = audioDelay(stats?.delay ?? null, this.#turns);
    return {
      quality: { ...qualityMetrics(stats), ...agentLeg, ...(delay && { audio_delay: delay }) },
      qualitySamples: this.#samples,
      turns: this.#turns,
    };
  }
}
