import { createWriteStream } from 'node:fs';
import { mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { FastifyRequest } from 'fastify';
import type { AudioFile } from '../../transcription/engine.js';
import { ApiError, invalid } from '../errors.js';

export const maxAudioBytes = 25_000_000;

/** Limits the number and size of parts, so that a form of thousands of parts costs little. */
export const uploadLimits = {
  fileSize: maxAudioBytes,
  files: 1,
  fields: 4,
  parts: 5,
  fieldNameSize: 100,
  fieldSize: 1_000,
  headerPairs: 20,
};

export interface Upload {
  audio: AudioFile;
  /** The other fields of the form, by name. */
  fields: ReadonlyMap<string, string>;
}

/**
 * Reads a form with one audio file into a temporary folder, passes it to `use`, and always removes it. The client's file name is ignored; the
 * audio format is detected from the content. Throws 400, 413, 415.
 */
export async function withUpload<T>(request: FastifyRequest, use: (upload: Upload) => Promise<T>): Promise<T> {
  if (!request.isMultipart())
    throw new ApiError('UNSUPPORTED_MEDIA_TYPE', 'The body must be a form, with content-type multipart/form-data');
  const folder = await mkdtemp(path.join(tmpdir(), 'trunkline-upload-'));
  try {
    return await use(await receive(request, path.join(folder, 'audio')));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function receive(request: FastifyRequest, file: string): Promise<Upload> {
  const fields = new Map<string, string>();
  let received = false;
  try {
    for await (const part of request.parts({ limits: uploadLimits })) {
      if (part.type === 'field') {
        if (fields.has(part.fieldname)) throw invalid({ path: part.fieldname, message: 'must be given once' });
        if (part.valueTruncated) throw invalid({ path: part.fieldname, message: 'is too long' });
        fields.set(part.fieldname, String(part.value));
      } else if (part.fieldname === 'file') {
        await pipeline(part.file, createWriteStream(file, { mode: 0o600 }));
        if (part.file.truncated) throw new ApiError('FILE_TOO_LARGE');
        received = part.file.bytesRead > 0;
      } else {
        part.file.resume();
        throw invalid({ path: part.fieldname, message: 'is not a known field' });
      }
    }
  } catch (error) {
    throw formRefusal(error);
  }
  if (!received) throw new ApiError('MISSING_FILE');
  const format = await formatOf(file);
  if (!format) throw new ApiError('UNSUPPORTED_MEDIA_TYPE', 'The file is not wav, mp3, ogg, flac, m4a or webm audio');
  return { audio: { path: file, format }, fields };
}

function formRefusal(error: unknown): unknown {
  if (error instanceof ApiError) return error;
  const { code, message } = error as { code?: string; message?: string };
  if (code === 'FST_REQ_FILE_TOO_LARGE') return new ApiError('FILE_TOO_LARGE');
  if (code === 'FST_FILES_LIMIT') return invalid({ path: 'file', message: 'must be given once' });
  if (code?.endsWith('_LIMIT')) return invalid({ path: '', message: 'the form has too many parts' });
  if (code === 'ENOSPC') return new ApiError('SERVICE_UNAVAILABLE', undefined, undefined, { 'retry-after': '30' });
  if (code?.startsWith('E') && code !== 'ECONNRESET') return error; // an error of the file system: internal
  return invalid({ path: '', message: `the form cannot be read (${(message ?? 'broken').toLowerCase()})` });
}

/** The audio format by the first bytes; undefined if unknown. */
async function formatOf(file: string): Promise<string | undefined> {
  const handle = await open(file);
  const head = Buffer.alloc(12);
  try {
    await handle.read(head, 0, head.length, 0);
  } finally {
    await handle.close();
  }
  const text = (from: number, to: number) => head.toString('latin1', from, to);
  if (text(0, 4) === 'RIFF' && text(8, 12) === 'WAVE') return 'wav';
  if (text(0, 4) === 'OggS') return 'ogg';
  if (text(0, 4) === 'fLaC') return 'flac';
  if (text(4, 8) === 'ftyp') return 'm4a';
  if (head.readUInt32BE(0) === 0x1a45dfa3) return 'webm';
  // MPEG audio: an ID3 tag, or a frame's sync word with a layer that exists.
  if (text(0, 3) === 'ID3' || (head[0] === 0xff && ((head[1] ?? 0) & 0xe0) === 0xe0 && ((head[1] ?? 0) & 0x06) !== 0))
    return 'mp3';
  return undefined;
}
