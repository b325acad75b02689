/** The SDP in a message: the whole body, or one part of a multipart body (with ISUP, for instance). */
import type { StackRequest } from '../drachtio/types.js';

export type SdpBody = { kind: 'sdp'; sdp: string } | { kind: 'none' } | { kind: 'unsupported' };

export function sdpOf(message: Pick<StackRequest, 'body' | 'get'>): SdpBody {
  const body = message.body ?? '';
  if (body.trim() === '') return { kind: 'none' };
  const type = message.get('content-type') ?? '';
  if (type === '' ? body.startsWith('v=') : /^\s*application\/sdp\b/i.test(type)) return { kind: 'sdp', sdp: body };
  const boundary = /^\s*multipart\/.*;\s*boundary="?([^";]+)"?/i.exec(type)?.[1];
  if (boundary !== undefined) {
    for (const part of body.split(`--${boundary}`)) {
      const end = part.indexOf('\r\n\r\n');
      if (end >= 0 && /^content-type\s*:\s*application\/sdp\b/im.test(part.slice(0, end))) {
        return { kind: 'sdp', sdp: part.slice(end + 4) };
      }
    }
  }
  return { kind: 'unsupported' };
}
