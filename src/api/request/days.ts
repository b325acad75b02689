import { dayMs } from '../../store/calls/call-counts.js';
import { invalid } from '../errors.js';

/** The length of a period with one bound, and of trends without bounds. */
const spanDays = 30;
const maxTrendDays = 366;

export interface Days {
  firstDay: number;
  lastDay: number;
}

/**
 * The requested UTC days, inclusive, as days since 1970-01-01; null for all. A single bound begins or ends a period of 30 days; trends
 * without bounds cover the last 30 days. Throws 400.
 */
export function askedDays(asked: { start_date?: string; end_date?: string }): Days | null {
  const { start_date: start, end_date: end } = asked;
  if (start === undefined && end === undefined) return null;
  const lastDay = end !== undefined ? dayOf(end) : Math.min(dayOf(start ?? '') + spanDays - 1, latestDay);
  const firstDay = start !== undefined ? dayOf(start) : Math.max(lastDay - spanDays + 1, earliestDay);
  if (firstDay > lastDay) throw invalid({ path: 'start_date', message: 'must not be after end_date' });
  return { firstDay, lastDay };
}

/** The days of trends. Throws 400 if the period is too long. */
export function trendDays(asked: Days | null, nowMs: number): Days {
  const today = Math.floor(nowMs / dayMs);
  const days = asked ?? { firstDay: today - spanDays + 1, lastDay: today };
  if (days.lastDay - days.firstDay >= maxTrendDays) {
    throw invalid({ path: 'start_date', message: `the period must be at most ${maxTrendDays} days` });
  }
  return days;
}

/** The range of dates with a four-digit year. */
const earliestDay = dayOf('0000-01-01');
const latestDay = dayOf('9999-12-31');

function dayOf(date: string): number {
  return Math.floor(Date.parse(`${date}T00:00:00Z`) / dayMs);
}
