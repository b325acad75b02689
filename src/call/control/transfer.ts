import { withDeadline } from '../../../net/deadline.js';
import type { CallLeg, TransferResult } from '../../../sip/leg.js';
import type { HangupSource } from '../../store/database/tables.js';
import type { Call } from '../core/call.js';
import type { CommandResult } from '../core/command.js';

/** `replaces`: a dialog of whoever is called that he gives up for this call (RFC 3891). */
export interface TransferWish {
  to: string;
  replaces?: string;
}

/** Final answers of a callee who was reached and will not talk: nobody is called twice after them. */
const declined: ReadonlySet<number> = new Set([486, 600, 603]);

/**
 * Transfer of the far side: by REFER, and where that is refused, or the far side fails to reach the target, by calling it ourselves and joining
 * the two. A target that was busy or declined is not called again. After a REFER the call ends; a joined one goes on until one of them leaves. An attended transfer is joined at once: the dialog that is given up is none of the
 * far side's. Every outcome is an event.
 */
export async function transfer(
  { to, replaces }: TransferWish,
  source: Extract<HangupSource, 'api' | 'agent'>,
  call: Call,
  leg: CallLeg,
  timeoutMs: number,
): Promise<CommandResult> {
  const { transferFallback } = call;
  const failed = (message: string, facts: Record<string, unknown>): CommandResult => {
    if (call.ending !== null) return { ok: false, code: 'failed', message: 'The call ended during the transfer.' };
    call.event('transfer.failed', { to, detail: message, ...facts });
    return { ok: false, code: 'failed', message };
  };
  const join = async (known: Record<string, unknown>): Promise<CommandResult> => {
    const facts = { ...known };
    const onCall = (id: string) => {
      facts.dialled_call_id = id;
    };
    try {
      if (transferFallback === null || call.handedOver) throw new Error('The call is with somebody else already.');
      await transferFallback.join(to, replaces, onCall);
      call.event('transfer.completed', { to, method: 'bridge', ...facts });
      return { ok: true };
    } catch (error) {
      const detail = error instanceof Error ? error.message : 'Nobody answered.';
      return failed(detail, { reason: 'target_failed', method: 'bridge', ...facts });
    }
  };

  call.event('transfer.started', { to, source });
  const refusal = transferFallback?.refusal(to) ?? null;
  if (refusal !== null) return failed(refusal, { reason: 'destination_not_allowed' });
  if (replaces !== undefined) return join({});
  let result: TransferResult;
  try {
    result = await withDeadline(timeoutMs, 'the outcome of the transfer', call.signal, (signal) =>
      leg.transfer(to, signal),
    );
  } catch (error) {
    const detail = error instanceof Error ? error.message : 'The far side did not say how the transfer went.';
    return failed(detail, { reason: 'no_outcome', method: 'refer' });
  }
  if (result.status !== 'failed') {
    call.event('transfer.completed', { to, method: 'refer' });
    call.end({ cause: 'transferred', source });
    return { ok: true };
  }
  const { sipStatus, refused } = result;
  if (refused) return join({ refer_status: sipStatus });
  if (!declined.has(sipStatus)) return join({ notify_status: sipStatus });
  return failed(`The transfer failed with ${sipStatus}.`, {
    ...{ reason: 'target_failed', method: 'refer', sip_status: sipStatus },
  });
}
