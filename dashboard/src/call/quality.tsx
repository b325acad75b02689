import { useMemo } from 'preact/hooks';
import { axis, Chart, colour, labelsBelow } from '../charts/uplot';
import { Empty } from '../ui/parts';
import { duration } from '../ui/time';

type Sample = { at: string; [more: string]: unknown };

const lines: [name: string, label: string, tone: string][] = [
  ['jitter_ms', 'Jitter', 'accent'],
  ['rtt_ms', 'Network round trip', 'agent'],
];

/** The time since the call began. */
const clockAxis = (beganMs: number) =>
  axis({
    size: labelsBelow,
    space: 70,
    values: (_, splits) => splits.map((seconds) => duration(Math.round(seconds - beganMs / 1000))),
  });

/** MOS and loss above, the times below; samples of every five seconds. */
export function Quality({ samples, began, isLive }: { samples: readonly Sample[]; began: string; isLive: boolean }) {
  const beganMs = Date.parse(began);
  const number = (sample: Sample, name: string) => (typeof sample[name] === 'number' ? (sample[name] as number) : null);
  const at = useMemo(() => samples.map((sample) => Date.parse(sample.at) / 1000), [samples]);
  const heard = useMemo(
    () => [at, samples.map((s) => number(s, 'mos')), samples.map((s) => number(s, 'packet_loss'))] as never,
    [samples, at],
  );
  const shown = lines.filter(([name]) => samples.some((sample) => number(sample, name) !== null));
  const delays = useMemo(
    () => [at, ...shown.map(([name]) => samples.map((s) => number(s, name)))] as never,
    [samples, at, shown.length],
  );
  if (samples.length === 0)
    return (
      <Empty title="No samples">
        <p>
          {isLive
            ? 'The samples are stored when the call ends.'
            : 'A sample is taken every five seconds; the call was shorter, or had no audio.'}
        </p>
      </Empty>
    );
  const line = (label: string, tone: string, scale: string) => ({
    label,
    stroke: () => colour(tone),
    width: 1.5,
    scale,
    spanGaps: true,
    points: { show: samples.length < 3 },
  });
  return (
    <div class="stack">
      <Chart
        data={heard}
        height={130}
        label={`MOS and packet loss of ${samples.length} samples.`}
        options={() => ({
          legend: { show: false },
          cursor: { show: false },
          scales: { mos: { range: [1, 4.6] }, loss: { range: (_, __, most) => [0, Math.max(2, most)] } },
          axes: [
            clockAxis(beganMs),
            axis({ scale: 'mos', size: 40 }),
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
      {shown.length > 0 && (
        <>
          <Chart
            data={delays}
            height={120}
            label="Jitter and delays in milliseconds."
            options={() => ({
              legend: { show: false },
              cursor: { show: false },
              scales: { ms: { range: (_, __, most) => [0, Math.max(10, most * 1.1)] } },
              axes: [clockAxis(beganMs), axis({ scale: 'ms', size: 40 })],
              series: [{}, ...shown.map(([, label, tone]) => line(label, tone, 'ms'))],
            })}
          />
          <p class="legend">
            {shown.map(([name, label, tone]) => (
              <span key={name}>
                <i style={{ background: `var(--${tone})` }} />
                {label}
              </span>
            ))}
            <span>in milliseconds</span>
          </p>
        </>
      )}
    </div>
  );
}
