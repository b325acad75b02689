import rateLimit from '@fastify/rate-limit';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Organization } from '../store/organizations.js';
import type { Tier } from '../store/tables.js';
import { ApiError } from './errors.js';
import { type CountSources, WindowCounts, windowStore } from './window-counter.js';

declare module 'fastify' {
  interface FastifyRequest {
    /** The organization that the request is counted against. */
    charged: Organization | null;
  }
}

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
  countOrganization(request: FastifyRequest, reply: FastifyReply, organization: Organization): Promise<void>;
  /** Counts a request without a valid key against its address. Throws 429. */
  countAddress(request: FastifyRequest): Promise<void>;
}

interface Count {
  max: number;
  remaining: number;
  ttlMs: number;
  exceeded: boolean;
}

export async function createLimits(app: FastifyInstance, sources: CountSources): Promise<Limits> {
  await app.register(rateLimit, { global: false, store: windowStore(() => new WindowCounts(sources)) });
  app.decorateRequest('charged', null);
  const charged = (request: FastifyRequest) => request.charged as Organization;
  // A checker and not a handler: the plugin's handlers run once per request, whatever their number.
  const second = app.createRateLimit({
    keyGenerator: (request) => charged(request).id,
    max: (request) => limitsOf(charged(request)).perSecond,
    timeWindow: secondMs,
  });
  // The plugin's checkers are dear, and of the day only the count is needed.
  const days = new WindowCounts(sources);
  const address = app.createRateLimit({ max: unidentifiedPerSecond, timeWindow: secondMs });

  return {
    async countOrganization(request, reply, organization) {
      request.charged = organization;
      const inSecond = count(await second(request));
      // A request that the second refuses is not charged to the day.
      const { current, ttl } = await (inSecond.exceeded ? days.read : days.add).call(days, organization.id, dayMs);
      const { perDay } = limitsOf(organization);
      const inDay = { max: perDay, remaining: Math.max(0, perDay - current), ttlMs: ttl, exceeded: current > perDay };
      const told = !inSecond.exceeded && inDay.exceeded ? inDay : inSecond;
      reply.headers({
        'x-ratelimit-limit': told.max,
        'x-ratelimit-remaining': told.remaining,
        // Windows end at whole seconds; some milliseconds have passed since the count.
        'x-ratelimit-reset': Math.round((Date.now() + told.ttlMs) / 1000),
        'ratelimit-policy': `"second";q=${inSecond.max};w=1, "day";q=${inDay.max};w=86400`,
        ratelimit: `"second";r=${inSecond.remaining};t=${seconds(inSecond)}, "day";r=${inDay.remaining};t=${seconds(inDay)}`,
      });
      if (told.exceeded) throw exceeded(told, told === inDay ? 'day' : 'second');
    },
    async countAddress(request) {
      const counted = count(await address(request));
      if (counted.exceeded) throw exceeded(counted, 'second');
    },
  };
}

function limitsOf({ tier, limits }: Organization): { perSecond: number; perDay: number } {
  return {
    perSecond: limits.requests_per_second ?? tierLimits[tier].perSecond,
    perDay: limits.requests_per_day ?? tierLimits[tier].perDay,
  };
}

function count(result: Awaited<ReturnType<ReturnType<FastifyInstance['createRateLimit']>>>): Count {
  if (result.isAllowed) return { max: 0, remaining: 0, ttlMs: 0, exceeded: false }; // only with an allow list; we have none
  return { max: result.max, remaining: result.remaining, ttlMs: result.ttl, exceeded: result.isExceeded };
}

function exceeded(counted: Count, limitedBy: 'second' | 'day'): ApiError {
  return new ApiError(
    'RATE_LIMIT_EXCEEDED',
    `Too many requests: ${counted.max} per ${limitedBy} are allowed`,
    { limited_by: limitedBy },
    { 'retry-after': String(seconds(counted)) },
  );
}

function seconds(counted: Count): number {
  return Math.max(1, Math.ceil(counted.ttlMs / 1000));
}
