import type { MediaEngine, MediaPolicy, MediaSession } from '../../../media/engine.js';
import type { CallLeg } from '../../../sip/leg.js';
import { CallEnded } from '../core/outcome.js';
import { CallParty } from './party.js';

/** Provisional answers with new SDP that are applied per session; further ones are ignored, as a protection against abuse. */
const maxEarlyAnswers = 20;

/** A phone, or an agent behind SIP, that we call: each gateway gets a media session of its own until one of them answers. */
export class CalledParty extends CallParty {
  #earlySdp = '';
  #earlyAnswers = 0;
  #hasEarlyMedia = false;

  /**
   * Our offer to the next gateway. The session before is closed first, so that nothing that an earlier gateway sent remains in it. `group`:
   * the call on whose media thread the session runs. Rejects with `CallEnded` and `MediaError`.
   */
  async offer(
    media: Pick<MediaEngine, 'open'>,
    { group, policy, localAddress }: { group: string; policy: MediaPolicy; localAddress: string },
  ): Promise<string> {
    // An agent that got ready for the session before goes with it.
    await Promise.all([this.control.release('failed'), this.dropSession()]);
    this.call.check();
    const session = await media.open({ group, offer: null, policy, localAddress, role: 'callee' });
    this.useSession(session);
    this.#earlySdp = '';
    this.#earlyAnswers = 0;
    this.#hasEarlyMedia = false;
    this.call.check();
    return session.offer();
  }

  /**
   * A provisional response with SDP. `onEarlyMedia` is called when the party can be heard, once per session. An answer that does not fit
   * is ignored: the final answer decides.
   */
  answeredEarly(sdp: string, onEarlyMedia: (session: MediaSession) => void): void {
    if (!this.hasMedia || sdp === this.#earlySdp || this.#earlyAnswers >= maxEarlyAnswers) return;
    this.#earlySdp = sdp;
    this.#earlyAnswers += 1;
    const { session } = this;
    session.accept(sdp, { provisional: true }).then(
      () => {
        if (this.#hasEarlyMedia || !this.hasMedia || this.session !== session) return;
        this.#hasEarlyMedia = true;
        onEarlyMedia(session);
      },
      () => {},
    );
  }

  /** The INVITE was answered. Resolves when the ACK is sent and the SDP answer applied. Rejects with `CallEnded` and `MediaError`. */
  async answeredWith(leg: CallLeg): Promise<void> {
    const { call } = this;
    this.useLeg(leg);
    call.check();
    if (this.role !== 'agent') call.pickedUp(leg.answeredAtMs);
    await call.orEnd(leg.confirmed);
    const { address } = leg.snapshot().peer;
    await call.orEnd(this.session.accept(leg.remoteSdp, { provisional: false, signalledFrom: address }));
  }

  override async answer(): Promise<CallLeg> {
    if (this.leg === null) throw new CallEnded({ cause: 'unspecified', source: 'system' });
    this.open();
    return this.leg;
  }
}
