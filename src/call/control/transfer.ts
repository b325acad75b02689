import { withDeadline } from '../../../net/deadline.js';
import type { TransferResult } from '../../../sip/leg.js';
import type { HangupSource } from '../../store/database/tables.js';
import type { CommandResult } from '../core/command.js';
import type { CallParty } from '../party/party.js';

/** `replaces`: a dialog of the target that it gives up for this call (RFC 3891). */
export interface TransferRequest {
  to: string;
  replaces?: string;
}

/** Final responses of a callee that was reached and declined: it is not called a second time. */
const declined: ReadonlySet<number> = new Set([486, 600, 603]);

/**
 * Transfers the party: by REFER, and when the party refuses that or fails to reach the target, by calling the target ourselves and
 * bridging the two. A target that was busy or declined is not called again. After an accepted REFER the call ends; a bridged one goes on
 * until one side leaves. An attended transfer is bridged at once, because the dialog to replace is none of the party's. Every outcome is
 * an event.
 */
export async function transfer(
  { to, replaces }: TransferRequest,
  source: Extract<HangupSource, 'api' | 'agent'>,
  party: CallParty,
  timeoutMs: number,
): Promise<CommandResult> {
  const { call, control, leg } = party;
  const { transferFallback } = call;
  if (leg === null) return { ok: false, code: 'not_answered', message: 'The call is not answered yet.' };
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
      if (transferFallback === null || control.isTransferred) throw new Error('The call was transferred already.');
      await transferFallback.join(to, replaces, onCall);
      call.event('transfer.completed', { to, method: 'bridge', ...facts });
      return { ok: true };
    } catch (error) {
      const detail = error instanceof Error ? error.message : 'The target did not answer.';
      return failed(detail, { reason: 'target_failed', method: 'bridge', ...facts });
    }
  };

  call.event('transfer.started', { to, source });
  const refusal = (await transferFallback?.refusal(to)) ?? null;
  if (refusal !== null) return failed(refusal, { reason: 'destination_not_allowed' });
  if (replaces !== undefined) return join({});
  let result: TransferResult;
  try {
    result = await withDeadline(timeoutMs, 'the outcome of the transfer', call.signal, (signal) =>
      leg.transfer(to, signal),
    );
  } catch (error) {
    const detail = error instanceof Error ? error.message : 'The phone did not report the outcome of the transfer.';
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
