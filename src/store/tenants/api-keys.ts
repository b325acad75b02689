import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { uuidv7 } from 'uuidv7';
import type { Clock } from '../database/clock.js';
import type { Database, Transaction } from '../database/database.js';
import type { ApiKeyRow } from '../database/tables.js';
import type { Mode, Page, Slice } from './scope.js';

export interface ApiKey {
  id: string;
  userId: string;
  organizationId: string | null;
  mode: Mode;
  name: string;
  /** The visible beginning. */
  prefix: string;
  createdAt: Date;
  lastUsedAt: Date | null;
}

/** The visible keys: those limited to the organization, and the user's own unlimited keys. */
export interface KeyScope {
  organizationId: string;
  userId: string;
  /** A test key sees test keys only; a live key sees all. */
  mode: Mode;
}

const bodyLength = 32;
const visibleBodyLength = 6;
const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** `last_used_at` need not be exact, and a write per request would be dear. */
const lastUsedStepMs = 60_000;

export const apiKeyPattern = /^trunkline_(live|test)_[0-9A-Za-z]{32}$/;

/** A new key: `trunkline_live_` or `trunkline_test_` and 32 base62 characters (190 bits). */
export function makeApiKey(mode: Mode): string {
  let body = '';
  while (body.length < bodyLength) {
    for (const byte of randomBytes(bodyLength)) {
      if (byte < 248 && body.length < bodyLength) body += alphabet[byte % 62]; // 248 = 4 × 62: no letter is likelier
    }
  }
  return `trunkline_${mode}_${body}`;
}

/** API keys. Only their SHA-256 is kept: of a random key that is as good as a slow hash. */
export class ApiKeys {
  constructor(
    private readonly database: Database,
    private readonly clock: Clock,
  ) {}

  /** Creates a key, or installs `key`. Only the return value contains the key itself. */
  async create(
    of: { userId: string; organizationId: string | null; mode: Mode; name: string; key?: string },
    within?: Transaction,
  ): Promise<{ record: ApiKey; key: string }> {
    const key = of.key ?? makeApiKey(of.mode);
    const row: ApiKeyRow = {
      id: uuidv7(),
      user_id: of.userId,
      organization_id: of.organizationId,
      mode: of.mode,
      name: of.name,
      prefix: key.slice(0, `trunkline_${of.mode}_`.length + visibleBodyLength),
      hash: hashOf(key),
      created_at: this.clock.now(),
      last_used_at: null,
      revoked_at: null,
    };
    await (within ?? this.database).run(this.database.sql.insertInto('api_keys').values(row));
    return { record: toApiKey(row), key };
  }

  /** Called when a key was revoked. */
  onChanged: () => void = () => {};

  /** The record of the key; undefined if it is malformed, unknown or revoked. Updates its last use. */
  async authenticate(key: string): Promise<ApiKey | undefined> {
    const mode = apiKeyPattern.exec(key)?.[1];
    const hash = hashOf(key);
    const row = await this.database.row<ApiKeyRow>(
      'select * from api_keys where hash = ? and revoked_at is null',
      hash,
    );
    if (!row || !mode || row.mode !== mode || !timingSafeEqual(Buffer.from(row.hash), Buffer.from(hash)))
      return undefined;
    this.noteUse(row);
    return toApiKey(row);
  }

  async list(scope: KeyScope, slice: Slice): Promise<Page<ApiKey>> {
    const rows = await this.database.all(
      this.visible(scope)
        .selectAll()
        .orderBy('created_at', 'desc')
        .orderBy('id', 'desc')
        .limit(slice.limit)
        .offset(slice.offset),
    );
    const counted = await this.database.get(this.visible(scope).select((is) => is.fn.countAll<number>().as('total')));
    return { data: rows.map(toApiKey), total: counted?.total ?? 0 };
  }

  /** Revokes the key. False if there is no such key in this scope. */
  async revoke(scope: KeyScope, id: string): Promise<boolean> {
    const revoked = await this.database.transaction(async (transaction) => {
      if (!(await transaction.get(this.visible(scope).select('id').where('id', '=', id)))) return false;
      const query = transaction.sql.updateTable('api_keys').set({ revoked_at: this.clock.now() }).where('id', '=', id);
      const done = (await transaction.run(query)) === 1;
      return done;
    });
    this.onChanged();
    return revoked;
  }

  private visible(scope: KeyScope) {
    return this.database.sql
      .selectFrom('api_keys')
      .where('revoked_at', 'is', null)
      .$if(scope.mode === 'test', (query) => query.where('mode', '=', 'test'))
      .where((is) =>
        is.or([
          is('organization_id', '=', scope.organizationId),
          is.and([is('organization_id', 'is', null), is('user_id', '=', scope.userId)]),
        ]),
      );
  }

  /** Not waited for: a key works also while the database is locked. */
  private noteUse(row: ApiKeyRow): void {
    const now = this.clock.now();
    if (row.last_used_at !== null && Math.abs(now - row.last_used_at) < lastUsedStepMs) return;
    const query = this.database.sql.updateTable('api_keys').set({ last_used_at: now }).where('id', '=', row.id);
    void this.database.run(query).catch(() => {});
  }
}

/** As keys are kept: SHA-256, hex. */
export function hashOf(key: string): string {
  return hash('sha256', key, 'hex');
}

function toApiKey(row: ApiKeyRow): ApiKey {
  return {
    id: row.id,
    userId: row.user_id,
    organizationId: row.organization_id,
    mode: row.mode,
    name: row.name,
    prefix: row.prefix,
    createdAt: new Date(row.created_at),
    lastUsedAt: row.last_used_at === null ? null : new Date(row.last_used_at),
  };
}
