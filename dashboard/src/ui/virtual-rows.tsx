import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

const beyond = 12;

/**
 * The rows of a long table: only those near the window stand in the page, between two spacers of the height of the others. Every row has the
 * same height. `onNearEnd` is called when the last rows come near.
 */
export function VirtualRows<T>({
  rows,
  rowHeight,
  render,
  onNearEnd,
}: {
  rows: readonly T[];
  rowHeight: number;
  render: (row: T, index: number) => ComponentChildren;
  onNearEnd?: () => void;
}) {
  const body = useRef<HTMLTableSectionElement>(null);
  const [range, setRange] = useState({ first: 0, last: 40 });
  useEffect(() => {
    let frame = 0;
    const look = () => {
      frame = 0;
      const top = body.current?.getBoundingClientRect().top ?? 0;
      const first = Math.max(0, Math.floor(-top / rowHeight) - beyond);
      const last = Math.ceil((innerHeight - top) / rowHeight) + beyond;
      setRange((before) => (before.first === first && before.last === last ? before : { first, last }));
    };
    const later = () => {
      frame ||= requestAnimationFrame(look);
    };
    look();
    addEventListener('scroll', later, { passive: true });
    addEventListener('resize', later);
    return () => {
      cancelAnimationFrame(frame);
      removeEventListener('scroll', later);
      removeEventListener('resize', later);
    };
  }, [rowHeight]);
  const first = Math.min(range.first, Math.max(0, rows.length - 1));
  const last = Math.min(range.last, rows.length);
  const isNearEnd = last >= rows.length;
  useEffect(() => {
    if (isNearEnd && rows.length > 0) onNearEnd?.();
  }, [isNearEnd, rows.length, onNearEnd]);
  return (
    <tbody ref={body}>
      <Spacer height={first * rowHeight} />
      {rows.slice(first, last).map((row, index) => render(row, first + index))}
      <Spacer height={(rows.length - last) * rowHeight} />
    </tbody>
  );
}

function Spacer({ height }: { height: number }) {
  if (height <= 0) return null;
  return (
    <tr class="spacer">
      <td style={{ height: `${height}px` }} />
    </tr>
  );
}
