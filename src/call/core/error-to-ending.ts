import { AgentFailure } from '../../../media/agents/agent.js';
import { MediaError } from '../../../media/engine.js';
import { SipError } from '../../../sip/leg.js';
import type { Logger } from '../../log.js';
import type { Call } from './call.js';
import { CallEnded, type Ending, type PhoneRole } from './outcome.js';

/** The ending of a call whose step threw `error`. The only place that turns errors into endings. */
export function endingOf(error: unknown, call: Call, farSide: PhoneRole, log: Logger): Ending {
  if (error instanceof CallEnded) return error.ending;
  if (error instanceof SipError)
    return {
      cause: error.hangupCause,
      // A rejection comes from the callee; a CANCEL comes from the caller.
      source: error.code === (farSide === 'caller' ? 'cancelled' : 'rejected') ? farSide : 'system',
      detail: error.message,
      ...(error.sipStatus === undefined ? {} : { sipStatus: error.sipStatus }),
    };
  if (error instanceof AgentFailure) return { cause: 'agent_unreachable', source: 'system', detail: error.message };
  if (error instanceof MediaError)
    return {
      cause:
        error.code === 'no_ports' ? 'overload' : error.code === 'engine_gone' ? 'engine_gone' : 'incompatible_media',
      source: 'system',
      detail: error.message,
    };
  log.error({ err: error, call_id: call.id }, 'call failed with an unexpected error');
  return { cause: 'unspecified', source: 'system' };
}
