/** A dialog with a media server: we are the UAC, and drachtio-fsmrf drives it by the methods below. */
import { EventEmitter } from 'node:events';
import { peerOf } from '../drachtio/connection.js';
import { listElements, nameAddress } from '../drachtio/header.js';
import type { Stack, StackDialog } from '../drachtio/types.js';
import { parseUri } from '../inbound/identity.js';
import type { MediaServerInvite } from '../leg.js';
import { SipError } from '../leg.js';
import type { SipLog } from '../log.js';
import { DialogLeg } from './dialog-leg.js';

/** Limit for a re-INVITE: a media server answers within milliseconds, and a phone waits for its answer meanwhile. */
const reofferLimitMs = 5000;

/** Emits `destroy` once, when the dialog is over, whichever side ended it. */
export class MediaServerDialog extends EventEmitter {
  readonly remote: { sdp: string };
  #over = false;

  constructor(
    private readonly leg: DialogLeg,
    answer: string,
    sent: string,
  ) {
    super();
    this.remote = { sdp: answer };
    let last = sent;
    // FreeSWITCH may renew an offer when two channels are bridged: the far side's media has not changed.
    leg.onReoffer(async () => ({ sdp: last }));
    this.#keep = (sdp) => {
      last = sdp;
    };
    void leg.ended.then(() => this.#end());
  }

  readonly #keep: (sdp: string) => void;

  get sipCallId(): string {
    return this.leg.sipCallId;
  }

  get server(): Stack {
    return this.leg.server;
  }

  /** Resolves with the server's SDP. Rejects with `SipError` when it refuses, or does not answer within five seconds. */
  async modify(sdp: string): Promise<string> {
    const limit = new AbortController();
    const timer = setTimeout(() => limit.abort(), reofferLimitMs);
    try {
      const result = await this.leg.reoffer(sdp, limit.signal);
      if ('refused' in result)
        throw new SipError(
          'rejected',
          'incompatible_media',
          `The media server refused an offer with ${result.refused}.`,
          result.refused,
        );
      this.#keep(sdp);
      this.remote.sdp = result.ok;
      return result.ok;
    } finally {
      clearTimeout(timer);
    }
  }

  async destroy(): Promise<void> {
    await this.leg.hangup();
  }

  /** The SIP server is lost, and the dialog with it. */
  lost(): void {
    this.leg.lost();
  }

  #end(): void {
    if (this.#over) return;
    this.#over = true;
    this.emit('destroy');
  }
}

/**
 * Sends an INVITE to a media server; without an offer the server offers (RFC 3261 13.2.1), and its offer is answered `recvonly` until the
 * first `modify`. Rejects with `SipError`.
 */
export function inviteMediaServer(
  stack: Stack,
  { uri, headers, offer }: MediaServerInvite,
  log: SipLog,
  onGone: (dialog: MediaServerDialog) => void,
): Promise<MediaServerDialog> {
  return new Promise((resolve, reject) => {
    stack.createUAC(
      uri,
      { headers, ...(offer === undefined ? {} : { localSdp: offer }) },
      { cbRequest: () => undefined, cbProvisional: () => undefined },
      (err, dialog) => {
        if (!dialog) {
          const status = err?.status;
          const why = status === undefined ? (err?.message ?? 'no reason given') : `status ${status}`;
          const code = status === undefined ? 'unreachable' : 'rejected';
          reject(new SipError(code, 'engine_gone', `The media server did not take an INVITE: ${why}.`, status));
          return;
        }
        const made: MediaServerDialog = new MediaServerDialog(
          legOf(stack, dialog, uri, offer ?? '', log, () => onGone(made)),
          dialog.res.body,
          offer ?? '',
        );
        resolve(made);
      },
    );
  });
}

function legOf(stack: Stack, dialog: StackDialog, uri: string, offer: string, log: SipLog, onGone: () => void) {
  const { res } = dialog;
  const contact = nameAddress(listElements([res.get('contact') ?? ''])[0])?.uri ?? uri;
  return new DialogLeg(dialog, {
    ...{ stack, log, onGone },
    peer: peerOf(res.protocol, res.source_address, res.source_port) ?? {
      transport: 'udp',
      address: parseUri(contact)?.host ?? '',
      port: parseUri(contact)?.port ?? 5060,
    },
    localAddress: '',
    localSdp: offer,
    answeredAtMs: performance.now(),
    remoteSdp: res.body,
  });
}
