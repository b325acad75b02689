import type { CallLeg, TransferResult } from '../../sip/leg.js';
import type { Call } from './call.js';
import type { CommandResult } from './command.js';
import type { HangupSource } from './outcome.js';

/**
 * Blind transfer of the far side: by REFER, and where that is refused by calling somebody ourselves and joining the two. After a REFER the
 * call ends; a joined one goes on until one of them leaves. Every outcome is an event.
 */
export async function transfer(
  to: string,
  source: Extract<HangupSource, 'api' | 'agent'>,
  call: Call,
  leg: CallLeg,
  timeoutMs: number,
): Promise<CommandResult> {
  const { elsewhere } = call;
  const failed = (message: string, facts: Record<string, unknown>): CommandResult => {
    if (call.ending !== null) return { ok: false, code: 'failed', message: 'The call ended during the transfer.' };
    call.event('transfer.failed', { to, detail: message, ...facts });
    return { ok: false, code: 'failed', message };
  };
  call.event('transfer.started', { to, source });
  const refusal = elsewhere?.refusal(to) ?? null;
  if (refusal !== null) return failed(refusal, { reason: 'destination_not_allowed' });
  let result: TransferResult;
  try {
    result = await leg.transfer(to, AbortSignal.any([call.signal, AbortSignal.timeout(timeoutMs)]));
  } catch (error) {
    const detail = error instanceof Error ? error.message : 'The far side did not say how the transfer went.';
    return failed(detail, { reason: 'no_outcome', method: 'refer' });
  }
  if (result.status !== 'failed') {
    call.event('transfer.completed', { to, method: 'refer' });
    call.end({ cause: 'transferred', source });
    return { ok: true };
  }
  const refer = { refer_status: result.sipStatus };
  if (!result.refused || elsewhere === null || call.handedOver)
    return failed(`The far side refused the transfer with ${result.sipStatus}.`, {
      ...{ reason: result.refused ? 'refer_refused' : 'target_failed', method: 'refer', sip_status: result.sipStatus },
    });
  try {
    await elsewhere.join(to);
    call.event('transfer.completed', { to, method: 'bridge', ...refer });
    return { ok: true };
  } catch (error) {
    const detail = error instanceof Error ? error.message : 'Nobody answered.';
    return failed(detail, { reason: 'target_failed', method: 'bridge', ...refer });
  }
}
