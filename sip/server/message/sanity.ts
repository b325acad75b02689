/** Basic checks of a request before further processing (RFC 3261 8.2.1–8.2.2, 16.3, 18.3). Cheap, since scanners send many. */
import { ALLOW, OPTION_TAGS } from '../assembly.js';
import { hasEmptyPart, isToken, parseNameAddr } from './fields.js';
import type { Header, SipRequest, SipResponse } from './message.js';
import { parseUri, schemeOf } from './uri.js';

export interface Rejection {
  status: number;
  reason?: string;
  headers?: Header[];
}

const KNOWN_METHODS: ReadonlySet<string> = new Set([
  ...['INVITE', 'ACK', 'CANCEL', 'BYE', 'OPTIONS', 'REGISTER', 'PRACK', 'UPDATE', 'INFO'],
  ...['REFER', 'NOTIFY', 'SUBSCRIBE', 'PUBLISH', 'MESSAGE'],
]);
const ONCE = ['from', 'to', 'call-id', 'cseq', 'max-forwards'];
const SEPARATED: ReadonlySet<string> = new Set(['via', 'from', 'to', 'contact']);
/** RFC 3261 25.1 `word` without the bar, which separates fields in the control protocol. */
const CALL_ID = /^[A-Za-z0-9\-.!%*_+`'~()<>:\\"/[\]?{}]+(@[A-Za-z0-9\-.!%*_+`'~()<>:\\"/[\]?{}]+)?$/;

/** Null when the request is sound; `silence` when it cannot be answered. */
export function checkRequest(
  request: SipRequest,
  isOurBranch: (branch: string) => boolean,
): Rejection | 'silence' | null {
  const rejection = find(request, isOurBranch);
  if (!rejection) return null;
  // 8.1.1 and 17.1.1.3: without a Via there is no address to answer to; an ACK is never answered
  const isAck = request.method === 'ACK' || request.cseq?.method === 'ACK';
  return request.topVia === null || isAck ? 'silence' : rejection;
}

function find(request: SipRequest, isOurBranch: (branch: string) => boolean): Rejection | null {
  if (request.version !== 'SIP/2.0') return { status: 505 };
  const malformed = request.problem ?? headerProblem(request);
  if (malformed) return { status: 400, reason: malformed };
  if (!KNOWN_METHODS.has(request.method)) return { status: 501, headers: [{ name: 'allow', value: ALLOW }] };
  const scheme = schemeOf(request.uri);
  if (scheme === '') return { status: 400, reason: 'Request-URI is malformed' };
  if (scheme !== 'sip' && scheme !== 'sips' && scheme !== 'tel') return { status: 416 };
  // an ACK is matched by its tags; refusing it for its Request-URI would only cost a call
  if (scheme !== 'tel' && request.method !== 'ACK' && !parseUri(request.uri))
    return { status: 400, reason: 'Request-URI is malformed' };
  // an endpoint may answer nevertheless (RFC 4475 3.3.11), but a call may be forwarded from here (RFC 7332 4)
  const hops = request.get('max-forwards');
  if (request.method === 'INVITE' && hops !== undefined && Number(hops) === 0) return { status: 483 };
  if (request.list('via').some((value) => isOurBranch(/;\s*branch=([^;\s]+)/i.exec(value)?.[1] ?? '')))
    return { status: 482 };
  if (request.method !== 'ACK' && request.method !== 'CANCEL') {
    const unsupported = request.list('require').filter((tag) => !OPTION_TAGS.has(tag.toLowerCase()));
    if (unsupported.length > 0)
      return { status: 420, headers: [{ name: 'unsupported', value: unsupported.join(', ') }] };
  }
  return null;
}

function headerProblem(request: SipRequest): string | null {
  if (request.topVia?.version !== '2.0') return 'Via is missing or malformed';
  for (const name of ONCE) {
    const count = request.count(name);
    if (count > 1) return `More than one ${name} header`;
    if (count === 0 && name !== 'max-forwards') return `No ${name} header`;
  }
  if (!request.from || !request.to) return 'From or To is malformed';
  // an ACK that can be matched is accepted: dropping it would cost a call
  if (request.method !== 'ACK') {
    for (const { name, value } of request.headers)
      if (SEPARATED.has(name) && hasEmptyPart(value)) return `A separator too many in ${name}`;
    if (request.list('contact').some((value) => value !== '*' && !parseNameAddr(value))) return 'Contact is malformed';
  }
  if (request.fromTag !== '' && !isToken(request.fromTag)) return 'The From tag is malformed';
  if (request.toTag !== '' && !isToken(request.toTag)) return 'The To tag is malformed';
  if (!CALL_ID.test(request.callId)) return 'Call-ID is malformed';
  if (!request.cseq) return 'CSeq is malformed';
  // an ACK cannot be refused, and its meaning is clear
  const named = request.cseq.method;
  if (named !== request.method && !(request.method === 'ACK' && named === 'INVITE')) return 'CSeq names another method';
  const hops = request.get('max-forwards');
  if (hops !== undefined && !/^\d{1,9}$/.test(hops)) return 'Max-Forwards is malformed';
  return null;
}

/** True when a response may be processed; others are dropped (8.1.3.3, 18.1.2). */
export function isSaneResponse(response: SipResponse): boolean {
  return (
    response.problem === null &&
    response.list('via').length === 1 &&
    response.topVia?.version === '2.0' &&
    response.cseq !== null &&
    response.from !== null &&
    response.to !== null &&
    (response.toTag === '' || isToken(response.toTag)) &&
    response.callId !== ''
  );
}
