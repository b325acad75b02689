import { withDeadline } from '../../../net/deadline.js';
import type { CallLeg } from '../../../sip/leg.js';
import type { Call, CallPhone } from './call.js';
import type { CallCommand, CallCommands, CommandResult } from './command.js';
import { CallEnded } from './outcome.js';

/** A call's own end is bounded by the limits of BYE and of the agent's close; this is above their sum. */
const endingLimitMs = 10_000;
/** Who asks for a hangup by the API waits so long for the final record: longer than a BYE and its answer take, shorter than a client's patience. */
const hangupLimitMs = 2_000;

/** The calls of this process that have not ended. One owner: `inbound.ts` adds and removes. */
export class LiveCallTable implements CallCommands {
  readonly #calls = new Map<string, Call>();
  readonly #endings = new Map<Call, (() => void)[]>();
  #onEmpty: (() => void) | null = null;

  get count(): number {
    return this.#calls.size;
  }

  add(call: Call): void {
    this.#calls.set(call.id, call);
  }

  remove(call: Call): void {
    this.#calls.delete(call.id);
    for (const ended of this.#endings.get(call) ?? []) ended();
    this.#endings.delete(call);
    if (this.#calls.size === 0) this.#onEmpty?.();
  }

  /** Throws `CallEnded` when there are more calls than `maxCalls`; null: no limit. */
  checkCapacity(maxCalls: number | null): void {
    if (maxCalls !== null && this.count > maxCalls)
      throw new CallEnded({ cause: 'overload', source: 'system', detail: 'The server carries all the calls it may.' });
  }

  /** The phone of this leg; null when no call has it. Searches all calls: it is needed only when phones replace each other. */
  phoneOf(leg: CallLeg): { call: Call; phone: CallPhone } | null {
    for (const call of this.#calls.values()) {
      const phone = call.phones.get(leg);
      if (phone !== undefined) return { call, phone };
    }
    return null;
  }

  async command(callId: string, command: CallCommand): Promise<CommandResult> {
    const call = this.#calls.get(callId);
    if (call === undefined)
      return { ok: false, code: 'not_running', message: 'The call is not running on this server.' };
    if (command.kind === 'hangup') {
      call.hangup('api');
      await this.#ended(call, hangupLimitMs);
      return { ok: true };
    }
    if (call.commands === null) return { ok: false, code: 'not_answered', message: 'The call is not answered yet.' };
    return call.commands(command);
  }

  /** Resolves when no call is left, or when `hangUp` aborted and every call had its time to end with `system_shutdown`. */
  async drain(hangUp: AbortSignal): Promise<void> {
    await this.#empty(hangUp);
    if (this.#calls.size === 0) return;
    for (const call of this.#calls.values()) call.end({ cause: 'system_shutdown', source: 'system' });
    await withDeadline(endingLimitMs, 'the end of every call', null, (limit) => this.#empty(limit)).catch(() => {});
  }

  /** Resolves when the call has ended and its record is final, or after this time. */
  #ended(call: Call, limitMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, limitMs);
      const ended = (): void => {
        clearTimeout(timer);
        resolve();
      };
      this.#endings.set(call, [...(this.#endings.get(call) ?? []), ended]);
    });
  }

  #empty(limit: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (this.#calls.size === 0 || limit.aborted) return resolve();
      this.#onEmpty = resolve;
      limit.addEventListener('abort', () => resolve(), { once: true });
    });
  }
}
