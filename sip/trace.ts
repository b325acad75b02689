/**
 * The SIP messages of each call, for debugging. Bounded three ways: messages per call, accepted calls, and the newest dialogs that are not
 * calls yet (messages from scanners fill only those).
 */
import type { SipTraceEntry } from './leg.js';

export interface TraceLimits {
  /** Messages kept per call: the first ones, then the newest. Default 200. */
  messagesPerCall?: number;
  /** Calls kept. Default 5,000. */
  calls?: number;
  /** Dialogs kept that are not calls yet. Default 256. */
  candidates?: number;
  /** How long a trace stays after the call's end. Default 600,000. */
  lingerMs?: number;
}

/** The start of a call explains most of it: this many first messages are never dropped. */
const openingMessages = 20;

export class SipTrace {
  readonly #limits: Required<TraceLimits>;
  readonly #kept = new Map<string, SipTraceEntry[]>();
  readonly #candidates = new Map<string, SipTraceEntry[]>();
  readonly #freeing = new Map<string, NodeJS.Timeout>();

  constructor(limits: TraceLimits = {}) {
    this.#limits = { messagesPerCall: 200, calls: 5000, candidates: 256, lingerMs: 600_000, ...limits };
  }

  /** Records a message as it crossed the wire. Only dialogs that begin with an INVITE are kept. */
  record(entry: SipTraceEntry): void {
    const callId = /^(?:call-id|i)[ \t]*:[ \t]*(\S+)/im.exec(entry.message)?.[1];
    if (!callId) return;
    let entries = this.#kept.get(callId) ?? this.#candidates.get(callId);
    if (!entries) {
      if (!entry.message.startsWith('INVITE ')) return;
      entries = [];
      this.#candidates.set(callId, entries);
      dropOldest(this.#candidates, this.#limits.candidates);
    }
    entries.push({ ...entry, message: blanked(entry.message) });
    if (entries.length > this.#limits.messagesPerCall) {
      entries.splice(Math.min(openingMessages, this.#limits.messagesPerCall - 1), 1);
    }
  }

  /** Marks the dialog as a call: its trace stays until the linger time after its end. */
  keep(callId: string): void {
    if (this.#kept.has(callId)) return;
    this.#kept.set(callId, this.#candidates.get(callId) ?? []);
    this.#candidates.delete(callId);
    for (const dropped of dropOldest(this.#kept, this.#limits.calls)) this.#stopFreeing(dropped);
  }

  /** The call ended: its trace is freed after the linger time. */
  ended(callId: string): void {
    if (!this.#kept.has(callId) || this.#freeing.has(callId)) return;
    const timer = setTimeout(() => this.forget(callId), this.#limits.lingerMs);
    timer.unref();
    this.#freeing.set(callId, timer);
  }

  forget(callId: string): void {
    this.#stopFreeing(callId);
    this.#kept.delete(callId);
    this.#candidates.delete(callId);
  }

  /** Oldest first; empty when unknown. */
  of(callId: string): SipTraceEntry[] {
    return [...(this.#kept.get(callId) ?? this.#candidates.get(callId) ?? [])];
  }

  close(): void {
    for (const callId of [...this.#freeing.keys()]) this.#stopFreeing(callId);
    this.#kept.clear();
    this.#candidates.clear();
  }

  #stopFreeing(callId: string): void {
    clearTimeout(this.#freeing.get(callId));
    this.#freeing.delete(callId);
  }
}

function dropOldest(map: Map<string, SipTraceEntry[]>, limit: number): string[] {
  const dropped: string[] = [];
  for (const key of map.keys()) {
    if (map.size <= limit) break;
    map.delete(key);
    dropped.push(key);
  }
  return dropped;
}

/** The message without the values of credentials, the SRTP keys in its SDP (RFC 4568) and the keys of the phone. */
export function blanked(message: string): string {
  return withoutKeys(message)
    .replace(
      /^((?:proxy-)?authorization[ \t]*:)[^\r\n]*(?:\r\n[ \t][^\r\n]*)*/gim,
      (_all, name: string) => `${name} (blanked)`,
    )
    .replace(/^(a=crypto:[^\r\n]*?\binline:)[^\r\n]*/gim, (_all, name: string) => `${name}(blanked)`)
    .replace(/^(k=[^\r\n:]*)[^\r\n]*/gim, '$1:(blanked)');
}

/** Keys in the body of INFO (`application/dtmf-relay`, `application/dtmf`, Nortel's) and of NOTIFY (KPML, RFC 4730), masked in place. */
function withoutKeys(message: string): string {
  const type =
    /^(?:content-type|c)[ \t]*:[ \t]*application\/(dtmf(?:-relay)?|vnd\.nortelnetworks\.digits|kpml-response\+xml)/im.exec(
      message,
    )?.[1];
  if (type === undefined) return message;
  const bodyAt = message.indexOf('\r\n\r\n') + 4;
  const body = message.slice(bodyAt);
  const masked =
    type.toLowerCase() === 'dtmf-relay'
      ? body.replace(
          /^([ \t]*signal[ \t]*=)([^\r\n]*)/gim,
          (_all, name: string, keys: string) => name + crossedOut(keys),
        )
      : crossedOut(body);
  return message.slice(0, bodyAt) + masked;
}

function crossedOut(text: string): string {
  return text.replace(/[^\s]/g, 'x');
}
