import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Organization } from '../store/organizations.js';
import type { Tier } from '../store/tables.js';
import { ApiError } from './errors.js';
import { type CountSources, RequestCounts } from './window-counter.js';

/** Requests per second and per day. An organization's own limits go before its tier's. */
const tierLimits: Record<Tier, { perSecond: number; perDay: number }> = {
  free: { perSecond: 10, perDay: 1_000 },
  pro: { perSecond: 50, perDay: 50_000 },
  business: { perSecond: 200, perDay: 500_000 },
  enterprise: { perSecond: 1_000, perDay: 10_000_000 },
};
const unidentifiedPerSecond = 20;
const dayMs = 86_400_000;

export interface Limits {
  /** Counts a request of an identified caller and sets the headers. Throws 429. */
  countOrganization(reply: FastifyReply, organization: Organization): Promise<void>;
  /** Counts a request without a valid key against its address. Throws 429. */
  countAddress(request: FastifyRequest): Promise<void>;
}

interface Limit {
  max: number;
  remaining: number;
  /** Until there is more. */
  resetMs: number;
}

export function createLimits(sources: CountSources): Limits {
  const counts = new RequestCounts(sources);
  return {
    async countOrganization(reply, organization) {
      const { perSecond, perDay } = limitsOf(organization);
      const nowMs = Date.now();
      const day = Math.floor(nowMs / dayMs);
      const counted = counts.count(organization.id, perSecond, day);
      const { isLetThrough, usedInSecond, secondMs, usedInDay } = counted instanceof Promise ? await counted : counted;
      const inSecond = { max: perSecond, remaining: Math.max(0, perSecond - usedInSecond), resetMs: secondMs };
      const inDay = { max: perDay, remaining: Math.max(0, perDay - usedInDay), resetMs: (day + 1) * dayMs - nowMs };
      const isDayOver = usedInDay > perDay;
      const told = isLetThrough && isDayOver ? inDay : inSecond;
      reply.headers({
        'x-ratelimit-limit': told.max,
        'x-ratelimit-remaining': told.remaining,
        'x-ratelimit-reset': Math.ceil((nowMs + told.resetMs) / 1000),
        'ratelimit-policy': `"second";q=${perSecond};w=1, "day";q=${perDay};w=86400`,
        ratelimit: `"second";r=${inSecond.remaining};t=${seconds(inSecond)}, "day";r=${inDay.remaining};t=${seconds(inDay)}`,
      });
      if (!isLetThrough) throw exceeded(inSecond, 'second');
      if (isDayOver) throw exceeded(inDay, 'day');
    },
    async countAddress({ ip }) {
      const { isLetThrough, secondMs } = await counts.count(ip, unidentifiedPerSecond, null);
      if (!isLetThrough) throw exceeded({ max: unidentifiedPerSecond, remaining: 0, resetMs: secondMs }, 'second');
    },
  };
}

function limitsOf({ tier, limits }: Organization): { perSecond: number; perDay: number } {
  return {
    perSecond: limits.requests_per_second ?? tierLimits[tier].perSecond,
    perDay: limits.requests_per_day ?? tierLimits[tier].perDay,
  };
}

function exceeded(limit: Limit, limitedBy: 'second' | 'day'): ApiError {
  return new ApiError(
    'RATE_LIMIT_EXCEEDED',
    `Too many requests: ${limit.max} per ${limitedBy} are allowed`,
    { limited_by: limitedBy },
    { 'retry-after': String(seconds(limit)) },
  );
}

function seconds({ resetMs }: Limit): number {
  return Math.max(1, Math.ceil(resetMs / 1000));
}
