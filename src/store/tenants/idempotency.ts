import { createHash, createHmac } from 'node:crypto';
import type { Clock } from '../database/clock.js';
import type { Reads, Transaction } from '../database/database.js';

/** A stored response, to be sent again. It never contains a secret. */
export interface KeptAnswer {
  status: number;
  /** JSON. */
  body: string;
  headers: Record<string, string>;
}

/** The scope of a stored response: the caller and the operation. */
export interface AskedBy {
  /** An API key, or the user of a token. */
  caller: string;
  organizationId: string;
  /** The path with its ids. */
  operation: string;
}

const keptMs = 86_400_000;
const sweptAtOnce = 100;
const forget = 'delete from idempotency_keys where caller = ? and organization_id = ? and operation = ? and key = ?';

/**
 * Answers of creating requests, under the key that each client gave, for 24 hours. Of the client's key only a hash is kept, and of the body a hash
 * made with that key: a body may hold a password, which a plain hash would let be guessed.
 */
export class Idempotency {
  constructor(private readonly clock: Clock) {}

  /** The answer kept under this key; 'reused' when it was given for another body; undefined: the key is new. */
  async find(reads: Reads, by: AskedBy, key: string, body: string): Promise<KeptAnswer | 'reused' | undefined> {
    const row = await reads.get(
      reads.sql
        .selectFrom('idempotency_keys')
        .selectAll()
        .where('caller', '=', by.caller)
        .where('organization_id', '=', by.organizationId)
        .where('operation', '=', by.operation)
        .where('key', '=', sha256(key))
        .where('created_at', '>', this.clock.now() - keptMs),
    );
    if (!row) return undefined;
    if (row.body_hash !== keyedHash(key, body)) return 'reused';
    return { status: row.status, ...(JSON.parse(row.answer) as Omit<KeptAnswer, 'status'>) };
  }

  /** In the transaction of what the answer is about. */
  async keep(transaction: Transaction, by: AskedBy, key: string, body: string, answer: KeptAnswer): Promise<void> {
    const { status, ...rest } = answer;
    const now = this.clock.now();
    await transaction.write(
      'delete from idempotency_keys where (caller, organization_id, operation, key) in (select caller, organization_id, operation, key from idempotency_keys where created_at <= ? limit ?)',
      ...[now - keptMs, sweptAtOnce],
    );
    await transaction.write(forget, by.caller, by.organizationId, by.operation, sha256(key));
    await transaction.run(
      transaction.sql.insertInto('idempotency_keys').values({
        caller: by.caller,
        organization_id: by.organizationId,
        operation: by.operation,
        key: sha256(key),
        body_hash: keyedHash(key, body),
        status,
        answer: JSON.stringify(rest),
        created_at: now,
      }),
    );
  }
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

function keyedHash(key: string, text: string): string {
  return createHmac('sha256', key).update(text).digest('hex');
}
