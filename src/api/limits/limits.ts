import rateLimit from '@fastify/rate-limit';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Tier } from '../../store/database/tables.js';
import type { Organization } from '../../store/tenants/organizations.js';
import { ApiError } from '../errors.js';
import { type CountSources, RequestCounts } from './window-counter.js';

/** Requests per second and per day. An organization's own limits go before its tier's. */
const tierLimits: Record<Tier, { perSecond: number; perDay: number }> = {
  free: { perSecond: 10, perDay: 1_000 },
  pro: { perSecond: 50, perDay: 50_000 },
  business: { perSecond: 200, perDay: 500_000 },
  enterprise: { perSecond: 1_000, perDay: 10_000_000 },
};
const unidentifiedPerSecond = 20;
const secondMs = 1_000;
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

export async function createLimits(app: FastifyInstance, sources: CountSources): Promise<Limits> {
  const counts = new RequestCounts(sources);
  await app.register(rateLimit, { global: false, store: storeOver(counts) });
  const address = app.createRateLimit({ max: unidentifiedPerSecond, timeWindow: secondMs });
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
    async countAddress(request) {
      const counted = await address(request);
      if (!counted.isAllowed && counted.isExceeded)
        throw exceeded({ max: unidentifiedPerSecond, remaining: 0, resetMs: counted.ttl }, 'second');
    },
  };
}

type StoreAnswer = (error: Error | null, counted?: { current: number; ttl: number }) => void;

/** The plugin's windows are fixed, and twice its limit would fit around a second's edge; it counts by ours, which slide. */
function storeOver(counts: RequestCounts) {
  return class SlidingStore {
    incr(key: string, answer: StoreAnswer, _windowMs: number, max: number): void {
      Promise.resolve(counts.count(key, max, null)).then(
        ({ isLetThrough, usedInSecond, secondMs: ttl }) =>
          answer(null, { current: isLetThrough ? usedInSecond : max + 1, ttl }),
        (error: Error) => answer(error),
      );
    }

    child(): SlidingStore {
      return this;
    }
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
