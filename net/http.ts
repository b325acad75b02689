/**
 * Outgoing HTTP to addresses that users configure: webhooks, media files, provider APIs. Every connection goes to a checked address
 * (`safe-lookup.ts`), redirects are followed only where allowed and are checked again, and time, size and decompression are bounded.
 */
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate } from 'node:zlib';
import fetch, { type Response } from 'node-fetch';
import type { Cookies } from './cookies.js';
import { BlockedAddressError, type LookupFunction, refuseInternalLiteral, safeLookup } from './safe-lookup.js';

export interface HttpRequest {
  /** `http:` or `https:`; a user name and password in it are sent as basic authentication. */
  url: string;
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  headers?: Readonly<Record<string, string>>;
  body?: string | Buffer;
  /** From the DNS look-up to the last byte of the body, including redirects. */
  timeoutMs: number;
  /** A larger body is an error, before or after decompression. */
  maxBodyBytes: number;
  /** Redirects to follow, each checked like the first address; 0 returns the 3xx itself. */
  maxRedirects?: number;
  /** Cookies to send and to store, at every hop. */
  cookies?: Cookies;
  /** The call that it belongs to, and what it is, for whoever makes traces; not used here. */
  trace?: { callId: string; name: string };
  /** Header fields that are valid for one address and body only, such as a signature; called again at every hop. */
  sign?: (hop: RequestHop) => Readonly<Record<string, string>>;
  /** The body of a 200 is handed on as it arrives, unless it is compressed, and is empty in the answer. */
  parts?: BodyParts;
}

export interface BodyParts {
  /** Must not throw. */
  each(part: Uint8Array, headers: HttpAnswer['headers']): void;
  /** The limit between two parts; `timeoutMs` is that of the first one. */
  silenceMs: number;
}

/** One request in a chain of redirects. */
export interface RequestHop {
  url: string;
  /** Absent when the request has no body. */
  body?: string | Buffer;
}

export interface HttpAnswer {
  status: number;
  /** Names in lower case. */
  headers: Readonly<Record<string, string>>;
  body: Buffer;
  /** The address that answered, after redirects. */
  url: string;
}

export interface SafeHttp {
  /** Resolves with any status. Rejects with `HttpError`. */
  request(request: HttpRequest, signal?: AbortSignal): Promise<HttpAnswer>;
}

/** Why a request got no answer. */
export class HttpError extends Error {
  constructor(
    /**
     * `connect`: no connection or no such name; nothing was sent. `broken`: the connection failed later. `timeout`: the time limit passed.
     * `aborted`: by the caller's signal. `blocked_address`, `bad_url`, `too_many_redirects`, `body_too_large`, `bad_encoding` as named.
     */
    readonly code:
      | 'connect'
      | 'broken'
      | 'timeout'
      | 'aborted'
      | 'blocked_address'
      | 'bad_url'
      | 'too_many_redirects'
      | 'body_too_large'
      | 'bad_encoding',
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = 'HttpError';
  }
}

export interface SafeHttpOptions {
  /** Allows private, loopback and link-local addresses. */
  allowPrivate: boolean;
  /** For tests. */
  lookup?: LookupFunction;
}

/** Reason of every abort here; without one each request would make an exception with a stack. */
const over = new Error('The request is over.');

export function createSafeHttp({ allowPrivate, lookup = safeLookup }: SafeHttpOptions): SafeHttp {
  // One connection per request: a kept one would outlive the check of its address, and could close under the next request.
  const guard = allowPrivate ? {} : { lookup };
  const agents = { http: new HttpAgent(guard), https: new HttpsAgent(guard) };

  async function once(url: URL, request: HttpRequest, signal: AbortSignal): Promise<Response> {
    if (!allowPrivate) refuseInternalLiteral(url);
    const { username, password } = url;
    const bare = new URL(url);
    bare.username = '';
    bare.password = '';
    const cookie = request.cookies?.headerFor(bare) ?? '';
    const authorization = `Basic ${Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`).toString('base64')}`;
    const response = await fetch(bare, {
      method: request.method,
      headers: {
        'accept-encoding': 'identity',
        'user-agent': 'Trunkline',
        ...(username === '' ? {} : { authorization }),
        ...(cookie === '' ? {} : { cookie }),
        ...request.headers,
        ...request.sign?.({ url: url.href, ...(request.body === undefined ? {} : { body: request.body }) }),
      },
      body: request.body ?? null,
      redirect: 'manual',
      compress: false, // decompressed below, with a limit
      agent: bare.protocol === 'https:' ? agents.https : agents.http,
      signal: signal as never, // the types of node-fetch describe an older AbortSignal
    });
    request.cookies?.keep(bare, response.headers.raw()['set-cookie'] ?? []);
    return response;
  }

  async function follow(
    first: URL,
    request: HttpRequest,
    signal: AbortSignal,
    onPart: BodyParts['each'] | null,
  ): Promise<HttpAnswer> {
    let url = first;
    let asked = request;
    for (let redirects = 0; ; redirects += 1) {
      const response = await once(url, asked, signal).catch((error: unknown) => {
        throw redirects === 0 ? error : afterRedirect(error);
      });
      const location = isRedirect(response.status) ? response.headers.get('location') : null;
      if (location === null || !request.maxRedirects) return answerOf(response, url, request.maxBodyBytes, onPart);
      discard(response);
      if (redirects >= request.maxRedirects)
        throw new HttpError('too_many_redirects', `More than ${request.maxRedirects} redirects.`);
      const next = parseUrl(location, url);
      next.hash = ''; // never sent, and not part of what is signed
      asked = redirected(asked, response.status, next.origin === url.origin);
      url = next;
    }
  }

  return {
    async request(request, signal) {
      const url = parseUrl(request.url);
      const stop = new AbortController();
      const onAbort = () => stop.abort(over);
      let timedOut: string | null = null;
      const limit = (ms: number, what: string) =>
        setTimeout(() => {
          timedOut = `${what} within ${ms} ms.`;
          stop.abort(over);
        }, ms);
      let timer = limit(request.timeoutMs, 'No complete answer');
      const { parts } = request;
      const onPart: BodyParts['each'] | null =
        parts === undefined
          ? null
          : (part, headers) => {
              clearTimeout(timer);
              timer = limit(parts.silenceMs, 'Nothing more came');
              parts.each(part, headers);
            };
      signal?.addEventListener('abort', onAbort, { once: true });
      try {
        if (signal?.aborted) stop.abort(over);
        return await follow(url, request, stop.signal, onPart);
      } catch (error) {
        if (error instanceof HttpError) throw error;
        if (timedOut !== null) throw new HttpError('timeout', timedOut);
        if (stop.signal.aborted) throw new HttpError('aborted', 'The request was aborted.');
        throw failureOf(error);
      } finally {
        clearTimeout(timer);
        signal?.removeEventListener('abort', onAbort);
        stop.abort(over); // closes what is still open of the last response
      }
    },
  };
}

function parseUrl(text: string, base?: URL): URL {
  if (!URL.canParse(text, base?.href)) throw new HttpError('bad_url', 'The address is not a URL.');
  const url = new URL(text, base);
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    throw new HttpError('bad_url', 'The address is not an http: or https: URL.');
  return url;
}

/**
 * A failure to connect after an earlier hop was served counts as `broken`: the request has had an effect and must not be repeated as if
 * nothing was sent.
 */
function afterRedirect(error: unknown): unknown {
  if (error instanceof HttpError || (error as Error).name === 'AbortError') return error;
  const { code, message, cause } = failureOf(error);
  return code === 'connect'
    ? new HttpError('broken', `${message} The request was redirected to that address.`, { cause })
    : error;
}

function isRedirect(status: number): boolean {
  return status === 301 || status === 302 || status === 303 || status === 307 || status === 308;
}

/** The request for the next hop (RFC 9110 section 15.4); another origin gets none of our credentials. */
function redirected(request: HttpRequest, status: number, sameOrigin: boolean): HttpRequest {
  const { body, ...rest } = request;
  const keepsMethod = status === 307 || status === 308 || request.method === 'GET';
  const headers = Object.fromEntries(
    Object.entries(request.headers ?? {}).filter(
      ([name]) =>
        (sameOrigin || !/^(authorization|cookie|x-.*|webhook-.*)$/i.test(name)) &&
        (keepsMethod || !/^content-/i.test(name)),
    ),
  );
  if (!keepsMethod) return { ...rest, headers, method: 'GET' };
  return { ...rest, headers, ...(body === undefined ? {} : { body }) };
}

async function answerOf(
  response: Response,
  url: URL,
  maxBodyBytes: number,
  onPart: BodyParts['each'] | null,
): Promise<HttpAnswer> {
  const headers = Object.fromEntries([...response.headers].map(([name, value]) => [name.toLowerCase(), value]));
  const isPlain = /^(identity)?$/i.test(headers['content-encoding']?.trim() ?? '');
  const handOn = onPart !== null && response.status === 200 && isPlain ? onPart : null;
  const body = await readBody(response, maxBodyBytes, handOn && ((part) => handOn(part, headers)));
  return {
    status: response.status,
    headers,
    body: await unpack(body, headers['content-encoding'], maxBodyBytes),
    url: url.href,
  };
}

async function readBody(
  response: Response,
  maxBodyBytes: number,
  handOn: ((part: Buffer) => void) | null,
): Promise<Buffer> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of response.body ?? []) {
    const chunk = part as Buffer;
    bytes += chunk.length;
    if (bytes > maxBodyBytes) {
      discard(response);
      throw new HttpError('body_too_large', `The body is larger than ${maxBodyBytes} bytes.`);
    }
    if (handOn === null) parts.push(chunk);
    else handOn(chunk);
  }
  return Buffer.concat(parts);
}

const unpackers = {
  gzip: promisify(gunzip),
  'x-gzip': promisify(gunzip),
  deflate: promisify(inflate),
  br: promisify(brotliDecompress),
} as const;

/** We ask for no encoding; the body of a server that compresses nevertheless is decompressed, up to the size limit. */
async function unpack(body: Buffer, encoding: string | undefined, maxOutputLength: number): Promise<Buffer> {
  const name = encoding?.trim().toLowerCase() ?? '';
  if (name === '' || name === 'identity' || body.length === 0) return body;
  const unpacker = Object.hasOwn(unpackers, name) ? unpackers[name as keyof typeof unpackers] : null;
  if (unpacker === null) throw new HttpError('bad_encoding', 'The body has an unknown content-encoding.');
  try {
    return await unpacker(body, { maxOutputLength });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE')
      throw new HttpError('body_too_large', `The body is larger than ${maxOutputLength} bytes.`);
    throw new HttpError('bad_encoding', 'The body cannot be decompressed.', { cause: error });
  }
}

/** Closes the connection of a response whose body is not needed. */
function discard(response: Response): void {
  const body = response.body as (NodeJS.ReadableStream & { destroy?(): void }) | null;
  body?.on('error', () => {});
  body?.destroy?.();
}

/** Failures before anything was sent. */
const neverConnected = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EAI_NODATA',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
]);

function failureOf(error: unknown): HttpError {
  const { code, message } = error as NodeJS.ErrnoException;
  if (error instanceof BlockedAddressError || code === 'EBLOCKEDADDRESS')
    return new HttpError('blocked_address', new BlockedAddressError().message);
  if (code !== undefined && neverConnected.has(code))
    return new HttpError('connect', `No connection (${code}).`, { cause: error });
  return new HttpError('broken', `The request failed (${code ?? message ?? 'unknown'}).`, { cause: error });
}
