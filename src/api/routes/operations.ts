import { createHash, timingSafeEqual } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import ipaddr from 'ipaddr.js';
import type { Registry } from 'prom-client';
import { ApiError } from '../errors.js';
import { type Route, route } from '../route.js';
import { Type } from '../schemas/types.js';

/** Whether the process can take new calls. */
export interface Readiness {
  ready: boolean;
  /** Each part by name, such as `sip`, `media`, `database`; `accepting` is false while the process drains. */
  checks: Record<string, boolean>;
  /** What is wrong, a sentence each. */
  problems: readonly string[];
  /** What works less well without stopping the service, a sentence each. */
  degraded: string[];
}

export interface OperationRoutesOptions {
  ready: () => Readiness | Promise<Readiness>;
  metrics: Registry;
  /** Lets others than loopback peers read the metrics, as a bearer token. */
  metricsToken?: string;
  /** Whose `X-Forwarded-For` counts: addresses and networks. */
  trustedProxies?: string[];
}

const tag = 'Operation';

export function operationRoutes({ ready, metrics, metricsToken, trustedProxies }: OperationRoutesOptions): Route[] {
  const trustsProxies = (trustedProxies?.length ?? 0) > 0;
  return [
    route({
      method: 'GET',
      path: '/healthz',
      operationId: 'getHealth',
      tag,
      summary: 'Does the process live',
      description: '200 while the process answers at all.',
      access: 'public',
      unlimited: true,
      answer: { status: 200, description: 'It lives.', schema: Type.Object({ status: Type.Literal('ok') }) },
      handle: () => ({ status: 'ok' }),
    }),
    route({
      method: 'GET',
      path: '/readyz',
      operationId: 'getReadiness',
      tag,
      summary: 'Does the service work',
      description:
        '200 while SIP answers, media threads are up, the database file is in its place and writes, and the process is not draining; 503 otherwise, with the same body. The loss of Redis is told in `degraded` and is no 503.',
      access: 'public',
      unlimited: true,
      answer: {
        status: 200,
        description: 'Everything works.',
        schema: Type.Object({
          ready: Type.Boolean({ description: 'Whether everything works.' }),
          checks: Type.Record(Type.String(), Type.Boolean(), {
            description:
              'Each part by name: `sip`, `media`, `database`, and `accepting`, which is false while it drains.',
          }),
          problems: Type.Array(Type.String(), {
            description: 'What is wrong, one sentence each: an external SIP server that is waited for.',
          }),
          degraded: Type.Array(Type.String(), {
            description: 'What works less well without stopping the service, a sentence each.',
          }),
        }),
      },
      alsoAnswers: { 503: 'Something does not work: the body says what.' },
      handle: async ({ reply }) => {
        const readiness = await ready();
        if (readiness.ready) return readiness;
        return reply.code(503).send(readiness);
      },
    }),
    route({
      method: 'GET',
      path: '/metrics',
      operationId: 'getMetrics',
      tag,
      summary: 'Figures for Prometheus',
      description: 'Prometheus text. For loopback peers, and for others with the metrics token as bearer token.',
      access: 'public',
      unlimited: true,
      answer: {
        status: 200,
        description: 'The figures.',
        schema: Type.String(),
        contentType: 'text/plain',
      },
      errors: ['UNAUTHORIZED'],
      handle: async ({ request, reply }) => {
        const bearer = /^Bearer +(\S+)$/i.exec(request.headers.authorization ?? '')?.[1];
        if (!isLocal(request, trustsProxies) && !(metricsToken && bearer && same(bearer, metricsToken))) {
          throw new ApiError('UNAUTHORIZED', 'The metrics token is required');
        }
        reply.type(metrics.contentType);
        return metrics.metrics();
      },
    }),
  ];
}

/** From this machine. Behind a proxy that is not declared everybody seems to be: then what it forwards is not taken for local. */
function isLocal({ ip, headers }: FastifyRequest, trustsProxies: boolean): boolean {
  const forwarded = headers['x-forwarded-for'] ?? headers.forwarded;
  if (forwarded !== undefined && !trustsProxies) return false;
  return ipaddr.isValid(ip) && ipaddr.process(ip).range() === 'loopback';
}

/** In constant time, whatever the lengths. */
function same(a: string, b: string): boolean {
  const hash = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(hash(a), hash(b));
}
