import type { MachineVerdict } from '../../../media/engine.js';
import type { AnsweredBy } from '../../webhook/twilio-parameters.js';
import type { Call } from '../core/call.js';
import type { OutboundCall } from '../core/outbound-request.js';
import type { CallParty } from '../party/party.js';

/**
 * Answering machine detection on the callee's audio, while the conversation goes on. Resolves with the result, at the end of the call at
 * the latest; null when detection is off.
 */
export async function detectMachine(
  { call, session }: CallParty,
  wish: Pick<OutboundCall, 'machineDetection' | 'machineDetectionLimitMs' | 'onMachine'>,
): Promise<AnsweredBy | null> {
  const { machineDetection: mode, machineDetectionLimitMs: limitMs, onMachine } = wish;
  if (mode === 'off') return null;
  const untilMessageEnd = mode === 'detect_message_end';
  const startedMs = performance.now();
  const stop = new AbortController();
  const over = () => stop.abort();
  call.signal.addEventListener('abort', over, { once: true });
  const limit = limitMs === undefined ? undefined : setTimeout(over, limitMs);
  try {
    const verdict = inTime(await session.detectMachine({ untilMessageEnd }, stop.signal), call);
    const by = wordOf(verdict, untilMessageEnd);
    call.guarded(() => {
      call.event('amd.completed', { ...factsOf(verdict), answered_by: by });
      if (onMachine === 'hang_up' && verdict.result === 'machine')
        call.end({ cause: 'normal_clearing', source: 'system', detail: 'A machine answered.' });
    })(undefined);
    return { by, afterMs: Math.round(performance.now() - startedMs) };
  } finally {
    clearTimeout(limit);
    call.signal.removeEventListener('abort', over);
  }
}

/** A detection that was stopped while the call goes on was stopped by its time limit. */
function inTime(verdict: MachineVerdict, { ending }: Call): MachineVerdict {
  return verdict.reason === 'call_ended' && ending === null ? { ...verdict, reason: 'timeout' } : verdict;
}

/** Twilio's `AnsweredBy` (https://www.twilio.com/docs/voice/answering-machine-detection). */
function wordOf({ result, messageEnd }: MachineVerdict, untilMessageEnd: boolean): AnsweredBy['by'] {
  if (result !== 'machine') return result;
  if (!untilMessageEnd) return 'machine_start';
  if (messageEnd === 'beep') return 'machine_end_beep';
  return messageEnd === 'silence' ? 'machine_end_silence' : 'machine_end_other';
}

/** Milliseconds from the answer. */
function factsOf(verdict: MachineVerdict): Record<string, unknown> {
  const { result, reason, decidedMs, greetingMs, messageEnd, messageEndMs, beepHz } = verdict;
  return {
    ...{ result, reason, decided_ms: decidedMs },
    ...(greetingMs === null ? {} : { greeting_ms: greetingMs }),
    ...(messageEnd === null ? {} : { message_end: messageEnd, message_end_ms: messageEndMs }),
    ...(beepHz === null ? {} : { beep_hz: beepHz }),
  };
}
