/**
 * A cookie jar for one conversation with web servers (RFC 6265): by domain, path, `Secure` and expiry. Cookies for public suffixes such as
 * `co.uk` are refused. Bounded: a server cannot fill the memory with cookies.
 */
import { CookieJar } from 'tough-cookie';

/** Per conversation. */
const mostCookies = 50;
/** RFC 6265 section 6.1: the size every client should support, in bytes of name, value and attributes. */
const longestCookie = 4096;

export class Cookies {
  /** Created with the first cookie: most conversations have none. */
  private jar: CookieJar | null = null;

  /** The `Cookie` header for a request to this address; empty when there are no cookies. */
  headerFor(url: URL): string {
    return this.jar?.getCookieStringSync(url.href) ?? '';
  }

  /** Stores the cookies of a response from this address. A cookie that is malformed, too long, or for a foreign domain is ignored. */
  keep(url: URL, setCookies: readonly string[]): void {
    for (const setCookie of setCookies) {
      if (Buffer.byteLength(setCookie) > longestCookie) continue;
      this.jar ??= new CookieJar();
      if ((this.jar.serializeSync()?.cookies.length ?? 0) >= mostCookies) return;
      this.jar.setCookieSync(setCookie, url.href, { ignoreError: true });
    }
  }
}
