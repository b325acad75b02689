/** Sends one request outside of a dialog (OPTIONS, REGISTER), with credentials when challenged, and returns the final response. */
import { answerChallenge, type DigestCredentials, saysStale } from '../auth/digest.js';
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

export interface Reply {
  /** null: no answer, or the request could not be sent. */
  response: StackResponse | null;
  /** The last one used. */
  cseq: number;
  /** Why there is no response, as far as known. */
  why?: string;
}

/** Never rejects. */
export async function ask(stack: Stack, question: OutOfDialogRequest): Promise<Reply> {
  let reply: Reply = { response: null, cseq: question.cseq };
  let { cseq } = question;
  for (const hop of question.hops ?? [{ host: '' }]) {
    reply = await askAt(stack, { ...question, cseq }, hop);
    const { response } = reply;
    // RFC 3263 4.3: after silence or 503 the next host is tried.
    if (response !== null && response.status !== 503) return reply;
    cseq = reply.cseq + 1;
  }
  return reply;
}

async function askAt(stack: Stack, question: OutOfDialogRequest, hop: NextHop): Promise<Reply> {
  let { cseq } = question;
  let authorization: Record<string, string> = {};
  for (let challenges = 0; ; challenges++) {
    const { response, why } = await once(stack, question, hop, cseq, authorization);
    const { credentials } = question;
    const isChallenge = response !== null && (response.status === 401 || response.status === 407);
    const told = { response, cseq, ...(why === undefined ? {} : { why }) };
    if (!isChallenge || !credentials || challenges >= maxChallenges) return told;
    const lines = readHeaders(response.raw).get(response.status === 401 ? 'www-authenticate' : 'proxy-authenticate');
    if (challenges > 0 && !saysStale(lines ?? [])) return told;
    const challenge = { status: response.status, challenges: lines ?? [] };
    const answer = answerChallenge(challenge, { method: question.method, uri: question.uri }, credentials);
    if (!answer) return told;
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
): Promise<Pick<Reply, 'response' | 'why'>> {
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
          else settle(null, whyUnreachable(res));
        });
      });
    } catch (error) {
      settle(null, error instanceof Error ? error.message : String(error));
    }
  });
}

/** The server's reason for a request that could not be delivered; undefined when the request was only not answered. */
export function whyUnreachable(res: StackResponse): string | undefined {
  return /;text="([^"]*)"/.exec(res.get('reason') ?? '')?.[1];
}
