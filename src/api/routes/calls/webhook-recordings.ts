import type { Store } from '../../../store/store.js';
import { notFound } from '../../errors.js';
import type { RecordingFiles } from '../../recordings/recording-files.js';
import { partAnswer, sendRecording } from '../../recordings/send-recording.js';
import { type Route, route } from '../../route.js';
import { patterns } from '../../schemas/patterns.js';
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
      summary: 'Get a webhook recording',
      description:
        'The recording of a `record` or `dial` action, at the URL that the webhook received as `recording_url`. The URL grants access without a key until the call is deleted. A `.wav` suffix is ignored.',
      access: 'public',
      params: body({
        id: uuid('The id of the recording.'),
        token: Type.String({
          pattern: patterns.recordingToken,
          description: 'The secret part of the URL.',
        }),
      }),
      answer: {
        status: 200,
        description:
          '16-bit PCM at 8 kHz, or at 16 kHz if the call began with a wideband codec: mono, or stereo with the caller left and the callee right.',
        schema: Type.String({ format: 'binary' }),
        contentType: 'audio/wav',
      },
      alsoAnswers: { 206: partAnswer },
      errors: ['RANGE_NOT_SATISFIABLE'],
      handle: async ({ params, request, reply }) => {
        const recording = await store.recordings.find(params.id.toLowerCase(), params.token.slice(0, 22));
        if (!recording) throw notFound('Recording');
        const file = await recordingFiles.open(recording.file);
        if (file === null) throw notFound('Recording');
        return sendRecording(recording.id, file, request, reply);
      },
    }),
  ];
}
