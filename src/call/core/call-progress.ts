import { callFields } from '../../webhook/twilio-parameters.js';
import type { Call } from './call.js';
import type { PartyFacts } from './party-facts.js';

type Step = 'initiated' | 'ringing' | 'answered' | 'completed';

/** Twilio's word for how a call ended (`CallStatus`, `DialCallStatus`). */
export type EndedAs = 'completed' | 'busy' | 'no-answer' | 'failed' | 'canceled';

export function endedAs({ answered, ending }: Pick<Call, 'answered' | 'ending'>): EndedAs {
  if (answered) return 'completed';
  if (ending?.cause === 'user_busy') return 'busy';
  if (ending?.cause === 'originator_cancel') return 'canceled';
  return ending?.cause === 'no_answer' || ending?.cause === 'timeout' ? 'no-answer' : 'failed';
}

/** The steps of an outbound call, for a status callback. */
export class CallProgressEvents {
  private sequence = 0;

  constructor(
    private readonly call: Call,
    private readonly facts: PartyFacts,
    private readonly send: (step: Step, fields: { [name: string]: string }) => void,
  ) {}

  tell(step: Step): void {
    const { call, facts } = this;
    this.send(step, {
      ...callFields({ ...facts, answered: call.answered, ended: step === 'completed' }),
      CallStatus: step === 'answered' ? 'in-progress' : step === 'completed' ? endedAs(call) : step,
      Timestamp: new Date().toUTCString(),
      CallbackSource: 'call-progress-events',
      SequenceNumber: String(this.sequence++),
      ...(step === 'completed' && { CallDuration: String(call.durationSec) }),
    });
  }
}
