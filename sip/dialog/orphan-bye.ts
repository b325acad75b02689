/**
 * Ends calls whose process or SIP server is gone: BYE for a dialog, CANCEL for an INVITE that rings. Otherwise the far end would wait in
 * silence.
 */
import { byeReason, type HangupCause } from '../cause.js';
import { nameAddress } from '../drachtio/header.js';
import type { Stack } from '../drachtio/types.js';
import { parseUri } from '../inbound/identity.js';
import type { DialogSnapshot, PendingInvite } from '../leg.js';
import { SipError } from '../leg.js';
import { hopTo } from '../outbound/request-targets.js';

/** CANCEL through an external server, which has kept the transaction. Rejects with `SipError` when it has not. */
export function cancelOrphan(stack: Stack, { callId, transactionId, next }: PendingInvite): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (why: string) =>
      reject(
        new SipError('protocol', 'signalling_lost', `The INVITE of call ${callId} could not be cancelled: ${why}.`),
      );
    try {
      stack.app.client.request({ method: 'CANCEL', uri: next, stackTxnId: transactionId }, (err) =>
        err ? fail(err.message) : resolve(),
      );
    } catch (error) {
      fail(error instanceof Error ? error.message : String(error));
    }
  });
}

/** The lost server may have refreshed the session by itself: our CSeq must be higher than any it used. */
const cseqMargin = 1000;
const limitMs = 34_000;

/** Resolves when the far side answered with any status; rejects with `SipError` when the BYE could not be sent or was not answered. */
export function byeOrphan(stack: Stack, dialog: DialogSnapshot, cause: HangupCause): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => fail('timeout', 'was not answered'), limitMs);
    const fail = (code: SipError['code'], what: string) => {
      clearTimeout(timer);
      reject(new SipError(code, 'signalling_lost', `The BYE of call ${dialog.callId} ${what}.`));
    };
    const hop = nameAddress(dialog.routeSet[0])?.uri;
    try {
      stack.app.client.request(
        {
          method: 'BYE',
          uri: dialog.remoteTarget,
          // Without a Route, the address that the far side really used is preferred over its Contact.
          proxy:
            hop ??
            hopTo(dialog.peer, {
              name: parseUri(dialog.remoteUri)?.host || dialog.peer.address,
              trust: dialog.trust ?? '',
            }),
          headers: {
            'Call-ID': dialog.callId,
            From: `<${dialog.localUri}>;tag=${dialog.localTag}`,
            To: `<${dialog.remoteUri}>;tag=${dialog.remoteTag}`,
            CSeq: `${dialog.localCseq + cseqMargin} BYE`,
            Reason: byeReason(cause),
            ...(dialog.routeSet.length > 0 ? { Route: dialog.routeSet.join(', ') } : {}),
          },
        },
        (err, req) => {
          if (err || !req) {
            fail('protocol', `could not be sent: ${err?.message ?? 'no reason given'}`);
            return;
          }
          req.on('response', (res) => {
            if (res.status < 200) return;
            clearTimeout(timer);
            resolve();
          });
        },
      );
    } catch (error) {
      fail('protocol', `could not be sent: ${error instanceof Error ? error.message : String(error)}`);
    }
  });
}
