import type { FastifyRequest } from 'fastify';
import type { FollowUp, StatusCallback } from '../../webhook/actions.js';
import { invalid } from '../errors.js';
import { targetProblem } from '../rules/targets.js';

/** The maximum number of warnings of one request. */
const mostWarnings = 20;

/** A form with Twilio's parameters; throws `ApiError` with the invalid field. */
export class Form {
  private readonly fields: URLSearchParams;
  private readonly read = new Set<string>();

  constructor({ body }: FastifyRequest) {
    this.fields = new URLSearchParams(typeof body === 'string' ? body : '');
  }

  get(name: string): string | null {
    this.read.add(name);
    const value = this.fields.get(name);
    return value === '' ? null : value;
  }

  /** null if absent. Values other than `true` are false, as for Twilio. */
  flag(name: string): boolean | null {
    const value = this.get(name);
    return value === null ? null : value.toLowerCase() === 'true';
  }

  all(name: string): string[] {
    this.read.add(name);
    return this.fields.getAll(name).flatMap((each) => each.split(/[\s,]+/).filter((word) => word !== ''));
  }

  /** One of these words, ignoring case; null if absent. */
  word<const T extends string>(name: string, words: readonly T[]): T | null {
    const value = this.get(name)?.toLowerCase();
    if (value === undefined) return null;
    return words.find((word) => word.toLowerCase() === value) ?? refuse(name, `must be ${words.join(' or ')}`);
  }

  /** A warning for each parameter that was given but never read, for the record of the call. */
  get warnings(): string[] {
    const unread = [...new Set(this.fields.keys())].filter((name) => !this.read.has(name));
    return unread.slice(0, mostWarnings).map((name) => `${name.slice(0, 100)} of the request has no effect`);
  }

  required(name: string): string {
    return this.get(name) ?? refuse(name, 'is required');
  }

  /** A URL to request; null if absent. */
  followUp(name: string, methodName: string, allowPrivate: boolean): FollowUp | null {
    const url = this.get(name);
    if (url === null) return null;
    const problem = targetProblem(url, { schemes: ['http', 'https'], allowPrivate });
    if (problem !== null) refuse(name, problem);
    return { url: new URL(url).href, method: this.method(methodName) };
  }

  /** The status callback and its events; `usual` if none are named. */
  statusCallback(name: string, usual: string[], allowPrivate: boolean): StatusCallback | null {
    const to = this.followUp(name, `${name}Method`, allowPrivate);
    const events = this.all(`${name}Event`);
    return to === null ? null : { to, events: events.length > 0 ? events : usual };
  }

  method(name: string): 'GET' | 'POST' {
    const value = (this.get(name) ?? 'POST').toUpperCase();
    return value === 'GET' || value === 'POST' ? value : refuse(name, 'must be GET or POST');
  }

  seconds(name: string, minimum: number, maximum: number, absent: number): number {
    const value = this.get(name);
    if (value === null) return absent;
    const seconds = Number(value);
    return Number.isFinite(seconds)
      ? Math.min(maximum, Math.max(minimum, seconds))
      : refuse(name, 'must be a number of seconds');
  }
}

export function refuse(path: string, message: string): never {
  throw invalid({ path, message });
}
