/** Quality and delay of a call over time, and where its delay comes from. */
import { useMemo } from 'preact/hooks';
import type { CallDetail } from '../api/types';
import { axis, Chart, type ChartData, colour, labelsBelow } from '../charts/uplot';
import { Empty } from '../ui/parts';
import { State } from '../ui/state';
import { duration } from '../ui/time';
import { delayLines, type Sample } from './delay-lines';

/** Neat steps of time, in seconds. */
const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600];

/** The time since the answer. */
const clockAxis = () =>
  axis({ size: labelsBelow, space: 60, incrs: steps, values: (_, splits) => splits.map((sec) => duration(sec)) });

const plain = { legend: { show: false }, cursor: { show: false } };

const delayStyles = {
  network: { label: 'Network round trip', tone: 'accent' },
  jitter: { label: 'Jitter', tone: 'good' },
  uplink: { label: 'Gateway, to the agent (p95)', tone: 'quiet' },
  playout: { label: 'Gateway, to the caller (p95)', tone: 'bad' },
  thinking: { label: 'Answers of the agent (right)', tone: 'agent' },
} as const;

export function Quality({ samples, call }: { samples: readonly Sample[]; call: CallDetail }) {
  const beganMs = Date.parse(call.answered_at ?? call.created_at);
  const heard = useMemo(() => {
    const figure = (sample: Sample, name: string) => (typeof sample[name] === 'number' ? sample[name] : null);
    return [
      samples.map((sample) => (Date.parse(sample.at) - beganMs) / 1000),
      samples.map((sample) => figure(sample, 'mos')),
      samples.map((sample) => figure(sample, 'packet_loss')),
    ] as ChartData;
  }, [samples, beganMs]);
  const delays = useMemo(() => delayLines(samples, call.turns, beganMs), [samples, call.turns, beganMs]);
  if (samples.length === 0)
    return (
      <Empty title="No samples">
        <p>
          {call.status === 'in_progress'
            ? 'The samples are stored when the call ends.'
            : 'A sample is taken every five seconds; the call was shorter, or had no audio.'}
        </p>
      </Empty>
    );
  const line = (label: string, tone: string, scale: string, isDots = false) => ({
    label,
    stroke: () => colour(tone),
    width: 1.5,
    scale,
    spanGaps: true,
    ...(isDots && { paths: () => null }),
    points: { show: isDots || samples.length < 3, size: 7, fill: () => colour(tone) },
  });
  const ofSamples = delays.lines.filter(({ name }) => name !== 'thinking');
  const hasAnswers = ofSamples.length < delays.lines.length;
  return (
    <div class="stack">
      <Chart
        data={heard}
        height={110}
        label={`MOS and packet loss of ${samples.length} samples.`}
        options={() => ({
          ...plain,
          scales: {
            x: { time: false },
            mos: { range: [1, 4.6] },
            loss: { range: (_, __, most) => [0, Math.max(2, most)] },
          },
          axes: [
            clockAxis(),
            axis({ scale: 'mos', size: 40, splits: [1, 2, 3, 4] }),
            axis({ scale: 'loss', side: 1, size: 40, grid: { show: false } }),
          ],
          series: [{}, line('MOS', 'good', 'mos'), line('Loss', 'bad', 'loss')],
        })}
      />
      <p class="legend">
        <span>
          <i style={{ background: 'var(--good)' }} />
          MOS (left)
        </span>
        <span>
          <i style={{ background: 'var(--bad)' }} />
          Packet loss in % (right)
        </span>
      </p>
      {delays.lines.length > 0 && (
        <>
          <h3>Delay by hop, in milliseconds</h3>
          <Chart
            data={[delays.atSec, ...delays.lines.map(({ values }) => values)]}
            height={140}
            label={`${delays.lines.map(({ name }) => delayStyles[name].label).join(', ')}, in milliseconds.`}
            options={() => ({
              ...plain,
              scales: {
                x: { time: false },
                ms: { range: (_, __, most) => [0, Math.max(10, most * 1.1)] },
                answer: { range: (_, __, most) => [0, Math.max(1_000, most * 1.1)] },
              },
              axes: [
                clockAxis(),
                axis({ scale: 'ms', size: 44 }),
                ...(hasAnswers ? [axis({ scale: 'answer', side: 1, size: 48, grid: { show: false } })] : []),
              ],
              series: [
                {},
                ...delays.lines.map(({ name }) =>
                  line(
                    delayStyles[name].label,
                    delayStyles[name].tone,
                    name === 'thinking' ? 'answer' : 'ms',
                    name === 'thinking',
                  ),
                ),
              ],
            })}
          />
          <p class="legend">
            {delays.lines.map(({ name }) => (
              <span key={name}>
                <i style={{ background: `var(--${delayStyles[name].tone})` }} />
                {delayStyles[name].label}
              </span>
            ))}
          </p>
        </>
      )}
      <Hops delay={call.quality_metrics.audio_delay} />
    </div>
  );
}

/** Each with its limit at p95, in milliseconds, as the description of the API names it. */
const hops = [
  ['caller_network', 'Caller’s network, there and back', 300],
  ['gateway_uplink', 'This server, to the agent', 40],
  ['agent_thinking', 'Agent, from question to answer', 1_500],
  ['gateway_playout', 'This server, to the caller', 40],
] as const;

function Hops({ delay }: { delay: CallDetail['quality_metrics']['audio_delay'] }) {
  if (!delay) return null;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, also by keyboard
    <section class="table-wrap" tabIndex={0} aria-label="Delay by hop">
      <table>
        <thead>
          <tr>
            <th scope="col">Hop</th>
            {['Median', 'p95', 'Worst'].map((name) => (
              <th key={name} scope="col" class={name === 'Worst' ? 'right wide-only' : 'right'}>
                {name}
              </th>
            ))}
            <th scope="col">At p95</th>
          </tr>
        </thead>
        <tbody>
          {hops.map(([name, words, limitMs]) => {
            const spread = delay[name];
            const isOver = (spread?.p95_ms ?? 0) > limitMs;
            return (
              <tr key={name}>
                <th scope="row">
                  {words} <small class="nowrap">(limit {limitMs} ms)</small>
                </th>
                {[spread?.p50_ms, spread?.p95_ms, spread?.worst_ms].map((ms, index) => (
                  <td key={index} class={index === 2 ? 'right nowrap wide-only' : 'right nowrap'}>
                    {ms === undefined ? '–' : `${Math.round(ms)} ms`}
                  </td>
                ))}
                <td class="nowrap">
                  {spread ? (
                    <State of={isOver ? 'warning' : 'ok'} word={isOver ? 'Over' : 'OK'} />
                  ) : (
                    <span class="soft">–</span>
                  )}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}
