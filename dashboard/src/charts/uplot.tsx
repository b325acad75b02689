/** A chart of uPlot that fills its place. uPlot itself is loaded with the first chart. */
import { useEffect, useRef } from 'preact/hooks';
import type uPlotType from 'uplot';
import 'uplot/dist/uPlot.min.css';

export type ChartData = uPlotType.AlignedData;
export type ChartOptions = Omit<uPlotType.Options, 'width' | 'height'>;

/** The colours of the page as they are now. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** The room below a chart for one line of labels. */
export const labelsBelow = 26;

/** Lines and labels of an axis in the colours of the page. */
export function axis(more: uPlotType.Axis = {}): uPlotType.Axis {
  return {
    stroke: () => colour('soft-ink'),
    grid: { stroke: () => colour('line'), width: 1 },
    ticks: { show: false },
    font: '11px system-ui, sans-serif',
    ...more,
  };
}

export function Chart({
  data,
  options,
  height,
  label,
}: {
  data: ChartData;
  /** Made anew when the chart is drawn, in the colours of that moment. */
  options: (uPlot: typeof uPlotType) => ChartOptions;
  height: number;
  /** What the chart shows, in words, for screen readers. */
  label: string;
}) {
  const place = useRef<HTMLDivElement>(null);
  const makeOptions = useRef(options);
  makeOptions.current = options;
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    let chart: uPlotType | null = null;
    let isGone = false;
    const draw = async () => {
      const { default: uPlot } = await import('uplot');
      if (isGone) return;
      chart?.destroy();
      chart = new uPlot({ ...makeOptions.current(uPlot), width: element.clientWidth, height }, data, element);
    };
    void draw();
    const resized = new ResizeObserver(() => chart?.setSize({ width: element.clientWidth, height }));
    resized.observe(element);
    const scheme = matchMedia('(prefers-color-scheme: dark)');
    scheme.addEventListener('change', draw);
    return () => {
      isGone = true;
      resized.disconnect();
      scheme.removeEventListener('change', draw);
      chart?.destroy();
    };
  }, [data, height]);
  return <div class="chart" ref={place} role="img" aria-label={label} style={{ height: `${height}px` }} />;
}
