/** Digest authentication (RFC 3261 22, RFC 8760): the computation for both sides, and the answer to a carrier's challenge. */
import { createHash, randomBytes } from 'node:crypto';

export type DigestAlgorithm = 'SHA-256' | 'MD5';

export interface DigestCredentials {
  username: string;
  password: string;
}

export interface DigestInput {
  algorithm: DigestAlgorithm;
  username: string;
  realm: string;
  password: string;
  method: string;
  uri: string;
  nonce: string;
  /** Absent for a peer without quality of protection (RFC 2069). */
  qop?: { nc: string; cnonce: string };
}

/** The response value, in lower-case hex. */
export function digestResponse(input: DigestInput): string {
  const hash = (text: string) =>
    createHash(input.algorithm === 'MD5' ? 'md5' : 'sha256')
      .update(text)
      .digest('hex');
  const a1 = hash(`${input.username}:${input.realm}:${input.password}`);
  const a2 = hash(`${input.method}:${input.uri}`);
  if (!input.qop) return hash(`${a1}:${input.nonce}:${a2}`);
  return hash(`${a1}:${input.nonce}:${input.qop.nc}:${input.qop.cnonce}:auth:${a2}`);
}

/** `Digest name="value", …` as a record with lower-case names; null for another scheme. */
export function parseDigest(line: string): Readonly<Record<string, string>> | null {
  const scheme = /^\s*digest\s+/i.exec(line);
  if (!scheme) return null;
  const found: Record<string, string> = Object.create(null);
  // a name begins where no other one is: tried within each other, a long one would take seconds
  const parameter = /(?<![\w-])([a-z][\w-]*)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))/gi;
  for (const match of line.slice(scheme[0].length).matchAll(parameter)) {
    const name = (match[1] ?? '').toLowerCase();
    if (!(name in found)) found[name] = match[2] !== undefined ? match[2].replace(/\\(.)/g, '$1') : (match[3] ?? '');
  }
  return found;
}

/** The algorithm of an `algorithm` parameter (absent means MD5); null when it is not supported. */
export function knownAlgorithm(written: string | undefined): DigestAlgorithm | null {
  const name = (written ?? 'MD5').toUpperCase();
  return name === 'MD5' || name === 'SHA-256' ? name : null;
}

/**
 * The header that answers a 401 or 407; null when none of its challenges can be answered. The strongest challenge is used, whatever their
 * order (RFC 8760 2.3 leaves that to the client).
 */
export function answerChallenge(
  response: { status: number; challenges: readonly string[] },
  request: { method: string; uri: string },
  credentials: DigestCredentials,
): { name: 'Authorization' | 'Proxy-Authorization'; value: string } | null {
  const usable = response.challenges
    .flatMap((line) => line.split(/,\s*(?=digest\s)/i))
    .map(parseDigest)
    .map((params) => params && { params, algorithm: knownAlgorithm(params.algorithm) })
    .filter((challenge) => challenge?.algorithm && challenge.params.nonce && challenge.params.realm !== undefined);
  const chosen = usable.find((challenge) => challenge?.algorithm === 'SHA-256') ?? usable[0];
  if (!chosen?.algorithm) return null;
  const { params, algorithm } = chosen;
  const offersQop = params.qop !== undefined;
  if (offersQop && !/(^|[\s,])auth($|[\s,])/i.test(params.qop ?? '')) return null;
  const qop = offersQop ? { nc: '00000001', cnonce: randomBytes(8).toString('hex') } : undefined;
  const realm = params.realm ?? '';
  const nonce = params.nonce ?? '';
  const result = digestResponse({ algorithm, ...credentials, realm, nonce, ...request, qop });
  const fields = [
    `username="${escapeQuotes(credentials.username)}"`,
    `realm="${escapeQuotes(realm)}"`,
    `nonce="${escapeQuotes(nonce)}"`,
    `uri="${request.uri}"`,
    `response="${result}"`,
    `algorithm=${algorithm}`,
    ...(qop ? [`cnonce="${qop.cnonce}"`, 'qop=auth', `nc=${qop.nc}`] : []),
    ...(params.opaque === undefined ? [] : [`opaque="${escapeQuotes(params.opaque)}"`]),
  ];
  return {
    name: response.status === 407 ? 'Proxy-Authorization' : 'Authorization',
    value: `Digest ${fields.join(', ')}`,
  };
}

/** True when the far side refused our nonce, not our password. */
export function isStale(challenges: readonly string[]): boolean {
  return challenges.some((line) => /\bstale\s*=\s*"?true/i.test(line));
}

function escapeQuotes(text: string): string {
  return text.replace(/[\\"]/g, '\\$&');
}
