/** One request outside of any dialog (OPTIONS, REGISTER) and the far side's answer to it, with credentials when it asks for them. */
import { answerChallenge, type DigestCredentials, saysStale } from './digest.js';
import { readHeaders } from './header.js';
import type { Stack, StackResponse } from './stack.js';

export interface Question {
  method: 'OPTIONS' | 'REGISTER';
  uri: string;
  headers: Record<string, string>;
  /** Of the first attempt; each answer to a challenge takes the next. */
  cseq: number;
  credentials?: DigestCredentials;
}

/** A challenge, and one more when our nonce was stale. */
const maxChallenges = 2;
/** The server's own transaction timer ends before. */
const limitMs = 40_000;

/** The answer and the last CSeq used. `response` null: nobody answered, or the request could not be sent. Never rejects. */
export async function ask(stack: Stack, question: Question): Promise<{ response: StackResponse | null; cseq: number }> {
  let { cseq } = question;
  let authorization: Record<string, string> = {};
  for (let challenges = 0; ; challenges++) {
    const response = await once(stack, question, cseq, authorization);
    const { credentials } = question;
    const isChallenge = response !== null && (response.status === 401 || response.status === 407);
    if (!isChallenge || !credentials || challenges >= maxChallenges) return { response, cseq };
    const lines = readHeaders(response.raw).get(response.status === 401 ? 'www-authenticate' : 'proxy-authenticate');
    if (challenges > 0 && !saysStale(lines ?? [])) return { response, cseq };
    const challenge = { status: response.status, challenges: lines ?? [] };
    const answer = answerChallenge(challenge, { method: question.method, uri: question.uri }, credentials);
    if (!answer) return { response, cseq };
    authorization = { [answer.name]: answer.value };
    cseq++;
  }
}

function once(
  stack: Stack,
  { method, uri, headers }: Question,
  cseq: number,
  authorization: Record<string, string>,
): Promise<StackResponse | null> {
  return new Promise((resolve) => {
    const limit = setTimeout(() => settle(null), limitMs);
    limit.unref();
    const settle = (response: StackResponse | null) => {
      clearTimeout(limit);
      resolve(response);
    };
    try {
      const all = { ...headers, ...authorization, CSeq: `${cseq} ${method}` };
      stack.app.client.request({ method, uri, headers: all }, (err, req) => {
        if (err || !req) return settle(null);
        req.on('response', (res) => {
          // What the server makes itself (timeout, no route) comes from nobody's address.
          if (res.status >= 200) settle(res.source_address ? res : null);
        });
      });
    } catch {
      settle(null);
    }
  });
}
