/** Requests that the far side sends within its dialog: re-INVITE (RFC 3264, section 8) and INFO. */
import type { MediaSession } from '../../../media/engine.js';
import type { CallLeg } from '../../../sip/leg.js';

/** The far side may change codec, address and direction at any time. */
export function answerReoffers(leg: CallLeg, session: MediaSession): void {
  leg.onReoffer(async (offer) => {
    try {
      if (offer !== null) return { sdp: await session.answer(offer) };
      return {
        sdp: await session.offer(),
        acked: (answer) => void session.accept(answer, { provisional: false }).catch(() => {}),
      };
    } catch {
      return { refuse: 488 };
    }
  });
}

/** The key in a SIP INFO (`application/dtmf-relay`); null when it carries none. */
export function keyOfInfo(info: { contentType: string; body: string }): string | null {
  if (!info.contentType.startsWith('application/dtmf-relay')) return null;
  return /^\s*signal\s*=\s*([0-9A-D*#])/im.exec(info.body)?.[1] ?? null;
}
