import { randomBytes } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

const validMs = 60_000;
const most = 10_000;

/**
 * Short-lived tokens that open one event stream each. A browser's EventSource sends no headers, and a key must not be part of a URL; such a
 * token may be, because it is worth nothing after its first use or a minute. They are kept in memory: the stream is of this process too.
 */
export class EventTokens {
  private readonly headers = new Map<string, { headers: IncomingHttpHeaders; untilMs: number }>();

  constructor(private readonly now: () => number = Date.now) {}

  /** A token that stands for the credentials of these headers; undefined when too many are unused. */
  issue({ authorization, 'x-api-key': key, 'x-organization-id': organization }: IncomingHttpHeaders) {
    const nowMs = this.now();
    for (const [token, { untilMs }] of this.headers) {
      if (untilMs > nowMs) break; // the rest is younger
      this.headers.delete(token);
    }
    if (this.headers.size >= most) return undefined;
    const token = randomBytes(24).toString('base64url');
    const untilMs = nowMs + validMs;
    const headers = {
      ...(authorization === undefined ? {} : { authorization }),
      ...(key === undefined ? {} : { 'x-api-key': key }),
      ...(organization === undefined ? {} : { 'x-organization-id': organization }),
    };
    this.headers.set(token, { headers, untilMs });
    return { token, untilMs };
  }

  /** The credentials behind a token, once. */
  redeem(token: string): IncomingHttpHeaders | undefined {
    const found = this.headers.get(token);
    this.headers.delete(token);
    return found && found.untilMs > this.now() ? found.headers : undefined;
  }
}
