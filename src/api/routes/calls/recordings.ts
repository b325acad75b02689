import type { Store } from '../../../store/store.js';
import type { Caller } from '../../auth/caller.js';
import { ApiError, notFound } from '../../errors.js';
import { partAnswer, sendRecording } from '../../recordings/send-recording.js';
import { type Route, route } from '../../route.js';
import { recordingQuery } from '../../schemas/recordings.js';
import { idParams, Type } from '../../schemas/types.js';
import { type CallRoutesOptions, callAnswer, command } from './calls.js';

const tag = 'Calls';

export function recordingRoutes(options: CallRoutesOptions): Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/calls/:id/recording',
      operationId: 'getCallRecording',
      tag,
      summary: 'Get the recording of a call',
      description:
        'A stereo WAV file: left, the audio from the phone; right, the audio to the phone; paused parts are silent. Use an API key, or the `recording_url` of the call, which needs no key and is valid for one to two hours. `Range` requests a part (206). There is no file while the call is in progress.',
      access: 'member',
      signedLink: true,
      params: idParams,
      query: recordingQuery,
      answer: { status: 200, description: 'The file.', schema: Type.String(), contentType: 'audio/wav' },
      alsoAnswers: { 206: partAnswer },
      errors: ['RANGE_NOT_SATISFIABLE'],
      handle: async ({ params, query, request, reply }) => {
        const id = params.id.toLowerCase();
        const url = await recordingOf(options.store, request.caller, id, query, options.now());
        const file = url === undefined ? null : await options.recordingFiles.open(url);
        if (file === null) throw notFound('Recording');
        return sendRecording(id, file, request, reply);
      },
    }),
    ...(['pause', 'resume'] as const).map((what) =>
      route({
        method: 'POST',
        path: `/v1/calls/:id/recording/${what}`,
        operationId: `${what}CallRecording`,
        tag,
        summary: what === 'pause' ? 'Pause the recording' : 'Resume the recording',
        description:
          what === 'pause'
            ? 'Stops recording until the recording is resumed or the call ends; the file has silence for that time. Pausing a paused recording has no effect.'
            : 'Continues a paused recording. Resuming a running recording has no effect.',
        access: 'member',
        params: idParams,
        answer: callAnswer,
        errors: ['CALL_ALREADY_ENDED', 'CALL_NOT_ANSWERED', 'CALL_COMMAND_FAILED'],
        handle: ({ params, caller }) =>
          command(options, caller, params.id, { kind: 'recording', paused: what === 'pause' }),
      }),
    ),
  ];
}

/** Returns the location of the file if the request is authorized. Throws 401. */
async function recordingOf(
  store: Store,
  caller: Caller | null,
  id: string,
  { expires, signature }: { expires?: number; signature?: string },
  nowMs: number,
): Promise<string | undefined> {
  if (caller) return (await store.records.get(caller.scope, id))?.recordingUrl ?? undefined;
  const url = await store.recordingLinks.open(id, { expires: expires ?? 0, signature: signature ?? '' }, nowMs);
  if (url === undefined) throw new ApiError('UNAUTHORIZED', 'The link is invalid or has expired');
  return url;
}
