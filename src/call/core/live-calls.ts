import { withDeadline } from '../../../net/deadline.js';
import type { CallLeg } from '../../../sip/leg.js';
import type { Call, CallPhone } from './call.js';
import type { CallCommand, CallCommands, CommandResult } from './command.js';
import { CallEnded } from './outcome.js';

/** Longer than the limits of BYE and of closing the agent together, which bound the end of a call. */
const endingLimitMs = 10_000;
/** How long a hangup by the API waits for the final record: longer than BYE and its response take, shorter than an HTTP client waits. */
const hangupLimitMs = 2_000;

/** The calls of this process that have not ended. */
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

  /** Hangs up calls that another node has closed, because this one was silent for too long. */
  endLost(callIds: readonly string[]): void {
    for (const id of callIds) this.#calls.get(id)?.end({ cause: 'system_restart', source: 'system' });
  }

  /** Resolves when no call is left. When `hangUp` aborts, the remaining calls end with `system_shutdown`, within a limit. */
  async drain(hangUp: AbortSignal): Promise<void> {
    await this.#empty(hangUp);
    if (this.#calls.size === 0) return;
    for (const call of this.#calls.values()) call.end({ cause: 'system_shutdown', source: 'system' });
    await withDeadline(endingLimitMs, 'the end of every call', null, (limit) => this.#empty(limit)).catch(() => {});
  }

  /** Resolves when the record of the call is final, or after `limitMs`. */
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
