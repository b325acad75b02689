/** An outbound INVITE without a final answer, reduced to the state another process needs to cancel it. */
import { readHeaders } from '../drachtio/header.js';
import type { StackRequest } from '../drachtio/types.js';
import type { PendingInvite } from '../leg.js';

/**
 * The headers needed for CANCEL, and for the ACK and BYE of a 200 that arrives nevertheless (RFC 3261 9.1). Credentials and the SDP with
 * its keys are left out.
 */
const kept = ['via', 'from', 'to', 'call-id', 'cseq', 'contact', 'route'] as const;

/** `next`: the URI it was sent to. */
export function pendingInvite(invite: StackRequest, next: string): PendingInvite {
  const headers = readHeaders(invite.raw);
  const lines = kept.flatMap((name) => (headers.get(name) ?? []).map((value) => `${name}: ${value}`));
  return {
    callId: invite.get('call-id') ?? '',
    head: [`INVITE ${invite.uri} SIP/2.0`, ...lines, '', ''].join('\r\n'),
    next,
    transactionId: invite.stackTxnId,
  };
}
