/** Writes SIP messages: header names in their usual spelling, text as latin1 bytes, as `message.ts` reads them. */
import type { Header, SipRequest } from './message.js';
import { bareHost } from './uri.js';

const SPELLING: Record<string, string> = {
  'call-id': 'Call-ID',
  cseq: 'CSeq',
  'www-authenticate': 'WWW-Authenticate',
  'mime-version': 'MIME-Version',
  rack: 'RAck',
  rseq: 'RSeq',
  'min-se': 'Min-SE',
  'sip-etag': 'SIP-ETag',
  'sip-if-match': 'SIP-If-Match',
  'content-id': 'Content-ID',
};

const spelled = new Map<string, string>();

/** `p-asserted-identity` → `P-Asserted-Identity`. */
export function spellHeader(name: string): string {
  let spelling = spelled.get(name);
  if (spelling === undefined) {
    spelling = SPELLING[name] ?? name.replace(/(^|-)([a-z])/g, (_, dash: string, c: string) => dash + c.toUpperCase());
    if (spelled.size < 500) spelled.set(name, spelling);
  }
  return spelling;
}

/** Unpooled memory: a transaction keeps its bytes for half a minute, and would keep a whole pool slab alive. */
const KEPT = Buffer.allocUnsafeSlow;
/** Pooled memory, for bytes that are sent once and not kept. */
const SENT_ONCE = Buffer.allocUnsafe;

/** The bytes of a message, with our Content-Length. */
export function writeMessage(
  startLine: string,
  headers: readonly Header[],
  body: Buffer,
  memory: (size: number) => Buffer = KEPT,
): Buffer {
  let text = `${startLine}\r\n`;
  for (const { name, value, written } of headers) {
    // private headers keep the application's spelling
    text += `${name.startsWith('x-') && written ? written : spellHeader(name)}: ${value}\r\n`;
  }
  text += `Content-Length: ${body.length}\r\n\r\n`;
  const bytes = memory(text.length + body.length);
  bytes.write(text, 'latin1');
  body.copy(bytes, text.length);
  return bytes;
}

/** The Via values of a response to this request, the top one with its real source (RFC 3261 18.2.1, RFC 3581 4). */
export function viaForResponse(request: SipRequest, source: { address: string; port: number }): string[] {
  const values = request.list('via').slice();
  const via = request.topVia;
  const top = values[0];
  if (top === undefined || !via) return values;
  let changed = top;
  const wantsPort = via.parameters.has('rport');
  if (wantsPort) changed = changed.replace(/;\s*rport\s*(=[^;]*)?(?=;|$)/i, `;rport=${source.port}`);
  if (wantsPort || bareHost(via.host) !== source.address) {
    changed = `${changed.replace(/;\s*received\s*=[^;]*/i, '')};received=${source.address}`;
  }
  values[0] = changed;
  return values;
}

/**
 * A request as the application receives it: its top Via always contains its source, as drachtio writes it. Responses carry `rport` only
 * when the peer asked for it (RFC 3581 4).
 */
export function rawWithSource(request: SipRequest, source: { address: string; port: number }): Buffer {
  const top = request.list('via')[0];
  const via = request.topVia;
  if (top === undefined || !via) return request.raw;
  const at = request.raw.indexOf(top, request.startLine.length, 'latin1');
  if (at < 0) return request.raw; // folded over several lines: left as received
  const bare = top.replace(/;\s*(?:rport|received)\s*(?:=[^;]*)?(?=;|$)/gi, '');
  const received = bareHost(via.host) === source.address ? '' : `;received=${source.address}`;
  const marked = Buffer.from(`${bare};rport=${source.port}${received}`, 'latin1');
  return Buffer.concat([request.raw.subarray(0, at), marked, request.raw.subarray(at + top.length)]);
}

/** Reason phrases of RFC 3261 21 and extensions, for responses that the server makes itself. */
const REASONS: Record<number, string> = {
  100: 'Trying',
  200: 'OK',
  400: 'Bad Request',
  405: 'Method Not Allowed',
  408: 'Request Timeout',
  413: 'Request Entity Too Large',
  416: 'Unsupported URI Scheme',
  420: 'Bad Extension',
  422: 'Session Interval Too Small',
  480: 'Temporarily Unavailable',
  481: 'Call/Transaction Does Not Exist',
  482: 'Loop Detected',
  483: 'Too Many Hops',
  487: 'Request Terminated',
  491: 'Request Pending',
  500: 'Server Internal Error',
  501: 'Not Implemented',
  503: 'Service Unavailable',
  504: 'Server Time-out',
  505: 'Version Not Supported',
};

export function reasonPhrase(status: number): string {
  return REASONS[status] ?? 'Unknown';
}

/** A response to a request (RFC 3261 8.2.6): Via, From, To, Call-ID, CSeq; then `extra`. */
export function writeResponse(
  request: SipRequest,
  answer: {
    status: number;
    reason: string;
    source: { address: string; port: number };
    toTag: string;
    extra: Header[];
    body: Buffer;
    /** The bytes are not kept after sending. */
    isForgotten?: boolean;
  },
): Buffer {
  const headers: Header[] = viaForResponse(request, answer.source).map((value) => ({ name: 'via', value }));
  const copy = (name: string, value: string | undefined) => value !== undefined && headers.push({ name, value });
  const to = request.get('to');
  // 100 gets no tag (8.2.6.2), but keeps the tag of the request
  const tagged =
    answer.toTag === '' || request.toTag !== '' || answer.status === 100 ? to : to && `${to};tag=${answer.toTag}`;
  copy('from', request.get('from'));
  copy('to', tagged);
  copy('call-id', request.get('call-id'));
  copy('cseq', request.get('cseq'));
  const timestamp = answer.status === 100 ? request.get('timestamp') : undefined;
  if (timestamp !== undefined) headers.push({ name: 'timestamp', value: timestamp });
  headers.push(...answer.extra);
  const startLine = `SIP/2.0 ${answer.status} ${answer.reason}`;
  return writeMessage(startLine, headers, answer.body, answer.isForgotten ? SENT_ONCE : KEPT);
}
