/**
 * The registrar (RFC 3261 10.3): softphones and PBXs send REGISTER with their contacts and the password of their trunk, and can then be
 * called. `locations.ts` stores the contacts.
 */

import type { Challenger } from '../auth/challenger.js';
import { type HeaderLines, listElements, nameAddress } from '../drachtio/header.js';
import type { Stack } from '../drachtio/types.js';
import { parseUri } from '../inbound/identity.js';
import type { Peer } from '../leg.js';
import type { TrunkTable } from '../trunk/trunk-table.js';
import { type Binding, contactKey, inOrder } from './bindings.js';
import type { Locations } from './locations.js';

export interface RegistrarLimits {
  /** A shorter expiry is answered 423. Default 30. */
  minExpiresSec?: number;
  /** A longer expiry is cut to this. Default 3600. */
  maxExpiresSec?: number;
  /** Contacts per user. Default 10. */
  maxContacts?: number;
}

export interface RegisterRequest {
  uri: string;
  headers: HeaderLines;
  peer: Peer;
  server?: Stack;
}

/** The answer to a REGISTER; a header may be sent on several lines. */
export interface RegistrarAnswer {
  status: number;
  reason?: string;
  headers: Record<string, string | string[]>;
}

export class Registrar {
  readonly #minSec: number;
  readonly #maxSec: number;
  readonly #maxContacts: number;

  constructor(
    private readonly trunks: TrunkTable,
    private readonly challenger: Challenger,
    private readonly locations: Locations,
    limits: RegistrarLimits = {},
  ) {
    this.#minSec = limits.minExpiresSec ?? 30;
    this.#maxSec = limits.maxExpiresSec ?? 3600;
    this.#maxContacts = limits.maxContacts ?? 10;
  }

  /** Answers one REGISTER; either all of its contacts are stored or none (RFC 3261 10.3 step 7). */
  async register(request: RegisterRequest): Promise<RegistrarAnswer> {
    const { headers } = request;
    const target = parseUri(request.uri);
    if (!target || target.scheme === 'tel') return { status: 416, headers: {} };
    const required = listElements(headers.get('require')).filter((option) => option.toLowerCase() !== 'path');
    if (required.length > 0) return { status: 420, headers: { Unsupported: required.join(', ') } };
    const to = nameAddress(headers.get('to')?.[0]);
    const record = to && parseUri(to.uri);
    // RFC 3261 10.2: an address of record is a SIP or SIPS URI
    if (!record || record.scheme === 'tel') return { status: 400, reason: 'To is not a SIP URI', headers: {} };
    const verdict = this.challenger.verify(
      { method: 'REGISTER', uri: request.uri, authorization: headers.get('authorization') },
      (username) => this.trunks.withUsername(username)?.password ?? undefined,
    );
    if (verdict.kind === 'missing' || verdict.kind === 'stale') {
      return { status: 401, headers: { 'WWW-Authenticate': this.challenger.challenges(verdict.kind === 'stale') } };
    }
    if (verdict.kind === 'wrong') return { status: 403, headers: {} };
    // A phone may register only itself: the address of record must be the user of the credentials.
    if (record.user !== verdict.username) return { status: 403, headers: {} };
    return this.#bind(verdict.username, record.host, request);
  }

  async #bind(username: string, domain: string, { headers, peer, server }: RegisterRequest): Promise<RegistrarAnswer> {
    const callId = headers.get('call-id')?.[0] ?? '';
    const cseq = Number.parseInt(headers.get('cseq')?.[0] ?? '', 10);
    if (!callId || !Number.isSafeInteger(cseq)) return { status: 400, headers: {} };
    const written = listElements(headers.get('contact'));
    const defaultSec = seconds(headers.get('expires')?.[0]);
    const path = listElements(headers.get('path'));
    const now = await this.locations.of(username);
    const isOld = (binding: Binding) => binding.callId === callId && cseq <= binding.cseq;

    if (written.includes('*')) {
      if (written.length > 1 || defaultSec !== 0) return { status: 400, headers: {} };
      if (now.some(isOld)) return { status: 500, headers: {} };
      await this.locations.change(username, { set: [], removed: now });
      return listed([]);
    }
    const set: Binding[] = [];
    const removed: Binding[] = [];
    const next = new Map(now.map((binding) => [contactKey(binding.contact), binding]));
    for (const element of written) {
      const contact = nameAddress(element);
      const uri = contact && parseUri(contact.uri);
      if (!contact || !uri || uri.scheme === 'tel') return { status: 400, headers: {} };
      const key = contactKey(contact.uri);
      const wished = seconds(contact.params.expires) ?? defaultSec ?? this.#maxSec;
      const known = next.get(key);
      if (known && isOld(known)) return { status: 500, headers: {} };
      if (wished === 0) {
        if (known) removed.push(known);
        next.delete(key);
        continue;
      }
      if (wished < this.#minSec) return { status: 423, headers: { 'Min-Expires': String(this.#minSec) } };
      const binding: Binding = {
        contact: contact.uri,
        domain,
        peer,
        ...(server === undefined ? {} : { server }),
        ...(path.length === 0 ? {} : { path }),
        callId,
        cseq,
        priority: priority(contact.params.q),
        expiresAtMs: performance.now() + Math.min(wished, this.#maxSec) * 1000,
      };
      next.set(key, binding);
      set.push(binding);
    }
    if (next.size > this.#maxContacts) return { status: 403, reason: 'Too many contacts', headers: {} };
    if (!(await this.locations.change(username, { set, removed }))) {
      return { status: 503, headers: { 'Retry-After': '60' } };
    }
    const answer = listed(inOrder([...next.values()]));
    // RFC 3327 5.3
    if (path.length > 0) Object.assign(answer.headers, { Path: path.join(', '), Supported: 'path' });
    return answer;
  }
}

/** 200 with every unexpired binding; also the answer to a query (a REGISTER without Contact). */
function listed(bindings: readonly Binding[]): RegistrarAnswer {
  const contacts = bindings.map((binding) => {
    const leftSec = Math.max(1, Math.round((binding.expiresAtMs - performance.now()) / 1000));
    return `<${binding.contact}>;expires=${leftSec}`;
  });
  return {
    status: 200,
    headers: { ...(contacts.length > 0 ? { Contact: contacts.join(', ') } : {}), Date: new Date().toUTCString() },
  };
}

/** Delta-seconds; a malformed value counts as absent (RFC 3261 20.19 allows 3600, our default). */
function seconds(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,10}$/.test(text.trim()) ? Number(text) : undefined;
}

function priority(q: string | undefined): number {
  const value = Number.parseFloat(q ?? '1');
  return value >= 0 && value <= 1 ? value : 1;
}
