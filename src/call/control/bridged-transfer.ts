/** Somebody else for the far side of a call: whether he may be called, and how the two are joined when the far side does not go by itself. */
import { e164 } from '../../webhook/actions.js';
import { keyOfInfo } from '../agent/conversation.js';
import { CallEnded } from '../core/outcome.js';
import type { CallParty } from '../core/party.js';
import { heardKey } from '../core/party-events.js';
import { DialledCall } from '../dial/child-call.js';
import { JoinedLegs } from '../dial/leg-bridge.js';
import type { DialRules } from '../script/dial.js';

const ringTimeoutSec = 60;

export interface ElsewhereRules {
  dialling: DialRules;
  /** Asked at the time: the line of a call that is dialled comes late. */
  line(): CallParty | null;
  endpointId: string;
}

export class Elsewhere {
  constructor(private readonly rules: ElsewhereRules) {}

  /** Why `to`, a number or a SIP URI, may not be called; null: it may. */
  refusal(to: string): string | null {
    const line = this.rules.line();
    if (line === null) return 'The call is not answered.';
    const { facts, mode } = line;
    return this.rules.dialling.refusal(facts.organizationId, mode, { to: numberIn(to) ?? to, from: null });
  }

  /**
   * Calls `to`, while the agent goes on; resolves when the two talk, and the agent is gone. Rejects with `CallEnded` when nobody answered.
   * `onCall` hears the id of the record that the new call has.
   */
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

/** The number that a number, `tel:` or SIP URI asks for, in E.164; null: a name, or a short number. */
export function numberIn(to: string): string | null {
  const user = /^(?:sips?|tel):([^@;?]*)/i.exec(to)?.[1] ?? to;
  const digits = decoded(user).replace(/[\s().-]/g, '');
  const number = digits.startsWith('+') ? digits : digits.startsWith('00') ? `+${digits.slice(2)}` : `+${digits}`;
  return e164.test(number) ? number : null;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
