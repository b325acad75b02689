import type { Call } from './call.js';
import type { CallCommand, CommandResult, LiveCalls } from './command.js';

/** The calls of this process that have not ended. One owner: `inbound.ts` adds and removes. */
export class LiveCallTable implements LiveCalls {
  readonly #calls = new Map<string, Call>();
  #drained: (() => void) | null = null;

  get count(): number {
    return this.#calls.size;
  }

  add(call: Call): void {
    this.#calls.set(call.id, call);
  }

  remove(call: Call): void {
    this.#calls.delete(call.id);
    if (this.#calls.size === 0) this.#drained?.();
  }

  async command(callId: string, command: CallCommand): Promise<CommandResult> {
    const call = this.#calls.get(callId);
    if (call === undefined)
      return { ok: false, code: 'not_running', message: 'The call is not running on this server.' };
    if (command.kind === 'hangup') {
      call.end({ cause: 'normal_clearing', source: 'api' });
      return { ok: true };
    }
    if (call.commands === null) return { ok: false, code: 'not_answered', message: 'The call is not answered yet.' };
    return call.commands(command);
  }

  /** Resolves when no call is left, or after `graceMs`; then what is left is ended with `system_shutdown` and waited for. */
  async drain(graceMs: number): Promise<void> {
    const empty = (limitMs: number): Promise<void> =>
      new Promise((resolve) => {
        if (this.#calls.size === 0) return resolve();
        const timer = setTimeout(resolve, limitMs);
        this.#drained = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    await empty(graceMs);
    for (const call of this.#calls.values()) call.end({ cause: 'system_shutdown', source: 'system' });
    await empty(endingLimitMs);
  }
}

/** A call's own end is bounded by the limits of BYE and of the agent's close; this is above their sum. */
const endingLimitMs = 10_000;
