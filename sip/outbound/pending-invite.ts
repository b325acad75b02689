/** An INVITE of ours without final answer, as much of it as another process needs to take it back. */
import { readHeaders } from '../drachtio/header.js';
import type { StackRequest } from '../drachtio/types.js';
import type { PendingInvite } from '../leg.js';

/** What CANCEL, and the ACK and BYE of a 200 that comes all the same, are made of (RFC 3261 9.1). Credentials and the SDP with its keys are not. */
const kept = ['via', 'from', 'to', 'call-id', 'cseq', 'contact', 'route'] as const;

/** `next`: where it was sent, a URI. */
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
