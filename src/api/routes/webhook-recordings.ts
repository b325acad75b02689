import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Store } from '../../store/store.js';
import { notFound } from '../errors.js';
import { type Route, route } from '../route.js';
import { body, Type, uuid } from '../schemas/words.js';

export function webhookRecordingRoutes({ store }: { store: Store }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/recordings/:id/:token',
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
        description: '16 bit PCM, 8 kHz: mono, or the caller left and the callee right.',
        schema: Type.String({ format: 'binary' }),
        contentType: 'audio/wav',
      },
      handle: async ({ params, reply }) => {
        const recording = store.recordings.find(params.id.toLowerCase(), params.token.slice(0, 22));
        if (!recording) throw notFound('Recording');
        const file = fileURLToPath(recording.file);
        const found = await stat(file).catch(() => null);
        if (found === null) throw notFound('Recording');
        reply.type('audio/wav').header('content-length', found.size).header('cache-control', 'private, max-age=3600');
        return createReadStream(file);
      },
    }),
  ];
}
