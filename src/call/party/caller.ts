import type { MediaSession } from '../../../media/engine.js';
import type { CallLeg, IncomingCall } from '../../../sip/leg.js';
import { CallParty, type PartyOptions } from './party.js';

/** The phone that sent us an INVITE. */
export class CallerParty extends CallParty {
  #ringing: Promise<void> | null = null;

  constructor(
    options: Omit<PartyOptions, 'role' | 'headers'>,
    private readonly incoming: IncomingCall,
  ) {
    super({ ...options, role: 'caller', headers: incoming.headers });
  }

  override useSession(session: MediaSession): void {
    super.useSession(session);
  }

  override async ringWithMedia(): Promise<boolean> {
    const { call, incoming, session } = this;
    if (incoming.offer === null || this.leg !== null) return false;
    this.#ringing ??= incoming.ring({ sdp: session.localSdp }).then(() => call.earlyMedia());
    await this.#ringing;
    return true;
  }

  /** 200, once. Resolves when caller and Trunkline can hear each other. */
  override async answer(): Promise<CallLeg> {
    if (this.leg !== null) return this.leg;
    const { call, incoming, session } = this;
    call.check();
    const sdp = incoming.offer === null ? await session.offer() : await session.answer(incoming.offer);
    const leg = await incoming.answer(sdp); // short and not interruptible: a leg that exists is hung up at the end of the call
    this.useLeg(leg);
    call.pickedUp(leg.answeredAtMs);
    if (incoming.offer === null) {
      // The caller's address is in its ACK. With an offer, the caller is heard from the 200 on.
      const confirmed = await call.orEnd(leg.confirmed);
      await session.accept(confirmed.sdp ?? '', { provisional: false, signalledFrom: incoming.peer.address });
    }
    call.answer();
    this.open();
    return leg;
  }
}
