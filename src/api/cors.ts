/** Cross-origin requests of browsers (Fetch Standard, section 3.3, "CORS protocol"), for the origins of the setting `cors_origins`. */
import type { FastifyInstance } from 'fastify';

/** The API and its description; not the dashboard, its sign-in, metrics, or the paths of Twilio's API, whose clients are no browsers. */
const shared = /^\/(v1\/|api\/v1\/|openapi\.json$)/;

/** A browser lets a page send these, and read those, only if they are listed. `*` would not include `authorization`. */
const sent = ['authorization', 'content-type', 'idempotency-key', 'last-event-id', 'x-api-key', 'x-organization-id'];
const read = [
  ...['X-Request-Id', 'X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset', 'RateLimit'],
  ...['RateLimit-Policy', 'Retry-After', 'Idempotent-Replayed', 'Location', 'WWW-Authenticate', 'Content-Disposition'],
];
const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'];
const preflightAgeSec = 600;

/**
 * Must be called before the hooks that authenticate: a preflight request carries no key. Keys travel in headers that a page sets itself, so
 * `Access-Control-Allow-Credentials`, which is about cookies, is never sent.
 */
export function allowOrigins(app: FastifyInstance, origins: readonly string[]): void {
  if (origins.length === 0) return;
  const allowsAll = origins.includes('*');
  const allowed = new Set(origins);
  app.addHook('onRequest', async (request, reply) => {
    if (!shared.test(request.url.split('?', 1)[0] ?? '')) return;
    if (!allowsAll) reply.header('vary', 'Origin');
    const { origin } = request.headers;
    if (origin === undefined || !(allowsAll || allowed.has(origin))) return;
    reply.header('access-control-allow-origin', allowsAll ? '*' : origin);
    if (request.method !== 'OPTIONS' || request.headers['access-control-request-method'] === undefined) {
      reply.header('access-control-expose-headers', read.join(', '));
      return;
    }
    return reply
      .code(204)
      .headers({
        'access-control-allow-methods': methods.join(', '),
        'access-control-allow-headers': sent.join(', '),
        'access-control-max-age': String(preflightAgeSec),
        'x-request-id': request.id,
      })
      .send();
  });
}
