/** The dialog that a response to our request opens (RFC 3261 12.1.2), and the target of its requests. */
import type { ControlConnection } from '../control/control.js';
import { contactDiffers, Dialog, routeSetOfResponse } from '../dialogs/dialogs.js';
import { uriOf } from '../message/fields.js';
import type { SipResponse } from '../message/message.js';
import { parseUri } from '../message/uri.js';
import type { OurRequest } from '../transactions/our-request.js';
import type { Source } from '../transport/path.js';

/** The new dialog, not yet in the table. */
export function dialogOfAnswer(
  request: OurRequest,
  app: ControlConnection,
  response: SipResponse,
  source: Source,
): Dialog {
  const target = response.contact?.uri ?? request.uri;
  const dialog = new Dialog({
    role: 'uac',
    app,
    id: request.dialogId,
    callId: request.callId,
    localTag: request.fromTag,
    remoteTag: response.toTag,
    localParty: request.from,
    remoteParty: response.get('to') ?? request.to,
    remoteTarget: parseUri(target) ? target : request.uri,
    routeSet: routeSetOfResponse(response),
    localCseq: request.cseq,
    remoteCseq: -1,
    path: request.path,
    identity: request.identity,
  });
  dialog.localSdp = request.sdp;
  dialog.contact = request.contact;
  chooseTarget(dialog, source);
  return dialog;
}

/**
 * A callee whose Contact differs from the source of its response is behind NAT, or a proxy stays in the path: then requests go to that
 * source.
 */
export function chooseTarget(dialog: Dialog, source: Source): void {
  const first = dialog.routeSet[0];
  const hop = parseUri(uriOf(first ?? dialog.remoteTarget));
  const unreachable =
    first === undefined
      ? contactDiffers(dialog.remoteTarget, source.address, null)
      : isPrivate(hop?.host ?? '') && !isPrivate(source.address);
  dialog.nat = unreachable ? { address: source.address, port: source.port } : null;
  if (source.transport !== dialog.path.transport) dialog.path = source.back;
}

/** RFC 1918, loopback and link-local. */
function isPrivate(host: string): boolean {
  return /^(10\.|127\.|169\.254\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.)/.test(host);
}
