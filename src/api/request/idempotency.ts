import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Store } from '../../store/store.js';
import type { AskedBy } from '../../store/tenants/idempotency.js';
import type { Caller } from '../auth/caller.js';
import { ApiError, invalid } from '../errors.js';

/** The header's value; undefined when it is absent. Throws 400 when it is no good. */
export function idempotencyKey(request: FastifyRequest): string | undefined {
  const key = request.headers['idempotency-key'];
  if (key === undefined || (typeof key === 'string' && /^[\x21-\x7e]{1,255}$/.test(key))) return key;
  throw invalid({ path: 'idempotency-key', message: 'must be 1 to 255 visible ASCII characters' });
}

/** Requests with a key that have begun to arrive and are not answered yet: of each caller's key the first alone is carried out. */
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

function nameOf({ caller, headers, params, routeOptions }: FastifyRequest): string | null {
  const key = headers['idempotency-key'];
  if (caller === null || key === undefined) return null;
  const { caller: name, organizationId, operation } = askedBy(caller, routeOptions.url ?? '', params);
  return JSON.stringify([name, organizationId, operation, key]);
}

/**
 * Whose request this is and for what: two callers never share a kept answer, whatever organization, path and key they have in common. The path is
 * the route's own with its ids, so that neither a query, nor the case of an id, nor percent-encoding makes it another.
 */
export function askedBy({ key, user, organization }: Caller, path: string, params: unknown): AskedBy {
  const ids = params as Record<string, string>;
  return {
    caller: key ? `key:${key.id}` : `user:${user.id}`,
    organizationId: organization.id,
    operation: path.replace(/:(\w+)/g, (_, name: string) => (ids[name] ?? '').toLowerCase()),
  };
}

/** A creating request with an `Idempotency-Key`. */
export interface CreatingRequest {
  by: AskedBy;
  key: string;
  body: unknown;
  /** Of the answer. */
  status: number;
  /** Fields of the answer that are shown once: they are never kept. */
  shownOnce: readonly string[];
  reply: FastifyReply;
}

/**
 * Carries out a creating request once per key, whatever number of times it is sent: the record and the kept answer are one transaction, so
 * neither exists without the other. What is refused is not kept: it has changed nothing, and may be sent again. A secret in the answer goes to
 * the first request alone; the answers after it have the same record without that field.
 */
export function createOnce(store: Store, request: CreatingRequest, carryOut: () => unknown): string {
  const { by, key, reply, status, shownOnce } = request;
  const asked = canonical(request.body);
  return store.transaction(() => {
    const kept = store.idempotency.find(by, key, asked);
    if (kept === 'reused') throw new ApiError('IDEMPOTENCY_KEY_REUSED');
    if (kept) {
      reply.headers({ ...kept.headers, 'idempotent-replayed': 'true' });
      return kept.body;
    }
    const result = carryOut();
    if (result instanceof Promise) throw new Error('a creating operation must not wait within its transaction');
    const location = reply.getHeader('location');
    const headers: Record<string, string> = typeof location === 'string' ? { location } : {};
    const body = JSON.stringify(result, (name, value: unknown) => (shownOnce.includes(name) ? undefined : value));
    store.idempotency.keep(by, key, asked, { status, body, headers });
    return shownOnce.length === 0 ? body : JSON.stringify(result);
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
