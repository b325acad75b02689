import { useEffect, useState } from 'preact/hooks';

const day = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric' });
const clock = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hour12: false,
});
const whole = new Intl.DateTimeFormat(undefined, {
  ...{ year: 'numeric', month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit' },
  hour12: false,
  timeZoneName: 'short',
});

export const viewerZone = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** A time in the zone of the viewer; UTC is in its title. */
export function Time({
  at,
  form = 'short',
}: {
  at: string | null | undefined;
  form?: 'short' | 'clock' | 'whole' | 'ms';
}) {
  if (!at) return <span class="soft">–</span>;
  const date = new Date(at);
  return (
    <time dateTime={at} title={`${at} (UTC)`} class="nowrap">
      {form === 'whole' && whole.format(date)}
      {form === 'clock' && clock.format(date)}
      {form === 'ms' && `${clock.format(date)}.${String(date.getMilliseconds()).padStart(3, '0')}`}
      {form === 'short' &&
        (isToday(date) ? clock.format(date) : `${day.format(date)} ${clock.format(date).slice(0, 5)}`)}
    </time>
  );
}

function isToday(date: Date): boolean {
  return date.toDateString() === new Date().toDateString();
}

/** `1:05`, `1:02:03`. */
export function duration(seconds: number): string {
  const s = Math.max(0, Math.floor(seconds));
  const rest = `${String(Math.floor(s / 60) % 60).padStart(s >= 3600 ? 2 : 1, '0')}:${String(s % 60).padStart(2, '0')}`;
  return s >= 3600 ? `${Math.floor(s / 3600)}:${rest}` : rest;
}

/** The time since `from`, as it grows. */
export function Since({ from }: { from: string }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, []);
  return <span class="nowrap">{duration((now - Date.parse(from)) / 1000)}</span>;
}

/** Cents as an amount of the currency of the installation. */
export function money(cents: number): string {
  const digits = cents !== 0 && Math.abs(cents) < 100 ? 4 : 2;
  return (cents / 100).toLocaleString(undefined, { minimumFractionDigits: 2, maximumFractionDigits: digits });
}

export function percent(share: number | null | undefined): string {
  return share === null || share === undefined
    ? '–'
    : `${(share * 100).toLocaleString(undefined, { maximumFractionDigits: 1 })} %`;
}
