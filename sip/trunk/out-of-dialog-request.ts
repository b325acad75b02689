/** Sends one request outside of a dialog (OPTIONS, REGISTER), with credentials when challenged, and returns the final response. */
import { answerChallenge, type DigestCredentials, isStale } from '../auth/digest.js';
import { readHeaders } from '../drachtio/header.js';
import type { Stack, StackResponse } from '../drachtio/types.js';
import type { NextHop } from '../outbound/next-hop.js';

export interface OutOfDialogRequest {
  method: 'OPTIONS' | 'REGISTER';
  uri: string;
  /** Next hops, tried in order until one answers. Default: the URI itself. */
  hops?: readonly NextHop[];
  headers: Record<string, string>;
  /** CSeq of the first attempt; each answer to a challenge uses the next. */
  cseq: number;
  credentials?: DigestCredentials;
}

/** The challenge, and one more when our nonce was stale. */
const maxChallenges = 2;
/** The server's own transaction timer ends earlier. */
const limitMs = 40_000;

export interface OutOfDialogReply {
  /** null: no answer, or the request could not be sent. */
  response: StackResponse | null;
  /** The last one used. */
  cseq: number;
  /** Why there is no response, as far as known. */
  why?: string;
}

/** Never rejects. */
export async function sendRequest(stack: Stack, request: OutOfDialogRequest): Promise<OutOfDialogReply> {
  let reply: OutOfDialogReply = { response: null, cseq: request.cseq };
  let { cseq } = request;
  for (const hop of request.hops ?? [{ host: '' }]) {
    reply = await sendTo(stack, { ...request, cseq }, hop);
    const { response } = reply;
    // RFC 3263 4.3: after silence or 503 the next host is tried.
    if (response !== null && response.status !== 503) return reply;
    cseq = reply.cseq + 1;
  }
  return reply;
}

async function sendTo(stack: Stack, request: OutOfDialogRequest, hop: NextHop): Promise<OutOfDialogReply> {
  let { cseq } = request;
  let authorization: Record<string, string> = {};
  for (let challenges = 0; ; challenges++) {
    const { response, why } = await once(stack, request, hop, cseq, authorization);
    const { credentials } = request;
    const isChallenge = response !== null && (response.status === 401 || response.status === 407);
    const result = { response, cseq, ...(why === undefined ? {} : { why }) };
    if (!isChallenge || !credentials || challenges >= maxChallenges) return result;
    const lines = readHeaders(response.raw).get(response.status === 401 ? 'www-authenticate' : 'proxy-authenticate');
    if (challenges > 0 && !isStale(lines ?? [])) return result;
    const challenge = { status: response.status, challenges: lines ?? [] };
    const answer = answerChallenge(challenge, { method: request.method, uri: request.uri }, credentials);
    if (!answer) return result;
    authorization = { [answer.name]: answer.value };
    cseq++;
  }
}

function once(
  stack: Stack,
  { method, uri, headers }: OutOfDialogRequest,
  hop: NextHop,
  cseq: number,
  authorization: Record<string, string>,
): Promise<Pick<OutOfDialogReply, 'response' | 'why'>> {
  return new Promise((resolve) => {
    const limit = setTimeout(() => settle(null), limitMs);
    limit.unref();
    const settle = (response: StackResponse | null, why?: string) => {
      clearTimeout(limit);
      resolve({ response, ...(why === undefined ? {} : { why }) });
    };
    try {
      const all = { ...headers, ...authorization, CSeq: `${cseq} ${method}` };
      const proxy = hop.uri === undefined ? {} : { proxy: hop.uri };
      stack.app.client.request({ method, uri, headers: all, ...proxy }, (err, req) => {
        if (err || !req) return settle(null, err?.message);
        req.on('response', (res) => {
          if (res.status < 200) return;
          // Responses that the server generates itself (timeout, no route) have no source address.
          if (res.source_address) settle(res);
          else settle(null, unreachableReason(res));
        });
      });
    } catch (error) {
      settle(null, error instanceof Error ? error.message : String(error));
    }
  });
}

/** The server's reason for a request that could not be delivered; undefined when the request was only not answered. */
export function unreachableReason(res: StackResponse): string | undefined {
  return /;text="([^"]*)"/.exec(res.get('reason') ?? '')?.[1];
}
