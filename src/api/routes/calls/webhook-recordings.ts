import type { Store } from '../../../store/store.js';
import { notFound } from '../../errors.js';
import type { RecordingFiles } from '../../recordings/recording-files.js';
import { partAnswer, sendRecording } from '../../recordings/send-recording.js';
import { type Route, route } from '../../route.js';
import { body, Type, uuid } from '../../schemas/types.js';

export function webhookRecordingRoutes({
  store,
  recordingFiles,
}: {
  store: Store;
  recordingFiles: RecordingFiles;
}): Route[] {
  return [
    route({
      method: 'GET',
      path: '/recordings/:id/:token',
      operationId: 'getRecording',
      tag: 'Webhooks',
      summary: 'Read a recording',
      description:
        'The recording of an action `record` or `dial`, under the address that the webhook was told as `recording_url`: whoever knows the address may read it, until the call is deleted. A `.wav` behind it is left aside.',
      access: 'public',
      params: body({
        id: uuid('The id of the recording.'),
        token: Type.String({
          pattern: /^[A-Za-z0-9_-]{22}(\.wav)?$/.source,
          description: 'The secret part of the address.',
        }),
      }),
      answer: {
        status: 200,
        description:
          '16 bit PCM at 8 kHz, or at 16 kHz of a call that began with a wideband codec: mono, or the caller left and the callee right.',
        schema: Type.String({ format: 'binary' }),
        contentType: 'audio/wav',
      },
      alsoAnswers: { 206: partAnswer },
      errors: ['RANGE_NOT_SATISFIABLE'],
      handle: async ({ params, request, reply }) => {
        const recording = store.recordings.find(params.id.toLowerCase(), params.token.slice(0, 22));
        if (!recording) throw notFound('Recording');
        const file = await recordingFiles.open(recording.file);
        if (file === null) throw notFound('Recording');
        return sendRecording(recording.id, file, request, reply);
      },
    }),
  ];
}
