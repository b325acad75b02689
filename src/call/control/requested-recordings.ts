/** Recordings of a running call that the API began, each with a file of its own. */
import type { SafeHttp } from '../../../net/http.js';
import type { EndpointForCall } from '../../store/routing/endpoints.js';
import type { StatusCallback } from '../../webhook/actions.js';
import type { CallbackQueue } from '../../webhook/callback-queue.js';
import { recordingStatusFields } from '../../webhook/request-bodies.js';
import { Webhook } from '../../webhook/webhook-client.js';
import type { Call } from '../core/call.js';
import type { CallCommand, CommandResult, RecordingStatus } from '../core/command.js';
import type { CallParty } from '../party/party.js';
import type { PartialRecording, PartialRecordings } from '../recording/recordings.js';

interface Running {
  take: PartialRecording;
  status: RecordingStatus;
}

export interface RequestedRecordingsDeps {
  takes: PartialRecordings;
  http: SafeHttp;
  callbacks: CallbackQueue;
  getEndpoint(id: string): EndpointForCall | undefined;
}

export class RequestedRecordings {
  /** Oldest first, by the id of the recording. */
  readonly #running = new WeakMap<Call, Map<string, Running>>();

  constructor(private readonly deps: RequestedRecordingsDeps) {}

  /** null: another command. */
  command(command: CallCommand, party: CallParty): CommandResult | null {
    if (command.kind === 'begin_recording') return this.#begin(command, party);
    if (command.kind === 'change_recording') return this.#change(command, party.call);
    return null;
  }

  #begin(
    { id, tracks, status, endpointId }: CallCommand & { kind: 'begin_recording' },
    party: CallParty,
  ): CommandResult {
    const { call, session } = party;
    const { takes } = this.deps;
    let take: PartialRecording;
    try {
      take = takes.begin(call, session, 'api', { ...(tracks === 'phone' && { tracks }) }, id);
    } catch (error) {
      return { ok: false, code: 'failed', message: (error as Error).message };
    }
    const running = this.#running.get(call) ?? new Map<string, Running>();
    this.#running.set(call, running.set(id, { take, status: 'in-progress' }));
    const endpoint = endpointId === null ? undefined : this.deps.getEndpoint(endpointId);
    const report = (step: 'in-progress' | 'completed' | 'absent', recording: PartialRecording['begun']) => {
      if (endpoint === undefined) return;
      this.#report(endpoint, party, status, step, recordingStatusFields(step, recording, 'StartCallRecordingAPI'));
    };
    report('in-progress', take.begun);
    void take.made.then((made) => {
      running.delete(id);
      report(made.durationMs === 0 ? 'absent' : 'completed', made);
    });
    return { ok: true };
  }

  #change({ id, to }: CallCommand & { kind: 'change_recording' }, call: Call): CommandResult {
    const found = this.#running.get(call)?.get(id);
    if (found === undefined) return { ok: false, code: 'failed', message: 'There is no such running recording.' };
    if (to === 'stopped') found.take.stop();
    else if (to !== found.status) {
      found.take.pause(to === 'paused');
      const name = to === 'paused' ? 'recording.paused' : 'recording.resumed';
      call.event(name, { recording_id: found.take.begun.id });
    }
    found.status = to;
    return { ok: true };
  }

  #report(
    endpoint: EndpointForCall,
    { facts, leg, call }: CallParty,
    callback: StatusCallback | null,
    step: string,
    fields: { [name: string]: string },
  ): void {
    if (!callback?.events.includes(step)) return;
    const webhook = new Webhook(endpoint, this.deps.http, call.cookies);
    const state = { ...facts, answered: leg !== null, ended: call.ending !== null };
    this.deps.callbacks.send(call.id, webhook.form(callback.to, state, fields));
  }
}
