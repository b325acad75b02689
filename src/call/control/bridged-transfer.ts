/** Checks and dials the target of a transfer, and bridges the party with it, when REFER is refused or fails. */
import type { TransferFallback } from '../core/transfer-fallback.js';
import { ChildCall, type ChildCallDeps } from '../dial/child-call.js';
import { LegBridge } from '../dial/leg-bridge.js';
import type { CallParty } from '../party/party.js';
import { numberIn } from './transfer-destination.js';

const ringTimeoutSec = 60;

export class BridgedTransfer implements TransferFallback {
  constructor(
    private readonly party: CallParty,
    private readonly endpointId: string,
    private readonly deps: ChildCallDeps,
  ) {}

  async refusal(to: string): Promise<string | null> {
    const { facts, mode, leg } = this.party;
    if (leg === null) return 'The call is not answered.';
    return this.deps.refusal(facts.organizationId, mode, { to: numberIn(to) ?? to, from: null });
  }

  async join(to: string, replaces: string | undefined, onCall: (id: string) => void): Promise<void> {
    const { party, endpointId, deps } = this;
    const { call, control } = party;
    const target = {
      to: /^sips?:/i.test(to) ? to : (numberIn(to) ?? to),
      sendDigits: null,
      auth: null,
      status: null,
      replaces,
    };
    const parent = { party, endpointId, status: () => {} };
    const child = new ChildCall(parent, { from: null, timeoutSec: ringTimeoutSec }, target, deps, call.signal);
    onCall(child.call.id);
    call.beside(() => child.closed);
    const callee = await child.answered;
    try {
      await control.replaceAll(new LegBridge(party, callee, {}));
      call.check();
    } catch (error) {
      child.call.hangup('system');
      throw error;
    }
    void child.call.ended.then(call.guarded(() => call.end({ cause: 'transferred', source: 'callee' })));
  }
}
