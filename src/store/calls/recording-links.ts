import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Database } from '../database/database.js';

const secretName = 'recording links';

/** Signed links that open the recording of one call until a given time without an API key; given to readers of the call. */
export class RecordingLinks {
  private secret: Buffer | null = null;

  constructor(private readonly database: Database) {}

  /** `expires`: Unix seconds. */
  sign(callId: string, expires: number): string {
    return this.signature(callId, expires).toString('base64url');
  }

  /** The location of the recording of a link; undefined if the link is invalid or expired, or the recording no longer exists. */
  open(callId: string, link: { expires: number; signature: string }, nowMs: number): string | undefined {
    const given = Buffer.from(link.signature, 'base64url');
    const right = this.signature(callId, link.expires);
    if (given.length !== right.length || !timingSafeEqual(given, right) || link.expires * 1000 <= nowMs)
      return undefined;
    const row = this.database.get(
      this.database.sql.selectFrom('calls').select('recording_url').where('id', '=', callId),
    );
    return row?.recording_url ?? undefined;
  }

  private signature(callId: string, expires: number): Buffer {
    this.secret ??= this.known();
    return createHmac('sha256', this.secret).update(`${callId} ${expires}`).digest();
  }

  /** The secret is the same for all processes of this database, and after a restart. */
  private known(): Buffer {
    const { sql } = this.database;
    const find = sql.selectFrom('installation_secrets').select('secret').where('name', '=', secretName);
    const found = this.database.get(find);
    if (found) return Buffer.from(found.secret, 'hex');
    return this.database.transaction(() => {
      const secret = randomBytes(32).toString('hex');
      const values = { name: secretName, secret };
      this.database.run(
        sql
          .insertInto('installation_secrets')
          .values(values)
          .onConflict((c) => c.doNothing()),
      );
      return Buffer.from(this.database.get(find)?.secret ?? secret, 'hex');
    });
  }
}
