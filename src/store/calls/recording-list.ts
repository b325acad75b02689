/** The recordings of an organization: those of whole calls and those of webhook actions. */
import type { Database } from '../database/database.js';
import type { Scope } from '../tenants/scope.js';
import { isOfScope } from './calls-by-id.js';

export interface ListedRecording {
  /** Its own id; of the recording of a whole call, the id of the call. */
  id: string;
  callId: string;
  /** A `file:` URL. */
  file: string;
  durationMs: number;
  /** Of a recording of the whole call, when the call began. */
  createdAt: Date;
  /** The action that recorded; null: the whole call. */
  source: string | null;
}

export interface RecordingFilter {
  id?: string;
  callId?: string;
  /** Of `createdAt`, milliseconds since 1970: from the first, before the second. */
  fromMs?: number;
  beforeMs?: number;
}

/** The last recording of the page before. */
export interface RecordingPlace {
  createdMs: number;
  id: string;
}

interface Found {
  id: string;
  call_id: string;
  file: string;
  created_at: number;
}

export class RecordingList {
  constructor(private readonly database: Database) {}

  /** Newest first. */
  async find(
    scope: Scope,
    filter: RecordingFilter,
    after: RecordingPlace | null,
    limit: number,
  ): Promise<ListedRecording[]> {
    const found = [
      ...(await this.ofActions(scope, filter, after, limit)),
      ...(await this.ofCalls(scope, filter, after, limit)),
    ];
    const newest = found.sort((a, b) => b.created_at - a.created_at || (a.id < b.id ? 1 : -1)).slice(0, limit);
    const facts = await this.facts(newest.map((each) => each.call_id));
    return newest.map((each) => {
      const { source, durationMs } = facts.get(each.id) ?? { source: null, durationMs: 0 };
      return {
        ...{ id: each.id, callId: each.call_id, file: each.file, createdAt: new Date(each.created_at) },
        ...{ source, durationMs },
      };
    });
  }

  /** Forgets a recording; its file stays. False: there is none. */
  async remove(scope: Scope, { id, callId }: ListedRecording): Promise<boolean> {
    const { database } = this;
    const [found] = await this.find(scope, { id, callId }, null, 1);
    if (found === undefined) return false;
    await database.run(
      id === callId
        ? database.sql.updateTable('calls').set({ recording_url: null }).where('id', '=', id)
        : database.sql.deleteFrom('recordings').where('id', '=', id),
    );
    return true;
  }

  private async ofActions(
    scope: Scope,
    { id, callId, fromMs, beforeMs }: RecordingFilter,
    after: RecordingPlace | null,
    limit: number,
  ): Promise<Found[]> {
    let query = this.database.sql
      .selectFrom('recordings')
      .select(['recordings.id', 'recordings.call_id', 'recordings.file', 'recordings.created_at'])
      .where(isOfScope(this.database.sql, scope, 'recordings.call_id'));
    if (id !== undefined) query = query.where('recordings.id', '=', id);
    if (callId !== undefined) query = query.where('recordings.call_id', '=', callId);
    if (fromMs !== undefined) query = query.where('recordings.created_at', '>=', fromMs);
    if (beforeMs !== undefined) query = query.where('recordings.created_at', '<', beforeMs);
    if (after !== null)
      query = query.where((is) =>
        is.or([
          is('recordings.created_at', '<', after.createdMs),
          is.and([is('recordings.created_at', '=', after.createdMs), is('recordings.id', '<', after.id)]),
        ]),
      );
    return this.database.all(
      query.orderBy('recordings.created_at', 'desc').orderBy('recordings.id', 'desc').limit(limit),
    );
  }

  private async ofCalls(
    { organizationId, mode }: Scope,
    { id, callId, fromMs, beforeMs }: RecordingFilter,
    after: RecordingPlace | null,
    limit: number,
  ): Promise<Found[]> {
    let query = this.database.sql
      .selectFrom('calls')
      .select(['id', 'recording_url', 'created_at'])
      .where('organization_id', '=', organizationId)
      .where('mode', '=', mode)
      .where('recording_url', 'is not', null);
    for (const wanted of [id, callId]) if (wanted !== undefined) query = query.where('id', '=', wanted);
    if (fromMs !== undefined) query = query.where('created_at', '>=', fromMs);
    if (beforeMs !== undefined) query = query.where('created_at', '<', beforeMs);
    if (after !== null)
      query = query.where((is) =>
        is.or([
          is('created_at', '<', after.createdMs),
          is.and([is('created_at', '=', after.createdMs), is('id', '<', after.id)]),
        ]),
      );
    const rows = await this.database.all(query.orderBy('created_at', 'desc').orderBy('id', 'desc').limit(limit));
    return rows.map((row) => ({
      ...{ id: row.id, call_id: row.id, file: row.recording_url ?? '', created_at: row.created_at },
    }));
  }

  /** What the events of these calls say of their recordings, by the id of the recording. */
  private async facts(callIds: readonly string[]): Promise<Map<string, { source: string | null; durationMs: number }>> {
    if (callIds.length === 0) return new Map();
    const query = this.database.sql
      .selectFrom('call_events')
      .select(['call_id', 'event_data'])
      .where('call_id', 'in', [...new Set(callIds)])
      .where('event_type', 'in', ['recording.completed', 'recording.failed']);
    const events = await this.database.all(query);
    return new Map(
      events.map(({ call_id: callId, event_data: text }) => {
        const data = JSON.parse(text) as { recording_id?: string; source?: string; duration_ms?: number };
        return [data.recording_id ?? callId, { source: data.source ?? null, durationMs: data.duration_ms ?? 0 }];
      }),
    );
  }
}
