/** One queue: calls that wait, and callers who dialled the queue and wait for a call. */
import type { Scope } from '../../store/tenants/scope.js';
import type { QueueFacts } from '../../webhook/request-bodies.js';
import type { CallParty } from '../party/party.js';
import { QueueMember } from './queue-member.js';

export class CallQueue {
  readonly createdAt = new Date();
  updatedAt = this.createdAt;
  #members: QueueMember[] = [];
  /** Those who wait for a call, the first comes first. */
  readonly #takers: ((member: QueueMember) => void)[] = [];

  constructor(
    readonly id: string,
    readonly name: string,
    readonly scope: Scope,
    private max: number,
    /** Made by the API, and kept while nobody waits. */
    readonly isKept: boolean,
  ) {}

  get members(): readonly QueueMember[] {
    return this.#members;
  }

  get maxSize(): number {
    return this.max;
  }

  set maxSize(calls: number) {
    this.max = calls;
    this.updatedAt = new Date();
  }

  /** No call waits, and nobody waits for one. */
  get isIdle(): boolean {
    return this.#members.length === 0 && this.#takers.length === 0;
  }

  /** Of the calls that wait now, in seconds. */
  get averageWaitSec(): number {
    const sum = this.#members.reduce((seconds, member) => seconds + member.waitedSec, 0);
    return this.#members.length === 0 ? 0 : Math.round(sum / this.#members.length);
  }

  /** From 1; 0: it does not wait. */
  positionOf(member: QueueMember): number {
    return this.#members.indexOf(member) + 1;
  }

  facts(member: QueueMember): QueueFacts {
    return {
      id: this.id,
      name: this.name,
      position: this.positionOf(member),
      waitedSec: member.waitedSec,
      averageWaitSec: this.averageWaitSec,
      size: this.#members.length,
      maxSize: this.max,
    };
  }

  /** null when as many calls wait as may. */
  enter(party: CallParty, maxSize: number): QueueMember | null {
    if (this.#members.length >= Math.min(this.max, maxSize)) return null;
    const member = new QueueMember(party);
    this.#members.push(member);
    this.#handOver();
    return member;
  }

  /** Back to the front: it was taken, and not connected. */
  reenter(member: QueueMember): void {
    member.wait();
    this.#members.unshift(member);
    this.#handOver();
  }

  /** Idempotent. */
  leave(member: QueueMember): void {
    this.#members = this.#members.filter((each) => each !== member);
  }

  /** The call that has waited longest, as soon as there is one; it is not in the queue any more. Rejects with the reason of `signal`. */
  next(signal: AbortSignal): Promise<QueueMember> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const give = (member: QueueMember) => {
        signal.removeEventListener('abort', giveUp);
        resolve(member);
      };
      const giveUp = () => {
        this.#takers.splice(this.#takers.indexOf(give), 1);
        reject(signal.reason);
      };
      signal.addEventListener('abort', giveUp, { once: true });
      this.#takers.push(give);
      this.#handOver();
    });
  }

  #handOver(): void {
    while (this.#members.length > 0 && this.#takers.length > 0) {
      const [member, give] = [this.#members.shift(), this.#takers.shift()];
      if (member !== undefined) give?.(member);
    }
  }
}
