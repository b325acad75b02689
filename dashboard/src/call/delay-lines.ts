/** The delay of a call over time as lines of a chart: one for each hop that was measured. */

/** A sample of `GET /v1/calls/{id}/quality`. */
export interface Sample {
  at: string;
  recent_audio_delay?: { [hop in Hop]: { p95_ms: number } | null };
  [more: string]: unknown;
}
type Hop = 'caller_network' | 'gateway_uplink' | 'gateway_playout';

export interface DelayLine {
  name: 'network' | 'jitter' | 'uplink' | 'playout' | 'thinking';
  /** In milliseconds; null where there is no figure of this line. */
  values: (number | null)[];
}

const ofSample: [name: DelayLine['name'], figure: (sample: Sample) => unknown][] = [
  ['network', ({ recent_audio_delay, rtt_ms }) => recent_audio_delay?.caller_network?.p95_ms ?? rtt_ms],
  ['jitter', ({ jitter_ms }) => jitter_ms],
  ['uplink', ({ recent_audio_delay }) => recent_audio_delay?.gateway_uplink?.p95_ms],
  ['playout', ({ recent_audio_delay }) => recent_audio_delay?.gateway_playout?.p95_ms],
];

/** The last sample may come right after the one before: what few packets say is no line. */
const leastMs = 1_000;

/**
 * All lines over the same moments, in seconds since `beganMs`: those of the samples, and those at which the agent began to answer
 * (`thinking`: its response times). A line without any figure is left out.
 */
export function delayLines(
  samples: readonly Sample[],
  turns: readonly { speaker: string; started_at: string; response_ms: number | null }[],
  beganMs: number,
): { atSec: number[]; lines: DelayLine[] } {
  const timed = samples.map((sample) => ({ atMs: Date.parse(sample.at), sample }));
  const moments: { atMs: number; sample?: Sample; responseMs?: number }[] = [
    ...timed.filter(({ atMs }, i) => atMs - (timed[i - 1]?.atMs ?? 0) >= leastMs),
    ...turns.flatMap(({ speaker, started_at, response_ms }) =>
      speaker === 'agent' && response_ms !== null ? [{ atMs: Date.parse(started_at), responseMs: response_ms }] : [],
    ),
  ].sort((a, b) => a.atMs - b.atMs);
  const lines: DelayLine[] = ofSample.map(([name, figure]) => ({
    name,
    values: moments.map(({ sample }) => {
      const value = sample && figure(sample);
      return typeof value === 'number' ? value : null;
    }),
  }));
  lines.push({ name: 'thinking', values: moments.map(({ responseMs }) => responseMs ?? null) });
  return {
    atSec: moments.map(({ atMs }) => (atMs - beganMs) / 1000),
    lines: lines.filter(({ values }) => values.some((value) => value !== null)),
  };
}
