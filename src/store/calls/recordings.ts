import { timingSafeEqual } from 'node:crypto';
import type { Database } from '../database/database.js';
import type { RecordingRow } from '../database/tables.js';
import type { Scope } from '../tenants/scope.js';

/** A recording of a webhook action. */
export interface StoredRecording {
  id: string;
  callId: string;
  /** A `file:` URL. */
  file: string;
  durationMs: number;
  bytes: number;
  createdAt: Date;
}

/** Records of recordings of webhook actions, without their files. */
export class RecordingRecords {
  constructor(
    private readonly database: Database,
    /** Brings the record of the call to disk, to which that of a recording refers. */
    private readonly written: (callId: string) => Promise<unknown>,
  ) {}

  /** `token` grants access to the recording. */
  async add(recording: StoredRecording & { token: string }): Promise<void> {
    const row: RecordingRow = {
      id: recording.id,
      call_id: recording.callId,
      token: recording.token,
      file: recording.file,
      duration_ms: recording.durationMs,
      bytes: recording.bytes,
      created_at: recording.createdAt.getTime(),
    };
    await this.written(recording.callId);
    await this.database.run(this.database.sql.insertInto('recordings').values(row));
  }

  /** The token replaces the scope: only the receiver of the URL knows it. */
  async find(id: string, token: string): Promise<StoredRecording | undefined> {
    const row = await this.database.get(this.database.sql.selectFrom('recordings').selectAll().where('id', '=', id));
    if (!row || !same(row.token, token)) return undefined;
    return recordingOf(row);
  }

  async ofCall(scope: Scope, callId: string): Promise<StoredRecording[]> {
    const query = this.database.sql
      .selectFrom('recordings')
      .innerJoin('calls', 'calls.id', 'recordings.call_id')
      .selectAll('recordings')
      .where('calls.id', '=', callId)
      .where('calls.organization_id', '=', scope.organizationId)
      .where('calls.mode', '=', scope.mode)
      .orderBy('recordings.id');
    return (await this.database.all(query)).map(recordingOf);
  }
}

function recordingOf(row: RecordingRow): StoredRecording {
  return {
    id: row.id,
    callId: row.call_id,
    file: row.file,
    durationMs: row.duration_ms,
    bytes: row.bytes,
    createdAt: new Date(row.created_at),
  };
}

function same(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}
