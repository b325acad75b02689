/** TCP connections on which a REGISTER was accepted: behind NAT the only way back to the phone. */

import { parseNameAddr, uriOf } from '../message/fields.js';
import type { SipRequest, SipResponse } from '../message/message.js';
import { parseUri } from '../message/uri.js';
import type { Timer, TransactionClock } from '../transactions/timers.js';
import type { Path } from '../transport/path.js';

const DEFAULT_EXPIRES_SEC = 3600;
const MAX_EXPIRES_SEC = 86_400;

interface Entry {
  path: Path;
  timer: Timer;
  unwatch: () => void;
}

export class Registrations {
  private readonly entries = new Map<string, Entry>();

  constructor(private readonly clock: TransactionClock) {}

  /** A REGISTER over TCP was answered with this 2xx. */
  accepted(request: SipRequest, response: SipResponse, path: Path): void {
    for (const value of request.list('contact')) {
      const contact = parseNameAddr(value);
      const key = keyOf(contact?.uri ?? '');
      if (key === null || !contact) continue;
      this.forget(key);
      const expires = Number.parseInt(
        contact.parameters.get('expires') ?? response.get('expires') ?? request.get('expires') ?? '',
        10,
      );
      const expiresSec = Math.min(Number.isNaN(expires) ? DEFAULT_EXPIRES_SEC : expires, MAX_EXPIRES_SEC);
      if (expiresSec <= 0) continue;
      const timer = this.clock.after(expiresSec * 1000, () => this.forget(key));
      this.entries.set(key, { path, timer, unwatch: path.onClosed(() => this.forget(key)) });
    }
  }

  /** The connection of a registered contact; null when there is none. */
  pathFor(uri: string): Path | null {
    if (this.entries.size === 0) return null;
    const key = keyOf(uriOf(uri));
    return key === null ? null : (this.entries.get(key)?.path ?? null);
  }

  uses(address: string, port: number): boolean {
    return [...this.entries.values()].some(({ path }) => path.address === address && path.port === port);
  }

  clear(): void {
    for (const key of [...this.entries.keys()]) this.forget(key);
  }

  private forget(key: string): void {
    const entry = this.entries.get(key);
    if (!entry) return;
    this.entries.delete(key);
    entry.timer.cancel();
    entry.unwatch();
  }
}

/** `user@host:port`. */
function keyOf(uriText: string): string | null {
  const uri = parseUri(uriText);
  return uri && uri.user !== '' ? `${uri.user}@${uri.host}:${uri.port ?? ''}` : null;
}
