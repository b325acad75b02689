import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto';
import type { Clock } from './clock.js';
import type { Database } from './database.js';
import type { Scope } from './scope.js';

/** What a request was answered, to be answered again. */
export interface KeptAnswer {
  status: number;
  /** JSON. */
  body: string;
  headers: Record<string, string>;
}

const keptMs = 86_400_000;
const sweptAtOnce = 100;

/**
 * Answers of creating requests, under the key the client gave each, for 24 hours. An answer may hold a secret that is shown once, so it
 * is encrypted with the client's key, of which only a hash is kept.
 */
export class Idempotency {
  constructor(
    private readonly database: Database,
    private readonly clock: Clock,
  ) {}

  /** The answer kept under this key; 'reused' when it was given for another body; undefined: the key is new. */
  find(scope: Scope, operation: string, key: string, body: string): KeptAnswer | 'reused' | undefined {
    const row = this.database.get(
      this.database.sql
        .selectFrom('idempotency_keys')
        .selectAll()
        .where('organization_id', '=', scope.organizationId)
        .where('mode', '=', scope.mode)
        .where('operation', '=', operation)
        .where('key', '=', sha256(key))
        .where('created_at', '>', this.clock.now() - keptMs),
    );
    if (!row) return undefined;
    if (row.body_hash !== sha256(body)) return 'reused';
    return { status: row.status, ...(JSON.parse(decrypt(row.answer, key)) as Omit<KeptAnswer, 'status'>) };
  }

  /** In the transaction of what the answer is about. */
  keep(scope: Scope, operation: string, key: string, body: string, answer: KeptAnswer): void {
    const { status, ...rest } = answer;
    const now = this.clock.now();
    this.database
      .prepare(
        'delete from idempotency_keys where (organization_id, mode, operation, key) in (select organization_id, mode, operation, key from idempotency_keys where created_at <= ? limit ?)',
      )
      .run(now - keptMs, sweptAtOnce);
    this.database.run(
      this.database.sql.replaceInto('idempotency_keys').values({
        organization_id: scope.organizationId,
        mode: scope.mode,
        operation,
        key: sha256(key),
        body_hash: sha256(body),
        status,
        answer: encrypt(JSON.stringify(rest), key),
        created_at: now,
      }),
    );
  }
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

const ivBytes = 12;
const tagBytes = 16;

function secretOf(key: string): Buffer {
  return Buffer.from(hkdfSync('sha256', key, '', 'trunkline idempotency', 32));
}

function encrypt(text: string, key: string): string {
  const iv = randomBytes(ivBytes);
  const cipher = createCipheriv('aes-256-gcm', secretOf(key), iv);
  const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
  return Buffer.concat([iv, cipher.getAuthTag(), sealed]).toString('base64');
}

function decrypt(sealed: string, key: string): string {
  const bytes = Buffer.from(sealed, 'base64');
  const cipher = createDecipheriv('aes-256-gcm', secretOf(key), bytes.subarray(0, ivBytes));
  cipher.setAuthTag(bytes.subarray(ivBytes, ivBytes + tagBytes));
  return Buffer.concat([cipher.update(bytes.subarray(ivBytes + tagBytes)), cipher.final()]).toString('utf8');
}
