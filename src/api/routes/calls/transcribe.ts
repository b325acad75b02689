import type { FastifyReply } from 'fastify';
import { type TranscriptionEngine, TranscriptionError, type Translator } from '../../../transcription/engine.js';
import { ApiError, invalid } from '../../errors.js';
import { withUpload } from '../../request/upload.js';
import { type Route, route } from '../../route.js';
import { ref, Type } from '../../schemas/types.js';

/** The maximum number of concurrent uploads, which limits the disk space they use. */
const atOnce = 16;

const form = Type.Object({
  file: Type.Optional(
    Type.String({ format: 'binary', description: 'Audio: wav, mp3, ogg, flac, m4a or webm, at most 25 MB.' }),
  ),
  target_language: Type.Optional(
    Type.String({
      default: 'en',
      description:
        'The language code of the returned text, such as `de`. For languages other than English the transcription is translated.',
    }),
  ),
});

const transcription = Type.Object(
  {
    choices: Type.Array(Type.Object({ text: Type.String({ description: 'The transcribed or translated text.' }) }), {
      description: 'Exactly one choice.',
    }),
    model: Type.String({ description: 'The model that produced the text.' }),
    object: Type.Unsafe<string>({
      type: 'string',
      enum: ['transcription', 'translation'],
      description: 'Whether the text is a transcription or a translation.',
    }),
  },
  { $id: 'Transcription', additionalProperties: false },
);
export const transcriptionSchemas = [transcription];

/** Without an engine or a translator, the requests that need it get an error that says what to do. */
export function transcribeRoute(options: {
  readonly transcription?: TranscriptionEngine | null | undefined;
  translation?: Translator;
}): Route {
  const { translation } = options;
  let running = 0;
  return route({
    method: 'POST',
    path: '/api/v1/transcribe',
    operationId: 'transcribe',
    tag: 'Transcription',
    summary: 'Transcribe audio',
    description:
      'Transcribes an audio file and optionally translates the text. The whole form is read first: a missing file is reported before a missing engine.',
    access: 'member',
    form,
    answer: { status: 200, description: 'The text.', schema: ref('Transcription') },
    errors: [
      'MISSING_FILE',
      'FILE_TOO_LARGE',
      'TRANSCRIPTION_FAILED',
      'TRANSCRIPTION_UNAVAILABLE',
      'TRANSLATION_UNAVAILABLE',
    ],
    async handle({ request, reply }) {
      if (running >= atOnce) throw busy('Too many files are being transcribed');
      running += 1;
      try {
        return await withUpload(request, async ({ audio, fields }) => {
          const language = languageOf(fields);
          const { transcription: engine } = options;
          if (!engine) throw new ApiError('TRANSCRIPTION_UNAVAILABLE');
          const isEnglish = /^en(-|$)/i.test(language);
          if (!isEnglish && !translation) throw new ApiError('TRANSLATION_UNAVAILABLE');
          const gone = whenGone(reply);
          const heard = await engine.transcribe(audio, gone);
          if (isEnglish || !translation || heard.text === '')
            return { choices: [{ text: heard.text }], model: heard.model, object: 'transcription' };
          const translated = await translation.translate(heard.text, language, gone);
          return { choices: [{ text: translated.text }], model: translated.model, object: 'translation' };
        });
      } catch (error) {
        if (!(error instanceof TranscriptionError)) throw error;
        if (error.isBusy) throw busy(error.message);
        const { upstreamStatus } = error;
        throw new ApiError(
          'TRANSCRIPTION_FAILED',
          error.message,
          upstreamStatus === undefined ? undefined : { upstream_status: upstreamStatus },
        );
      } finally {
        running -= 1;
      }
    },
  });
}

function busy(message: string): ApiError {
  return new ApiError('SERVICE_UNAVAILABLE', message, undefined, { 'retry-after': '5' });
}

function languageOf(fields: ReadonlyMap<string, string>): string {
  for (const name of fields.keys())
    if (name !== 'target_language') throw invalid({ path: name, message: 'is not a known field' });
  const language = fields.get('target_language') ?? 'en';
  if (!/^[a-z]{2,3}(-[a-z0-9]{2,8}){0,3}$/i.test(language))
    throw invalid({ path: 'target_language', message: 'must be a language code such as de or pt-BR' });
  return language;
}

/** Aborts when the client disconnects before the response is complete. */
function whenGone(reply: FastifyReply): AbortSignal {
  const controller = new AbortController();
  reply.raw.once('close', () => {
    if (!reply.raw.writableEnded) controller.abort();
  });
  return controller.signal;
}
