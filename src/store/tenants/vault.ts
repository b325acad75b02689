/** Secrets at rest: with a key, the columns that hold secrets are AES-256-GCM in the file and clear in memory; without one, nothing changes. */
import { createCipheriv, createDecipheriv, randomBytes, scryptSync } from 'node:crypto';
import type { Database } from '../database/database.js';
import { StoreError } from '../database/errors.js';
import type { EndpointRow, TrunkRow } from '../database/tables.js';

interface Sealed {
  endpoints: Pick<EndpointRow, 'provider_config' | 'webhook_secret' | 'previous_secret'>;
  trunks: Pick<TrunkRow, 'password' | 'tls_key'>;
}

const columns: { [T in keyof Sealed]: readonly (keyof Sealed[T] & string)[] } = {
  endpoints: ['provider_config', 'webhook_secret', 'previous_secret'],
  trunks: ['password', 'tls_key'],
};

/** In front of what is sealed: neither JSON nor a secret of ours begins like this. */
const prefix = 'sealed:1:';
const ivBytes = 12;
const tagBytes = 16;

export class Vault {
  readonly #key: Buffer | null;

  /** `key`: the setting, any text; null keeps secrets in clear. */
  constructor(key: string | null) {
    // The salt is fixed: the key is the only secret, and several processes share one file.
    this.#key = key === null ? null : scryptSync(key, 'trunkline secrets at rest', 32);
  }

  /** A copy for the file. */
  seal<T extends keyof Sealed, R extends Partial<Sealed[T]>>(table: T, row: R): R {
    return this.#map(table, row, (text) => this.#sealText(text));
  }

  /** A copy with everything in clear. Throws `StoreError` `secrets_key`. */
  open<T extends keyof Sealed, R extends Partial<Sealed[T]>>(table: T, row: R): R {
    return this.#map(table, row, (text) => this.#openText(text));
  }

  /** At the start: every secret can be read, and with a key none is left in clear. Throws `StoreError` `secrets_key`. */
  async protect(database: Database): Promise<void> {
    await database.transaction(async (transaction) => {
      for (const row of await transaction.all(transaction.sql.selectFrom('endpoints').selectAll())) {
        const sealed = this.seal('endpoints', this.open('endpoints', row));
        if (columns.endpoints.every((name) => row[name] === null || row[name].startsWith(prefix))) continue;
        const { provider_config, webhook_secret, previous_secret } = sealed;
        const set = { provider_config, webhook_secret, previous_secret };
        if (this.#key !== null)
          await transaction.run(transaction.sql.updateTable('endpoints').set(set).where('id', '=', row.id));
      }
      for (const row of await transaction.all(transaction.sql.selectFrom('trunks').selectAll())) {
        const { password, tls_key } = this.seal('trunks', this.open('trunks', row));
        if (columns.trunks.every((name) => row[name] === null || row[name].startsWith(prefix))) continue;
        const set = { password, tls_key };
        if (this.#key !== null)
          await transaction.run(transaction.sql.updateTable('trunks').set(set).where('id', '=', row.id));
      }
    });
  }

  #map<T extends keyof Sealed, R extends Partial<Sealed[T]>>(table: T, row: R, change: (text: string) => string): R {
    const copy: Record<string, unknown> = { ...row };
    for (const name of columns[table]) {
      const value = copy[name];
      if (typeof value === 'string') copy[name] = change(value);
    }
    return copy as R;
  }

  #sealText(text: string): string {
    if (this.#key === null) return text;
    const iv = randomBytes(ivBytes);
    const cipher = createCipheriv('aes-256-gcm', this.#key, iv);
    const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
    return prefix + Buffer.concat([iv, cipher.getAuthTag(), sealed]).toString('base64');
  }

  #openText(text: string): string {
    if (!text.startsWith(prefix)) return text;
    if (this.#key === null)
      throw new StoreError('secrets_key', 'The database holds encrypted secrets: set TRUNKLINE_SECRETS_KEY.');
    const bytes = Buffer.from(text.slice(prefix.length), 'base64');
    try {
      const decipher = createDecipheriv('aes-256-gcm', this.#key, bytes.subarray(0, ivBytes), {
        authTagLength: tagBytes,
      });
      decipher.setAuthTag(bytes.subarray(ivBytes, ivBytes + tagBytes));
      return decipher.update(bytes.subarray(ivBytes + tagBytes), undefined, 'utf8') + decipher.final('utf8');
    } catch {
      throw new StoreError('secrets_key', 'TRUNKLINE_SECRETS_KEY is not the key that the secrets were encrypted with.');
    }
  }
}
