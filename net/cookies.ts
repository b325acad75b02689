/**
 * Cookies of one conversation with web servers (RFC 6265): what they set comes back to them, by domain, path, `Secure` and expiry. A domain
 * that many share, such as `co.uk`, sets nothing. Bounded: a server cannot fill the memory with them.
 */
import { CookieJar } from 'tough-cookie';

/** Of one conversation. */
const mostCookies = 50;
/** RFC 6265 section 6.1: what every client should take, in bytes of name, value and attributes. */
const longestCookie = 4096;

export class Cookies {
  /** Most conversations have none. */
  private jar: CookieJar | null = null;

  /** The value of `Cookie` for a request to this address; empty: there is none. */
  headerFor(url: URL): string {
    return this.jar?.getCookieStringSync(url.href) ?? '';
  }

  /** What an answer from this address set. A cookie that is malformed, too long, or of somebody else's domain is left out. */
  keep(url: URL, setCookies: readonly string[]): void {
    for (const setCookie of setCookies) {
      if (Buffer.byteLength(setCookie) > longestCookie) continue;
      this.jar ??= new CookieJar();
      if ((this.jar.serializeSync()?.cookies.length ?? 0) >= mostCookies) return;
      this.jar.setCookieSync(setCookie, url.href, { ignoreError: true });
    }
  }
}
