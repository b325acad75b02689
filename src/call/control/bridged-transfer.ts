/** Checks and dials the target of a transfer, and bridges the far side with it when REFER is refused. */
import { keyOfInfo } from '../core/leg-requests.js';
import { CallEnded } from '../core/outcome.js';
import type { CallParty } from '../core/party.js';
import { heardKey } from '../core/party-events.js';
import type { TransferFallback } from '../core/transfer-fallback.js';
import { type ChildCallDeps, DialledCall } from '../dial/child-call.js';
import { JoinedLegs } from '../dial/leg-bridge.js';
import { numberIn } from './transfer-destination.js';

const ringTimeoutSec = 60;

export interface BridgedTransferDeps {
  dialling: ChildCallDeps;
  /** The far side; null until an outbound call is answered. */
  line(): CallParty | null;
  endpointId: string;
}

export class BridgedTransfer implements TransferFallback {
  constructor(private readonly rules: BridgedTransferDeps) {}

  refusal(to: string): string | null {
    const line = this.rules.line();
    if (line === null) return 'The call is not answered.';
    const { facts, mode } = line;
    return this.rules.dialling.refusal(facts.organizationId, mode, { to: numberIn(to) ?? to, from: null });
  }

  async join(to: string, replaces: string | undefined, onCall: (id: string) => void): Promise<void> {
    const line = this.rules.line();
    const leg = line?.leg ?? null;
    if (line === null || leg === null) throw new CallEnded({ cause: 'unspecified', source: 'system' });
    const { call } = line;
    const target = {
      to: /^sips?:/i.test(to) ? to : (numberIn(to) ?? to),
      sendDigits: null,
      auth: null,
      status: null,
      replaces,
    };
    const stage = { line, endpointId: this.rules.endpointId, status: () => {} };
    const wish = { from: null, timeoutSec: ringTimeoutSec };
    const callee = new DialledCall(stage, wish, target, this.rules.dialling, call.signal);
    onCall(callee.call.id);
    call.beside(() => callee.closed);
    const second = await callee.answered;
    await call.handOver();
    if (call.ending !== null) throw new CallEnded({ cause: 'unspecified', source: 'system' });
    const joined = new JoinedLegs(line, second, {
      signal: call.signal,
      onInfoKey: (digit) => heardKey(callee.call, digit, 'info'),
    });
    call.beside(() => joined.stop());
    leg.onInfo(
      call.guarded((info) => {
        const digit = keyOfInfo(info);
        if (digit === null) return;
        heardKey(call, digit, 'info');
        joined.pressed(digit);
      }),
    );
    void callee.call.ended.then(call.guarded(() => call.end({ cause: 'transferred', source: 'callee' })));
  }
}
