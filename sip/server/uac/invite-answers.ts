/** The effects of responses to our INVITE on its dialogs (RFC 3261 12.1.2, 12.2.1.2, 13.2.2): early, forked, confirmed, unwanted. */

import type { Core } from '../assembly.js';
import type { ControlConnection } from '../control/control.js';
import type { DialogSender } from '../dialogs/dialog-sender.js';
import { type Dialog, routeSetOfResponse } from '../dialogs/dialogs.js';
import { acceptsReliable } from '../dialogs/reliable.js';
import type { SipResponse } from '../message/message.js';
import type { OurRequest } from '../transactions/our-request.js';
import type { Source } from '../transport/path.js';
import { chooseTarget, dialogOfAnswer } from './answered-dialog.js';

/** Whether a response is passed to the application. */
export type AnswerForwarding = 'pass' | 'absorb';

export class InviteAnswers {
  constructor(
    private readonly core: Core,
    private readonly sender: DialogSender,
  ) {}

  /** A response to an INVITE outside a dialog. */
  initial(request: OurRequest, response: SipResponse, source: Source): AnswerForwarding {
    const { status, toTag } = response;
    if (status >= 300) {
      this.dropEarly(request, null);
      return 'pass';
    }
    if (status >= 200) return this.success(request, response, source);
    if (status === 100 || toTag === '') return 'pass';
    const dialog = this.dialogOf(request, response, source);
    dialog.refreshTarget(response);
    this.core.dialogs.prefer(dialog);
    return acceptsReliable(dialog, response) ? 'pass' : 'absorb';
  }

  /** A response to a re-INVITE. */
  inside(request: OurRequest, dialog: Dialog, response: SipResponse): AnswerForwarding {
    if (response.status < 200 || response.status >= 300) return 'pass';
    if (request.answeredTag !== null) {
      this.acknowledgeAgain(request, dialog);
      return 'absorb';
    }
    request.answeredTag = response.toTag;
    dialog.refreshTarget(response);
    dialog.unackedCseq = request.cseq;
    if (request.sdp) dialog.localSdp = request.sdp;
    if (request.contact !== '') dialog.contact = request.contact;
    this.sender.sessionAnswered(dialog, response);
    return 'pass';
  }

  /** A further fork that answered (13.2.2.4), or a 2xx that cannot be used: sends ACK and BYE, once. */
  release(request: OurRequest, response: SipResponse, source: Source): void {
    if (request.released.has(response.toTag)) return;
    request.released.add(response.toTag);
    const dialog = dialogOfAnswer(request, request.app ?? NO_APPLICATION, response, source);
    dialog.state = 'confirmed';
    this.sender.ack(dialog, request.cseq);
    this.sender.bye(dialog);
  }

  dropEarly(request: OurRequest, keep: Dialog | null): void {
    for (const dialog of request.early) if (dialog !== keep) this.core.dialogs.remove(dialog);
    request.early.clear();
  }

  private success(request: OurRequest, response: SipResponse, source: Source): AnswerForwarding {
    if (request.answeredTag !== null) {
      const dialog = this.core.dialogs.findByTags(response.callId, request.fromTag, response.toTag);
      if (response.toTag !== request.answeredTag) this.release(request, response, source);
      else if (dialog) this.acknowledgeAgain(request, dialog);
      return 'absorb';
    }
    request.answeredTag = response.toTag;
    if (!request.app) {
      this.release(request, response, source);
      this.dropEarly(request, null);
      return 'pass';
    }
    if (!response.contact) {
      this.dropEarly(request, null);
      return 'pass';
    }
    this.core.sources.acquainted(source.address);
    const dialog = this.dialogOf(request, response, source);
    this.dropEarly(request, dialog);
    dialog.state = 'confirmed';
    dialog.refreshTarget(response);
    // 13.2.2.4: the 2xx determines the route set
    dialog.routeSet = routeSetOfResponse(response);
    chooseTarget(dialog, source);
    dialog.unackedCseq = request.cseq;
    dialog.unwanted = request.cancelled;
    this.core.dialogs.prefer(dialog);
    this.sender.sessionAnswered(dialog, response);
    return 'pass';
  }

  private acknowledgeAgain(request: OurRequest, dialog: Dialog): void {
    const ack = dialog.lastAck;
    if (!ack || ack.cseq !== request.cseq) return;
    this.core.transactions.retransmissionsSent++;
    ack.path.send(ack.bytes);
  }

  private dialogOf(request: OurRequest, response: SipResponse, source: Source): Dialog {
    const known = this.core.dialogs.findByTags(request.callId, request.fromTag, response.toTag);
    if (known) return known;
    const dialog = dialogOfAnswer(request, request.app ?? NO_APPLICATION, response, source);
    this.core.dialogs.add(dialog);
    request.early.add(dialog);
    return dialog;
  }
}

/** Placeholder for an application that has disconnected. */
const NO_APPLICATION = { connected: false } as ControlConnection;
