/** Our own registration with a carrier (RFC 3261 10.2): refreshed, retried after a failure, removed at the end. */
import { randomBytes, randomUUID } from 'node:crypto';
import { listElements, nameAddress, readHeaders } from '../drachtio/header.js';
import type { Stack, StackResponse } from '../drachtio/types.js';
import { escapeUser, parseUri } from '../inbound/identity.js';
import type { NextHop } from '../outbound/next-hop.js';
import { type OutOfDialogReply, sendRequest } from './out-of-dialog-request.js';

export interface RegistrationOptions {
  /** `sip:host[:port][;transport=…]` of the registrar. */
  registrar: string;
  username: string;
  password: string;
  /** The host part of our address of record; the registrar's when absent. */
  domain?: string;
  /** The expiry that we ask for, in seconds. Default 300. */
  expiresSec?: number;
  /** The first wait after a failure; it doubles up to five minutes. Default 5,000. */
  retryMs?: number;
  /** The control connection; null while it is down. */
  stack(): Stack | null;
  /** The next hops to the registrar. Default: its URI. */
  hops?: () => Promise<NextHop[]>;
  onChange(state: RegistrationState): void;
}

/** `detail`: why it is not registered, as a sentence. */
export type RegistrationState = { registered: true } | { registered: false; detail: string };

const maxRetryMs = 300_000;
/** A longer expiry than this is not accepted from a registrar. */
const maxExpiresSec = 86_400;

export class Registration {
  state: RegistrationState = { registered: false, detail: 'Not tried yet.' };
  readonly #identity = { callId: randomUUID(), fromTag: randomBytes(8).toString('hex') };
  #cseq = 0;
  #expiresSec: number;
  #failures = 0;
  #timer: NodeJS.Timeout | null = null;
  #running: Promise<unknown> = Promise.resolve();
  #isClosed = false;

  constructor(private readonly options: RegistrationOptions) {
    this.#expiresSec = options.expiresSec ?? 300;
    this.#plan(0);
  }

  /** Registers at once: the SIP server is back, and a registrar that watched our connection has dropped us. */
  renew(): void {
    this.#plan(0);
  }

  /** Removes the registration if the server is connected. Resolves when that is answered, or after a second. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#timer) clearTimeout(this.#timer);
    if (!this.state.registered || this.options.stack() === null) return;
    const limit = new Promise((resolve) => setTimeout(resolve, 1000).unref());
    await Promise.race([this.#running.then(() => this.#send(0)), limit]);
  }

  #plan(delayMs: number): void {
    if (this.#isClosed) return;
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#running = this.#register();
    }, delayMs);
    this.#timer.unref();
  }

  async #register(): Promise<void> {
    const { response, why } = await this.#send(this.#expiresSec);
    if (this.#isClosed) return;
    if (response?.status === 423 && this.#raise(response)) return this.#plan(0);
    if (response !== null && response.status < 300) {
      this.#failures = 0;
      this.#become({ registered: true });
      const granted = Math.min(maxExpiresSec, grantedSec(response) ?? this.#expiresSec);
      // Early enough for one retry before it expires.
      return this.#plan(Math.max(1, granted * 0.8) * 1000);
    }
    const { registrar, retryMs = 5000 } = this.options;
    const said =
      response === null ? (why ?? 'It did not answer') : `It answered ${response.status} ${response.reason}`.trim();
    this.#become({ registered: false, detail: `${said} (${registrar}).` });
    // RFC 5626 4.5: doubling waits with a random part, so that a registrar's clients do not all return at once after its restart.
    const waitMs = Math.min(maxRetryMs, retryMs * 2 ** this.#failures) * (0.5 + Math.random() / 2);
    this.#failures++;
    const askedMs = response === null ? 0 : retryAfterSec(response) * 1000;
    this.#plan(Math.max(waitMs, Math.min(askedMs, maxRetryMs)));
  }

  async #send(expiresSec: number): Promise<Pick<OutOfDialogReply, 'response' | 'why'>> {
    const stack = this.options.stack();
    if (stack === null) return { response: null, why: 'The SIP server is not connected' };
    const { registrar, username, password } = this.options;
    const uri = parseUri(registrar);
    const address = `sip:${escapeUser(username)}@${this.options.domain ?? bracketed(uri?.host ?? '')}`;
    const { callId, fromTag } = this.#identity;
    const hops = await this.options.hops?.();
    const reply = await sendRequest(stack, {
      method: 'REGISTER',
      uri: registrar,
      ...(hops ? { hops } : {}),
      cseq: this.#cseq + 1,
      credentials: { username, password },
      headers: {
        'Call-ID': callId,
        From: `<${address}>;tag=${fromTag}`,
        To: `<${address}>`,
        // The SIP server replaces `localhost` by its own address.
        Contact: `<sip:${escapeUser(username)}@localhost>;expires=${expiresSec}`,
        Expires: String(expiresSec),
      },
    });
    this.#cseq = reply.cseq;
    return reply;
  }

  /** RFC 3261 10.2.8: adopts the registrar's minimum expiry. False when it names none, or an implausible one. */
  #raise(response: StackResponse): boolean {
    const minimum = Number.parseInt(readHeaders(response.raw).get('min-expires')?.[0] ?? '', 10);
    if (!(minimum > this.#expiresSec && minimum <= maxExpiresSec)) return false;
    this.#expiresSec = minimum;
    return true;
  }

  #become(state: RegistrationState): void {
    const isNews = state.registered !== this.state.registered || this.#failures === 0;
    this.state = state;
    if (isNews) this.options.onChange(state);
  }
}

/** The granted expiry: the `expires` of a Contact, or the Expires header (10.2.4). All our contacts have one address. */
function grantedSec(response: StackResponse): number | null {
  const headers = readHeaders(response.raw);
  const ofContacts = listElements(headers.get('contact'))
    .map((element) => Number.parseInt(nameAddress(element)?.params.expires ?? '', 10))
    .filter((seconds) => seconds > 0);
  const ofHeader = Number.parseInt(headers.get('expires')?.[0] ?? '', 10);
  if (ofContacts.length > 0) return Math.min(...ofContacts);
  return ofHeader > 0 ? ofHeader : null;
}

function retryAfterSec(response: StackResponse): number {
  return Number.parseInt(readHeaders(response.raw).get('retry-after')?.[0] ?? '', 10) || 0;
}

function bracketed(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}
