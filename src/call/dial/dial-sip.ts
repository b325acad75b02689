/** Another phone or agent at a SIP address: a leg of ours with media of its own, called for a call that runs. */
import { randomUUID } from 'node:crypto';
import type { MediaEngine, MediaPolicy, MediaSession, SrtpPolicy } from '../../../media/engine.js';
import type { HangupCause } from '../../../sip/cause.js';
import type { CallLeg, SipGateway } from '../../../sip/leg.js';
import { CallEnded } from '../core/outcome.js';
import type { CallParty } from '../core/party.js';
import { EarlyMedia } from './early-media.js';
import { asTheFirstLeg, srtpTowards } from './leg-media.js';

/** What a second leg needs of the process. */
export interface BridgeRules {
  dial: SipGateway['dial'];
  open: MediaEngine['open'];
  policy: MediaPolicy;
  /** How long the agent's side may ring. */
  ringTimeoutMs: number;
  /** SIP addresses inside our network may be called; names are looked up for it at every call. */
  allowPrivateTargets: boolean;
}

/** Whom to call, and as whom. */
export interface SecondLegWish {
  /** `sip:` or `sips:`, with a user part; header parameters (`?X-Name=value`) are not sent. */
  uri: string;
  /** The caller's number of the call when absent. */
  from?: string;
  fromDisplayName?: string;
  auth?: { username: string; password: string };
  headers?: Record<string, string>;
  /** What `srtpTowards` says of its address when absent. */
  srtp?: SrtpPolicy;
  /** The default of the rules when absent. */
  ringTimeoutMs?: number;
  /** It rings there. */
  onRinging?(): void;
  /** It can be heard before it answers, from now on and by this session; once per session. */
  onEarlyMedia?(session: MediaSession): void;
}

export interface SecondLeg {
  leg: CallLeg;
  session: MediaSession;
}

/**
 * Calls a SIP address; resolves when it answered and its media is agreed, on the media thread of the call. Rejects with `SipError`
 * (nobody answered, or `signal` aborted), `MediaError` (nothing in common) or `CallEnded`, and then holds nothing. Whoever asked joins the
 * two and closes what it got with `hangUpSecondLeg`.
 */
export async function callSip(
  line: CallParty,
  wish: SecondLegWish,
  rules: BridgeRules,
  signal: AbortSignal,
): Promise<SecondLeg> {
  const { call, facts } = line;
  const codecs = await asTheFirstLeg(line.session, rules.policy.codecs);
  let media: EarlyMedia | null = null;
  let leg: CallLeg | null = null;
  const fromName = wish.fromDisplayName ?? (wish.from === undefined ? facts.fromName : null);
  try {
    leg = await rules.dial(
      {
        sipCallId: randomUUID(),
        to: wish.uri,
        from: wish.from ?? facts.from,
        ...(fromName === null ? {} : { fromDisplayName: fromName }),
        gateways: [{ uri: wish.uri, ...(wish.auth === undefined ? {} : { auth: wish.auth }) }],
        headers: wish.headers ?? {},
        ringTimeoutMs: wish.ringTimeoutMs ?? rules.ringTimeoutMs,
        publicOnly: !rules.allowPrivateTargets,
        offerFor: async (_gateway, localAddress) => {
          await media?.close();
          const policy = { ...rules.policy, codecs, srtp: wish.srtp ?? srtpTowards(wish.uri) };
          const session = await rules.open({ group: call.id, offer: null, policy, localAddress, role: 'callee' });
          media = new EarlyMedia(session, (early) => wish.onEarlyMedia?.(early));
          return session.offer();
        },
        onInvite: (pending) => call.dialog(pending),
        onProgress: ({ status, sdp }) => {
          if (status === 180) wish.onRinging?.();
          if (sdp !== undefined) media?.answered(sdp);
        },
      },
      signal,
    );
    call.dialog(leg.snapshot());
    await leg.confirmed;
    const { session } = (media as EarlyMedia | null) ?? nothingOpened();
    await session.accept(leg.remoteSdp, { provisional: false, signalledFrom: leg.snapshot().peer.address });
    signal.throwIfAborted();
    call.phones.set(leg, { session, organizationId: facts.organizationId });
    return { leg, session };
  } catch (error) {
    await Promise.allSettled([
      leg?.hangup(call.ending?.cause ?? (signal.aborted ? 'normal_clearing' : 'incompatible_media')),
      (media as EarlyMedia | null)?.close(),
    ]);
    throw error;
  }
}

export async function hangUpSecondLeg({ leg, session }: SecondLeg, cause: HangupCause = 'normal_clearing') {
  await Promise.allSettled([leg.hangup(cause), session.close()]);
}

function nothingOpened(): never {
  throw new CallEnded({ cause: 'unspecified', source: 'system' });
}
