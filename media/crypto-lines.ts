/** Reads and writes `a=crypto` lines of SDP (RFC 4568), the keys for SRTP. */
import { randomBytes } from 'node:crypto';
import { type SrtpSuite, srtpKeyBytes, srtpSuiteNames } from './rtp/srtp/srtp-suites.js';

/** One of the far side's lines that we support. */
export interface CryptoLine {
  tag: number;
  suite: SrtpSuite;
  /** Master key and salt with which this side encrypts. */
  key: Uint8Array;
}

const mostLines = 32;
/** Some implementations leave out the base64 padding. */
const inlineKey = /^inline:([A-Za-z0-9+/]{38,60}={0,2})(?:\|(?:2\^\d{1,2}|\d{1,15}))?$/;
/** Session parameters without effect for us; any other makes a line unusable (section 6.3.7). */
const harmless = /^(?:-.*|WSH=\d+)$/i;

/** Returns the supported lines in their order. Skips lines with a master key index, several keys or weakened session parameters. */
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

/** One line per suite, with the keys of `before` where they exist, and those first: a continuing session keeps its keys. */
export function cryptoOffer(before: readonly Pick<CryptoLine, 'suite' | 'key'>[]): CryptoLine[] {
  const lines = srtpSuiteNames.map((suite, i) => {
    const kept = before.find((line) => line.suite === suite);
    return { tag: i + 1, suite, key: kept?.key ?? randomBytes(srtpKeyBytes(suite)) };
  });
  const isKept = ({ suite }: CryptoLine) => before.some((line) => line.suite === suite);
  return [...lines.filter(isKept), ...lines.filter((line) => !isKept(line))];
}
