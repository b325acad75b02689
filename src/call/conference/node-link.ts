/** The SIP leg between a call's node and the node that has its conference: audio by RTP, and what both say by INFO, in JSON. */
import type { MediaSession } from '../../../media/engine.js';
import { withDeadline } from '../../../net/deadline.js';
import type { CallLeg } from '../../../sip/leg.js';
import type { EventType } from '../../store/calls/event-types.js';
import type { Scope } from '../../store/tenants/scope.js';
import type { ConferenceJoin as ConferenceAction, FollowUp, WaitMusic } from '../../webhook/actions.js';
import type { ToldRedaction } from '../redaction/far-redaction.js';
import type { ResumedStay } from './place.js';

/** The purpose of the INVITE's pass; its subject is the id of the conference. */
export const linkPurpose = 'conference';

/** From the call's node to the owner. */
export type ToOwner =
  | { kind: 'join'; scope: Scope; callId: string; action: ConferenceAction; resumed: ResumedStay | null }
  | { kind: 'leave'; reason: 'left' | 'kicked'; hasCallEnded: boolean }
  | RedactionTold
  | { kind: 'alive' };

/** From the owner to the call's node. */
export type ToGuest =
  /** `state` follows at each change. */
  | { kind: 'joined'; conferenceId: string; state: GuestState }
  /** `absent`: this node does not have the conference. */
  | { kind: 'refused'; why: 'full' | 'absent'; conferenceId: string }
  | { kind: 'state'; state: GuestState }
  /** For the record of the call. */
  | { kind: 'event'; type: EventType; data: Record<string, unknown> }
  /** To be sent and signed by the call's webhook. */
  | { kind: 'callback'; conferenceId: string; to: FollowUp; fields: { [name: string]: string } }
  | { kind: 'removed'; reason: 'left' | 'kicked' | 'moved' }
  | RedactionTold;

/** Of the call, or of the others in the conference. At each change; also before `join` and `joined`, so that nothing is stored before. */
type RedactionTold = { kind: 'redaction'; redaction: ToldRedaction };

export interface GuestState {
  music: WaitMusic | null;
  resumable: ResumedStay;
}

const contentType = 'application/vnd.trunkline.conference+json';
/** A request that is not answered for so long means that the other node, or the way to it, is gone. */
const answerLimitMs = 3_000;
/** For the BYE of a link that is over. */
const closeLimitMs = 2_000;

export class NodeLink<Sends, Receives> {
  /** Resolves when the link is over, whoever ended it. */
  readonly over: Promise<void>;
  #resolveOver!: () => void;
  #isOver = false;
  /** Of the last message of the other node, on the clock of `performance.now()`. */
  heardAtMs = performance.now();
  #sent: Promise<unknown> = Promise.resolve();
  #closing: Promise<void> | null = null;

  constructor(
    private readonly leg: CallLeg,
    readonly session: MediaSession,
    onMessage: (message: Receives) => void,
  ) {
    this.over = new Promise((resolve) => {
      this.#resolveOver = resolve;
    });
    leg.onInfo((info) => {
      if (info.contentType !== contentType || this.#isOver) return;
      this.heardAtMs = performance.now();
      onMessage(JSON.parse(info.body) as Receives);
    });
    void leg.ended.then(() => this.#end());
    void session.lost.then(() => this.close());
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** In order. A message that is not taken ends the link. */
  send(message: Sends): void {
    this.#sent = this.#sent.then(() => this.#send(message));
  }

  /** Ends the link when everything was sent. Idempotent; always settles. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #send(message: Sends): Promise<void> {
    if (this.#isOver) return;
    const body = JSON.stringify(message);
    const status = await withDeadline(answerLimitMs, 'the other node', null, (signal) =>
      this.leg.sendInfo({ contentType, body }, signal),
    ).catch(() => 408);
    if (status >= 300) void this.#hangUp();
  }

  async #close(): Promise<void> {
    await this.#sent;
    await this.#hangUp();
  }

  async #hangUp(): Promise<void> {
    this.#end();
    await withDeadline(closeLimitMs, 'the end of the link', null, () => this.leg.hangup()).catch(() => {});
    await this.session.close();
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#resolveOver();
    void this.session.close();
  }
}
