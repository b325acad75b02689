import type { RouteRule } from '../../store/routing/route-rule.js';

/** The facts that rules check. */
export interface RuleFacts {
  from: string;
  at: Date;
}

const weekdays = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'];

/** Why the rule does not match these facts, as text; null when it matches. */
export function ruleMisfit(rule: RouteRule, facts: RuleFacts): string | null {
  if (rule.from_prefix !== undefined && !facts.from.startsWith(rule.from_prefix))
    return 'The caller has another prefix.';
  if (rule.schedule !== undefined && !inSchedule(rule.schedule, facts.at)) return 'Outside its schedule.';
  return null;
}

/** A schedule whose start is after its end continues past midnight and belongs to the day on which it starts. */
function inSchedule(schedule: NonNullable<RouteRule['schedule']>, at: Date): boolean {
  const parts = new Intl.DateTimeFormat('en-US', {
    timeZone: schedule.timezone,
    weekday: 'short',
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
  }).formatToParts(at);
  const part = (type: string): string => parts.find((p) => p.type === type)?.value ?? '';
  const today = weekdays.indexOf(part('weekday')) + 1;
  const yesterday = today === 1 ? 7 : today - 1;
  const time = `${part('hour')}:${part('minute')}`;
  const start = schedule.start ?? '00:00';
  const end = schedule.end ?? '24:00';
  const onDay = (day: number): boolean => schedule.days === undefined || schedule.days.includes(day);
  if (start < end) return onDay(today) && time >= start && time < end;
  return (onDay(today) && time >= start) || (onDay(yesterday) && time < end);
}

/**
 * Among adjacent matching rules with weights, one is drawn by weight; a rule without a weight decides alone.
 * `draw` is in [0, 1).
 */
export function drawRule(fitting: readonly RouteRule[], draw: number): RouteRule | undefined {
  const first = fitting[0];
  if (first === undefined || first.weight === undefined) return first;
  const unweighted = fitting.findIndex((rule) => rule.weight === undefined);
  const group = unweighted < 0 ? fitting : fitting.slice(0, unweighted);
  const total = group.reduce((sum, rule) => sum + (rule.weight ?? 0), 0);
  let mark = draw * total;
  for (const rule of group) {
    mark -= rule.weight ?? 0;
    if (mark < 0) return rule;
  }
  return group.at(-1);
}
