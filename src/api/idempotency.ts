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

/** Requests with a key that have begun to arrive and are not answered yet: the first of each key alone is carried out. */
export class KeysInFlight {
  private readonly first = new Map<string, FastifyRequest>();

  /** Of a request whose head has come; until its connection or its answer ends. */
  note(request: FastifyRequest, reply: FastifyReply): void {
    const name = nameOf(request);
    if (name === null || this.first.has(name)) return;
    this.first.set(name, request);
    const over = (): void => {
      if (this.first.get(name) === request) this.first.delete(name);
    };
    reply.raw.once('finish', over).once('close', over);
  }

  /** Throws 409 while the first request with the same key is under way. */
  requireFirst(request: FastifyRequest): void {
    const name = nameOf(request);
    const first = name === null ? undefined : this.first.get(name);
    if (first !== undefined && first !== request)
      throw new ApiError('IDEMPOTENCY_IN_PROGRESS', undefined, undefined, { 'retry-after': '1' });
  }
}

function nameOf({ caller, headers, url }: FastifyRequest): string | null {
  const key = headers['idempotency-key'];
  return caller === null || key === undefined
    ? null
    : JSON.stringify([caller.scope.organizationId, caller.mode, url, key]);
}

/**
 * Carries out a creating request once per key, whatever number of times it is sent: the record and the kept answer are one transaction, so
 * neither exists without the other. What is refused is not kept: it has changed nothing, and may be sent again.
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
