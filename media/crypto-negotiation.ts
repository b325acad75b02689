/** Negotiates SRTP keys by offer and answer (RFC 4568); used by `SdpNegotiation`. */
import { randomBytes } from 'node:crypto';
import type { CryptoLine } from './crypto-lines.js';
import { cryptoOffer } from './crypto-lines.js';
import { MediaError, type SrtpPolicy } from './engine.js';
import { type SrtpSuite, srtpKeyBytes } from './rtp/srtp/srtp-suites.js';

/** Master keys of both directions. */
export interface MediaKeys {
  suite: SrtpSuite;
  send: Uint8Array;
  receive: Uint8Array;
}

/** The encryption part of the far side's stream description. */
interface Described {
  /** `RTP/SAVP`. */
  secure: boolean;
  crypto: readonly CryptoLine[];
}

export class CryptoNegotiation {
  private offered: CryptoLine[] = [];

  constructor(private readonly policy: SrtpPolicy) {}

  /** Throws `MediaError` when one side requires encryption that the other does not support. */
  check({ secure, crypto }: Described): void {
    if (secure && this.policy === 'off') throw incompatible('asks for encryption, which is switched off here');
    if (secure && crypto.length === 0) throw incompatible('asks for encryption without a key that we can use');
    if (this.policy === 'require' && crypto.length === 0)
      throw incompatible('offers no encryption, which is required here');
  }

  /** Answers a checked offer with the first supported key; null when nothing is encrypted. */
  answer({ crypto }: Described, before: MediaKeys | null): { line: CryptoLine; keys: MediaKeys } | null {
    const [theirs] = crypto;
    if (!theirs || this.policy === 'off') return null;
    const { suite, key: receive, tag } = theirs;
    // A sender that keeps its key keeps its SRTP state; a new key on their side gets a new key on ours, and both start from zero.
    const isSame = before?.suite === suite && Buffer.from(before.receive).equals(receive);
    const send = isSame ? before.send : randomBytes(srtpKeyBytes(suite));
    return { line: { tag, suite, key: send }, keys: { suite, send, receive } };
  }

  /** When encryption is optional, keys are offered with plain RTP: a far side without SRTP ignores them. */
  offer(now: MediaKeys | null): { secure: boolean; crypto: CryptoLine[] } {
    const before = now ? [{ suite: now.suite, key: now.send }] : this.offered;
    this.offered = this.policy === 'off' ? [] : cryptoOffer(before);
    return { secure: this.policy === 'require' || now !== null, crypto: this.offered };
  }

  /** Applies the answer to our offer. Throws `MediaError`. */
  accept({ secure, crypto }: Described): MediaKeys | null {
    for (const { tag, suite, key } of crypto) {
      const ours = this.offered.find((line) => line.tag === tag && line.suite === suite);
      if (ours) return { suite, send: ours.key, receive: key };
    }
    if (secure || this.policy === 'require') throw incompatible('answers our offer without a key that we can use');
    return null;
  }
}

function incompatible(what: string): MediaError {
  return new MediaError('incompatible_media', `The SDP ${what}.`);
}
