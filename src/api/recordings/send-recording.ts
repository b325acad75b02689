import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { ApiError } from '../errors.js';
import { byteRange } from '../request/byte-range.js';
import type { RecordingFile } from './recording-files.js';

/** The description of 206 responses. */
export const partAnswer = 'The part that `Range` requested; `Content-Range` gives its position.';

/** Sends the file or the requested part of it and takes over the handle. Throws 416. */
export async function sendRecording(
  id: string,
  file: RecordingFile,
  { headers, method }: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { handle, bytes, modifiedMs } = file;
  const etag = `"${bytes.toString(16)}-${modifiedMs.toString(16)}"`;
  const isSame = headers['if-range'] === undefined || headers['if-range'] === etag;
  const range = isSame ? byteRange(headers.range, bytes) : null;
  if (range === 'unsatisfiable' || method === 'HEAD' || bytes === 0) await handle.close();
  if (range === 'unsatisfiable')
    throw new ApiError('RANGE_NOT_SATISFIABLE', undefined, { bytes }, { 'content-range': `bytes */${bytes}` });
  const { from, to } = range ?? { from: 0, to: bytes - 1 };
  if (range) reply.header('content-range', `bytes ${from}-${to}/${bytes}`);
  reply.code(range ? 206 : 200).headers({
    'content-type': 'audio/wav',
    'content-length': to - from + 1,
    'content-disposition': `inline; filename="${id}.wav"`,
    'accept-ranges': 'bytes',
    'cache-control': 'private, max-age=3600',
    etag,
  });
  const isEmpty = method === 'HEAD' || bytes === 0;
  return reply.send(isEmpty ? Readable.from([]) : handle.createReadStream({ start: from, end: to }));
}
