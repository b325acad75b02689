/** `a=crypto` lines of SDP (RFC 4568): keys for SRTP, offered and chosen. */
import { randomBytes } from 'node:crypto';
import { type SrtpSuite, srtpKeyBytes, srtpSuiteNames } from './rtp/srtp/srtp-suites.js';

/** One line of the far side that we can follow. */
export interface CryptoLine {
  tag: number;
  suite: SrtpSuite;
  /** Master key and salt that it encrypts with. */
  key: Uint8Array;
}

const mostLines = 32;
/** Some leave the filling of base64 out. */
const inlineKey = /^inline:([A-Za-z0-9+/]{38,60}={0,2})(?:\|(?:2\^\d{1,2}|\d{1,15}))?$/;
/** Session parameters that change nothing for us: all others make a line unusable (section 6.3.7). */
const harmless = /^(?:-.*|WSH=\d+)$/i;

/** The lines that we can follow, in their order. What has a master key index, several keys or a weakened session is passed over. */
export function readCryptoLines(
  lines: readonly { id: number; suite: string; config: string; sessionConfig?: string }[] | undefined,
): CryptoLine[] {
  const found: CryptoLine[] = [];
  for (const { id, suite, config, sessionConfig } of (lines ?? []).slice(0, mostLines)) {
    const known = srtpSuiteNames.find((name) => name === String(suite).toUpperCase());
    const encoded = inlineKey.exec(String(config))?.[1];
    const parameters = String(sessionConfig ?? '')
      .split(/\s+/)
      .filter((parameter) => parameter !== '');
    if (!known || encoded === undefined || !parameters.every((parameter) => harmless.test(parameter))) continue;
    const key = Buffer.from(encoded, 'base64');
    if (key.length === srtpKeyBytes(known)) found.push({ tag: Number(id), suite: known, key });
  }
  return found;
}

export function writeCryptoLine({ tag, suite, key }: CryptoLine): string {
  return `a=crypto:${tag} ${suite} inline:${Buffer.from(key).toString('base64')}`;
}

/** One line for each suite, with the keys of `before` where there are some, and those first: a session that goes on keeps its keys. */
export function cryptoOffer(before: readonly Pick<CryptoLine, 'suite' | 'key'>[]): CryptoLine[] {
  const lines = srtpSuiteNames.map((suite, i) => {
    const kept = before.find((line) => line.suite === suite);
    return { tag: i + 1, suite, key: kept?.key ?? randomBytes(srtpKeyBytes(suite)) };
  });
  const isKept = ({ suite }: CryptoLine) => before.some((line) => line.suite === suite);
  return [...lines.filter(isKept), ...lines.filter((line) => !isKept(line))];
}
