import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Transaction } from '../../store/database/database.js';
import type { Store } from '../../store/store.js';
import type { AskedBy } from '../../store/tenants/idempotency.js';
import type { Caller } from '../auth/caller.js';
import { ApiError, invalid } from '../errors.js';

/** The value of the header; undefined if absent. Throws 400 if invalid. */
export function idempotencyKey(request: FastifyRequest): string | undefined {
  const key = request.headers['idempotency-key'];
  if (key === undefined || (typeof key === 'string' && /^[\x21-\x7e]{1,255}$/.test(key))) return key;
  throw invalid({ path: 'idempotency-key', message: 'must be 1 to 255 visible ASCII characters' });
}

/** Requests with a key that are not answered yet; of those with the same caller and key, only the first is executed. */
export class KeysInFlight {
  private readonly first = new Map<string, FastifyRequest>();

  /** Registers a request whose headers were received, until its connection or response ends. */
  note(request: FastifyRequest, reply: FastifyReply): void {
    const name = nameOf(request);
    if (name === null || this.first.has(name)) return;
    this.first.set(name, request);
    const over = (): void => {
      if (this.first.get(name) === request) this.first.delete(name);
    };
    reply.raw.once('finish', over).once('close', over);
  }

  /** Throws 409 while the first request with the same key is in progress. */
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
 * The scope of a key: different callers never share a stored response, even with the same organization, path and key. The path is that of the
 * route with its ids, so that the query, the case of an id and percent-encoding make no difference.
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
  /** The status of the response. */
  status: number;
  /** Fields of the response that are shown once and never stored. */
  shownOnce: readonly string[];
  reply: FastifyReply;
}

/**
 * Executes a creating request once per key, however often it is sent: the record and the stored response are written in one transaction.
 * Errors are not stored: they changed nothing, and the request may be retried. A secret is in the response to the first request only; later
 * responses contain the same record without that field.
 */
export async function createOnce(
  store: Store,
  request: CreatingRequest,
  carryOut: (within: Transaction) => unknown,
): Promise<string> {
  const { by, key, reply, status, shownOnce } = request;
  const asked = canonical(request.body);
  await store.calls.flush(); // within the transaction nothing else is waited for
  return store.transaction(async (transaction) => {
    const kept = await store.idempotency.find(transaction, by, key, asked);
    if (kept === 'reused') throw new ApiError('IDEMPOTENCY_KEY_REUSED');
    if (kept) {
      reply.headers({ ...kept.headers, 'idempotent-replayed': 'true' });
      return kept.body;
    }
    const result = await carryOut(transaction);
    const location = reply.getHeader('location');
    const headers: Record<string, string> = typeof location === 'string' ? { location } : {};
    const body = JSON.stringify(result, (name, value: unknown) => (shownOnce.includes(name) ? undefined : value));
    await store.idempotency.keep(transaction, by, key, asked, { status, body, headers });
    return shownOnce.length === 0 ? body : JSON.stringify(result);
  });
}

/** A canonical text of the JSON value, independent of the order of its fields. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_name, part: unknown) =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}
