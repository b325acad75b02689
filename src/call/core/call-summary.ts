import type { AgentEvent } from '../../../media/agents/agent.js';
import type { MediaStats } from '../../../media/engine.js';
import type { QualitySample, Turn } from '../../store/calls/call-records.js';
import { audioDelay, qualityMetrics, recentDelay } from './quality-metrics.js';

type TokenUsage = Extract<AgentEvent, { type: 'usage' }>['tokens'];

/** Four hours of samples. */
const maxSamples = 2_880;
/** Turns in the terminal record. The events have all turns. */
const maxTurns = 2000;

/** Figures of a call that its terminal record shows. */
export class TerminalSummary {
  readonly #samples: QualitySample[] = [];
  readonly #turns: Turn[] = [];
  #agentLeg: MediaStats | null = null;
  readonly #tokens = new Map<string, TokenUsage>();

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

  addTokens(provider: string, tokens: TokenUsage): void {
    const sum: TokenUsage = { ...this.#tokens.get(provider) };
    for (const [kind, count] of Object.entries(tokens) as [keyof TokenUsage, number][])
      sum[kind] = (sum[kind] ?? 0) + count;
    this.#tokens.set(provider, sum);
  }

  /** Final figures of the media of an agent behind SIP. */
  agentLegEnded(stats: MediaStats): void {
    this.#agentLeg = stats;
  }

  /** `stats`: the final figures of the party's media; null without media. */
  fields(stats: MediaStats | null) {
    const agentLeg = this.#agentLeg === null ? {} : { agent_leg: qualityMetrics(this.#agentLeg) };
    const tokens = [...this.#tokens].map(([provider, used]) => ({ provider, ...tokenFields(used) }));
    const delay = audioDelay(stats?.delay ?? null, this.#turns);
    return {
      quality: {
        ...{ ...qualityMetrics(stats), ...agentLeg, ...(delay && { audio_delay: delay }) },
        ...(tokens.length > 0 && { tokens }),
      },
      qualitySamples: this.#samples,
      turns: this.#turns,
    };
  }
}

/** The `tokens` of the API: `input`, `input_text` … */
function tokenFields(used: TokenUsage): Record<string, unknown> {
  const name = (kind: string) => kind.replace(/[A-Z]/, (upper) => `_${upper.toLowerCase()}`);
  return Object.fromEntries(Object.entries(used).map(([kind, count]) => [name(kind), count]));
}
