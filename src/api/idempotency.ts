import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Store } from '../store/store.js';
import type { Caller } from './caller.js';
import { ApiError, invalid } from './errors.js';

/** The header's value; undefined when it is absent. Throws 400 when it is no good. */
export function idempotencyKey(request: FastifyRequest): string | undefined {
  const key = request.headers['idempotency-key'];
  if (key === undefined || (typeof key === 'string' && /^[\x21-\x7e]{1,255}$/.test(key))) return key;
  throw invalid({ path: 'idempotency-key', message: 'must be 1 to 255 visible ASCII characters' });
}

/**
 * Carries out a creating request once per key, whatever number of times it is sent: the record and the kept answer are one transaction, so
 * neither exists without the other, and a request that comes at the same time waits for it and gets its answer. What is refused is not
 * kept: it has changed nothing, and may be sent again.
 */
export function createOnce(
  store: Store,
  of: { caller: Caller; operation: string; key: string; body: unknown; status: number; reply: FastifyReply },
  carryOut: () => unknown,
): string {
  const { caller, operation, key, reply, status } = of;
  const asked = canonical(of.body);
  return store.transaction(() => {
    const kept = store.idempotency.find(caller.scope, operation, key, asked);
    if (kept === 'reused') throw new ApiError('IDEMPOTENCY_KEY_REUSED');
    if (kept) {
      reply.headers({ ...kept.headers, 'idempotent-replayed': 'true' });
      return kept.body;
    }
    const result = carryOut();
    if (result instanceof Promise) throw new Error('a creating operation must not wait within its transaction');
    const body = JSON.stringify(result);
    const location = reply.getHeader('location');
    const headers: Record<string, string> = typeof location === 'string' ? { location } : {};
    store.idempotency.keep(caller.scope, operation, key, asked, { status, body, headers });
    return body;
  });
}

/** The same text for the same JSON, in whatever order its fields come. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_name, part: unknown) =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}
