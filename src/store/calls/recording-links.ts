import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Database } from '../database/database.js';
import { installationSecret } from '../database/installation-secret.js';

const secretName = 'recording links';

/** Signed links that open the recording of one call until a given time without an API key; given to readers of the call. */
export class RecordingLinks {
  private constructor(
    private readonly database: Database,
    private readonly secret: Buffer,
  ) {}

  /** The secret is the same for all processes of this database, and after a restart. */
  static async open(database: Database): Promise<RecordingLinks> {
    return new RecordingLinks(database, await installationSecret(database, secretName));
  }

  /** `expires`: Unix seconds. */
  sign(callId: string, expires: number): string {
    return this.signature(callId, expires).toString('base64url');
  }

  /** The location of the recording of a link; undefined if the link is invalid or expired, or the recording no longer exists. */
  async open(callId: string, link: { expires: number; signature: string }, nowMs: number): Promise<string | undefined> {
    const given = Buffer.from(link.signature, 'base64url');
    const right = this.signature(callId, link.expires);
    if (given.length !== right.length || !timingSafeEqual(given, right) || link.expires * 1000 <= nowMs)
      return undefined;
    const row = await this.database.get(
      this.database.sql.selectFrom('calls').select('recording_url').where('id', '=', callId),
    );
    return row?.recording_url ?? undefined;
  }

  private signature(callId: string, expires: number): Buffer {
    return createHmac('sha256', this.secret).update(`${callId} ${expires}`).digest();
  }
}
