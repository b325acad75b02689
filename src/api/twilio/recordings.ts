/** The API of recordings: lists, reads and deletes them, and sends their audio. */
import type { FastifyRequest } from 'fastify';
import type { ListedRecording, RecordingFilter } from '../../store/calls/recording-list.js';
import type { Caller } from '../auth/caller.js';
import { notFound } from '../errors.js';
import { AskedPage, periodOf, queryOf } from './pages.js';
import { callIdOf, presentRecording, recordingIdOf } from './resources.js';
import type { TwilioAnswer, TwilioOptions, TwilioRoute } from './route.js';

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
  { method: 'GET', path: 'Recordings/:recording', handle: read },
  { method: 'DELETE', path: 'Recordings/:recording', handle: remove },
];

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
  const recording = await recordingOf(...asked);
  if (nameOf(request).endsWith('.json'))
    return { status: 200, body: presentRecording(recording, scope.organizationId) };
  const file = await recordingFiles.open(recording.file);
  if (file === null) throw notFound('Recording');
  return { status: 200, body: null, audio: { id: recording.id, file } };
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
