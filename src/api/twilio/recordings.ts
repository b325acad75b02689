/** The API of recordings: begins, pauses and stops them, lists, reads and deletes them, and sends their audio. */
import type { FastifyRequest } from 'fastify';
import { uuidv7 } from 'uuidv7';
import type { CallCommand } from '../../call/core/command.js';
import type { CallDetail } from '../../store/calls/call-records.js';
import type { ListedRecording, RecordingFilter } from '../../store/calls/recording-list.js';
import type { Caller } from '../auth/caller.js';
import { ApiError, notFound } from '../errors.js';
import { Form, refuse } from './form.js';
import { AskedPage, periodOf, queryOf } from './pages.js';
import { callIdOf, presentRecording, recordingIdOf } from './resources.js';
import { callOf, type TwilioAnswer, type TwilioOptions, type TwilioRoute } from './route.js';

type Asked = Parameters<TwilioRoute['handle']>;

export const recordingRoutes: TwilioRoute[] = [
  {
    method: 'GET',
    path: 'Recordings.json',
    handle: async (...asked) => list(asked, queryOf(asked[0]).CallSid),
  },
  {
    method: 'GET',
    path: 'Calls/:call/Recordings.json',
    handle: async (...asked) => list(asked, (asked[0].params as { call: string }).call),
  },
  { method: 'POST', path: 'Calls/:call/Recordings.json', handle: begin },
  { method: 'GET', path: 'Calls/:call/Recordings/:recording', handle: read },
  { method: 'POST', path: 'Calls/:call/Recordings/:recording', handle: change },
  { method: 'DELETE', path: 'Calls/:call/Recordings/:recording', handle: remove },
  { method: 'GET', path: 'Recordings/:recording', handle: read },
  { method: 'DELETE', path: 'Recordings/:recording', handle: remove },
];

/** Twilio's name of the recording that was begun last. */
const current = 'Twilio.CURRENT';

/** Begins a recording of a running call. */
async function begin(request: FastifyRequest, caller: Caller, options: TwilioOptions): TwilioAnswer {
  const form = new Form(request);
  const call = await runningCall(request, caller, options);
  const track = form.word('RecordingTrack', ['both', 'inbound', 'outbound']) ?? 'both';
  if (track === 'outbound') refuse('RecordingTrack', 'must be both or inbound');
  if (form.word('RecordingChannels', ['mono', 'dual']) === 'mono' && track === 'both')
    refuse('RecordingChannels', 'must be dual for both tracks');
  const status = form.statusCallback('RecordingStatusCallback', ['completed'], options.allowPrivateTargets);
  const endpoint =
    call.endpointId === null ? undefined : await options.store.endpoints.get(caller.scope, call.endpointId);
  if (status !== null && endpoint?.type !== 'webhook')
    refuse('RecordingStatusCallback', 'needs a call of a webhook endpoint, whose secret signs it');
  const id = uuidv7();
  const tracks = track === 'inbound' ? 'phone' : 'both';
  await carryOut(options, call, { kind: 'begin_recording', id, tracks, status, endpointId: endpoint?.id ?? null });
  const begun = { id, callId: call.id, durationMs: 0, createdAt: new Date(options.now()), source: 'api' };
  return { status: 201, body: presentRecording(begun, caller.scope.organizationId, 'in-progress') };
}

/** Pauses, resumes or stops it. */
async function change(request: FastifyRequest, caller: Caller, options: TwilioOptions): TwilioAnswer {
  const form = new Form(request);
  const to = form.word('Status', ['in-progress', 'paused', 'stopped']) ?? refuse('Status', 'is required');
  if (form.word('PauseBehavior', ['silence', 'skip']) === 'skip')
    refuse('PauseBehavior', 'must be silence: while it is paused, the recording gets silence');
  const call = await runningCall(request, caller, options);
  const name = nameOf(request).replace(/\.json$/, '');
  const begun = begunBy(call).filter(({ id }) => name === current || id === recordingIdOf(name));
  const recording = begun.at(-1);
  if (recording === undefined) throw notFound('Recording');
  await carryOut(options, call, { kind: 'change_recording', id: recording.id, to });
  return { status: 200, body: presentRecording(recording, caller.scope.organizationId, to) };
}

async function carryOut({ liveCalls }: TwilioOptions, call: CallDetail, command: CallCommand): Promise<void> {
  const result = await liveCalls.command(call.id, command);
  if (result.ok) return;
  if (result.code === 'not_running') throw notFound('Call');
  if (result.code === 'unreachable') throw new ApiError('SERVICE_UNAVAILABLE', result.message);
  throw new ApiError('CALL_COMMAND_FAILED', result.message);
}

async function runningCall(request: FastifyRequest, caller: Caller, options: TwilioOptions): Promise<CallDetail> {
  const call = await callOf(request, caller, options);
  if (call.completedAt !== null)
    throw new ApiError('CALL_ALREADY_ENDED', 'The call has ended; it cannot be recorded any more.');
  return call;
}

/** The recordings that the API began and that are still made, oldest first. */
function begunBy({ id: callId, events }: CallDetail): Omit<ListedRecording, 'file'>[] {
  const ended = new Set(
    events
      .filter(({ type }) => type === 'recording.completed' || type === 'recording.failed')
      .map(({ data }) => data.recording_id),
  );
  return events.flatMap(({ type, data, createdAt }) =>
    type === 'recording.started' && data.source === 'api' && !ended.has(data.recording_id)
      ? [{ id: String(data.recording_id), callId, durationMs: 0, createdAt, source: 'api' }]
      : [],
  );
}

async function list([request, { scope }, { store }]: Asked, callSid: string | undefined): TwilioAnswer {
  const page = new AskedPage(request);
  const callId = callSid === undefined ? undefined : callIdOf(callSid);
  const filter: RecordingFilter = {
    ...periodOf(queryOf(request), 'DateCreated'),
    ...(callId !== undefined && callId !== null && { callId }),
  };
  await store.calls.flush();
  const found =
    callId === null ? [] : await store.longReads.ask('listRecordings', scope, filter, page.after, page.size + 1);
  const items = found.map((recording) => ({
    place: { createdMs: recording.createdAt.getTime(), id: recording.id },
    shown: presentRecording(recording, scope.organizationId),
  }));
  return { status: 200, body: page.of('recordings', items) };
}

/** With `.json` the resource, otherwise the audio, which is WAV. */
async function read(...asked: Asked): TwilioAnswer {
  const [request, { scope }, { recordingFiles }] = asked;
  const running = await beingMade(...asked);
  if (running !== null) return { status: 200, body: running };
  const recording = await recordingOf(...asked);
  if (nameOf(request).endsWith('.json'))
    return { status: 200, body: presentRecording(recording, scope.organizationId) };
  const file = await recordingFiles.open(recording.file);
  if (file === null) throw notFound('Recording');
  return { status: 200, body: null, audio: { id: recording.id, file } };
}

/** A recording that the path asks for as one of its call, if it is still made. */
async function beingMade(request: FastifyRequest, caller: Caller, options: TwilioOptions) {
  if (!('call' in (request.params as object))) return null;
  const call = await callOf(request, caller, options);
  const id = recordingIdOf(nameOf(request).replace(/\.json$/, ''));
  const found = begunBy(call).find((each) => each.id === id);
  if (found === undefined) return null;
  const changes = call.events.filter(({ type, data }) => type !== 'recording.started' && data.recording_id === id);
  const status = changes.at(-1)?.type === 'recording.paused' ? 'paused' : 'in-progress';
  return presentRecording(found, caller.scope.organizationId, status);
}

async function remove(...asked: Asked): TwilioAnswer {
  const [, { scope }, { store, recordingFiles }] = asked;
  const recording = await recordingOf(...asked);
  if (!(await store.recordingList.remove(scope, recording))) throw notFound('Recording');
  await recordingFiles.remove(recording.file);
  return { status: 204, body: null };
}

async function recordingOf(
  request: FastifyRequest,
  { scope }: Caller,
  { store }: TwilioOptions,
): Promise<ListedRecording> {
  const id = recordingIdOf(nameOf(request).replace(/\.(json|wav)$/, ''));
  await store.calls.flush();
  const [found] = id === null ? [] : await store.longReads.ask('listRecordings', scope, { id }, null, 1);
  if (found === undefined) throw notFound('Recording');
  return found;
}

function nameOf(request: FastifyRequest): string {
  return (request.params as { recording: string }).recording;
}
