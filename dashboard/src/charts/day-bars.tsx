import { useMemo } from 'preact/hooks';
import { axis, Chart, colour, labelsBelow } from './uplot';

export interface DayOfCalls {
  date: string;
  completed: number;
  failed: number;
  in_progress: number;
  no_answer: number;
  busy: number;
}

const dayName = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric', timeZone: 'UTC' });

/** From the bottom of a bar to its top. */
const parts = [
  ['completed', 'Completed', 'good'],
  ['no_answer', 'No answer', 'quiet'],
  ['busy', 'Busy', 'warn'],
  ['failed', 'Failed', 'bad'],
  ['in_progress', 'In progress', 'accent'],
] as const;

/** Calls per day, stacked by status. */
export function DayBars({ days, height = 190 }: { days: DayOfCalls[]; height?: number }) {
  const data = useMemo(() => {
    const at = days.map(({ date }) => Date.parse(`${date}T00:00:00Z`) / 1000);
    const below = days.map(() => 0);
    const sums = parts.map(([name]) =>
      days.map((day, i) => {
        below[i] = (below[i] ?? 0) + day[name];
        return below[i] ?? 0;
      }),
    );
    return [at, ...sums.reverse()] as [number[], ...number[][]]; // the whole bar first, lower parts over it
  }, [days]);
  const total = days.reduce((sum, day) => sum + parts.reduce((all, [name]) => all + day[name], 0), 0);
  return (
    <figure class="stack tight">
      <Chart
        data={data}
        height={height}
        label={`Calls per day from ${days[0]?.date} to ${days.at(-1)?.date}, ${total} in all.`}
        options={(uPlot) => ({
          cursor: { show: false },
          legend: { show: false },
          tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), 'UTC'),
          scales: { y: { range: (_, __, most) => [0, Math.max(4, most * 1.1)] } },
          axes: [
            axis({
              grid: { show: false },
              size: labelsBelow,
              space: 60,
              values: (_, splits) => splits.map((seconds) => dayName.format(seconds * 1000)),
            }),
            axis({
              size: 44,
              space: 34,
              incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6],
            }),
          ],
          series: [
            {},
            ...[...parts].reverse().map(([, label, name]) => ({
              label,
              fill: () => colour(name),
              width: 0,
              points: { show: false },
              paths: uPlot.paths.bars?.({ size: [0.72, 42] }),
            })),
          ],
        })}
      />
      <figcaption class="legend">
        {parts.map(([name, label, tone]) => (
          <span key={name}>
            <i style={{ background: `var(--${tone})` }} />
            {label}
          </span>
        ))}
        <span>UTC days</span>
      </figcaption>
    </figure>
  );
}
