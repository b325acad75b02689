import type { MachineVerdict, MediaSession } from '../../media/engine.js';
import type { Call } from './call.js';
import type { OutboundCall } from './outbound-calls.js';

/** Listens to whoever has answered, and tells the call who it is: beside the conversation, which waits for nothing. */
export function detectMachine(
  call: Call,
  session: MediaSession,
  { machineDetection: mode, onMachine }: Pick<OutboundCall, 'machineDetection' | 'onMachine'>,
): void {
  if (mode === 'off') return;
  const options = { untilMessageEnd: mode === 'detect_message_end' };
  void session.detectMachine(options, call.signal).then(
    call.guarded((verdict) => {
      call.event('amd.completed', factsOf(verdict));
      if (onMachine === 'hang_up' && verdict.result === 'machine')
        call.end({ cause: 'normal_clearing', source: 'system', detail: 'A machine answered.' });
    }),
  );
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
