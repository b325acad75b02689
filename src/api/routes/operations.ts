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
  /** The state of each component, such as `sip`, `media`, `database`; `accepting` is false while the process drains. */
  checks: Record<string, boolean>;
  /** The problems, one sentence each. */
  problems: readonly string[];
  /** Problems that impair the service without stopping it, one sentence each. */
  degraded: string[];
}

export interface OperationRoutesOptions {
  ready: () => Readiness | Promise<Readiness>;
  metrics: Registry;
  /** The bearer token that lets peers other than loopback read the metrics. */
  metricsToken?: string;
  /** The addresses and networks of proxies whose `X-Forwarded-For` is trusted. */
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
      summary: 'Check liveness',
      description: 'Answers 200 while the process is running.',
      access: 'public',
      unlimited: true,
      answer: {
        status: 200,
        description: 'The process is running.',
        schema: Type.Object({ status: Type.Literal('ok') }),
      },
      handle: () => ({ status: 'ok' }),
    }),
    route({
      method: 'GET',
      path: '/readyz',
      operationId: 'getReadiness',
      tag,
      summary: 'Check readiness',
      description:
        'Answers 200 while SIP responds, the media threads run, the database file is in place and writable, and the process is not draining; otherwise 503 with the same body. The loss of Redis is reported in `degraded` and does not cause 503.',
      access: 'public',
      unlimited: true,
      answer: {
        status: 200,
        description: 'The service is ready.',
        schema: Type.Object({
          ready: Type.Boolean({ description: 'Whether the service is ready.' }),
          checks: Type.Record(Type.String(), Type.Boolean(), {
            description:
              'The state of each component: `sip`, `media`, `database`, and `accepting`, which is false while the process drains.',
          }),
          problems: Type.Array(Type.String(), {
            description: 'The problems, one sentence each, such as an external SIP server that is not connected.',
          }),
          degraded: Type.Array(Type.String(), {
            description: 'Problems that impair the service without stopping it, one sentence each.',
          }),
        }),
      },
      alsoAnswers: { 503: 'The service is not ready; the body states the problems.' },
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
      summary: 'Get metrics for Prometheus',
      description:
        'Metrics in the Prometheus text format, for loopback peers and for requests with the metrics token as bearer token.',
      access: 'public',
      unlimited: true,
      answer: {
        status: 200,
        description: 'The metrics.',
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

/** Whether the request is from this machine. A forwarded request is not local unless its proxy is declared: behind an undeclared one every peer seems local. */
function isLocal({ ip, headers }: FastifyRequest, trustsProxies: boolean): boolean {
  const forwarded = headers['x-forwarded-for'] ?? headers.forwarded;
  if (forwarded !== undefined && !trustsProxies) return false;
  return ipaddr.isValid(ip) && ipaddr.process(ip).range() === 'loopback';
}

/** Compares in constant time, for texts of any length. */
function same(a: string, b: string): boolean {
  const hash = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(hash(a), hash(b));
}
