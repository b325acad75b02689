/** `a=crypto` lines of SDP (RFC 4568): keys for SRTP, offered and chosen. */
import { randomBytes } from 'node:crypto';
import { type SrtpSuite, srtpKeyBytes } from './rtp/srtp.js';

/** One line of the far side that we can follow. */
export interface CryptoLine {
  tag: number;
  suite: SrtpSuite;
  /** Master key and salt that it encrypts with. */
  key: Uint8Array;
}

const suites: readonly SrtpSuite[] = ['AES_CM_128_HMAC_SHA1_80', 'AES_CM_128_HMAC_SHA1_32'];
const mostLines = 32;
const inlineKey = /^inline:([A-Za-z0-9+/]{40})(?:\|(?:2\^\d{1,2}|\d{1,15}))?$/;
/** Session parameters that change nothing for us: all others make a line unusable (section 6.3.7). */
const harmless = /^(?:-.*|WSH=\d+)$/i;

/** The lines that we can follow, in their order. What has a master key index, several keys or a weakened session is passed over. */
export function readCryptoLines(
  lines: readonly { id: number; suite: string; config: string; sessionConfig?: string }[] | undefined,
): CryptoLine[] {
  const found: CryptoLine[] = [];
  for (const { id, suite, config, sessionConfig } of (lines ?? []).slice(0, mostLines)) {
    const known = suites.find((name) => name === String(suite).toUpperCase());
    const encoded = inlineKey.exec(String(config))?.[1];
    const parameters = String(sessionConfig ?? '')
      .split(/\s+/)
      .filter((parameter) => parameter !== '');
    if (!known || encoded === undefined || !parameters.every((parameter) => harmless.test(parameter))) continue;
    const key = Buffer.from(encoded, 'base64');
    if (key.length === srtpKeyBytes) found.push({ tag: Number(id), suite: known, key });
  }
  return found;
}

export function writeCryptoLine({ tag, suite, key }: CryptoLine): string {
  return `a=crypto:${tag} ${suite} inline:${Buffer.from(key).toString('base64')}`;
}

/** One line for each suite, with the keys of `before` where there are some: a session that goes on keeps its keys. */
export function cryptoOffer(before: readonly CryptoLine[]): CryptoLine[] {
  return suites.map(
    (suite, i) => before.find((line) => line.suite === suite) ?? { tag: i + 1, suite, key: randomBytes(srtpKeyBytes) },
  );
}
