/** An INVITE to an agent behind SIP, with media next to those of the party that it is called for. */
import type { MediaEngine, MediaPolicy, MediaSession, SrtpPolicy } from '../../../media/engine.js';
import type { CallLeg, SipGateway } from '../../../sip/leg.js';
import type { CalledParty } from '../party/called.js';
import type { CallParty } from '../party/party.js';
import { codecsLike, srtpTowards } from './leg-media.js';

/** What a SIP leg needs of the process. */
export interface SipDialDeps {
  media: Pick<MediaEngine, 'open'>;
  policy: MediaPolicy;
  dial: SipGateway['dial'];
}

export interface SipDialRequest {
  sipCallId: string;
  /** `sip:` or `sips:`, with a user part. */
  uri: string;
  from: string;
  fromDisplayName?: string | null;
  auth?: { username: string; password: string } | null;
  headers: Record<string, string>;
  /** Default: `srtpTowards` of the address. */
  srtp?: SrtpPolicy;
  ringTimeoutMs: number;
  /** Addresses inside our network are refused after the look-up. */
  publicOnly: boolean;
  /** Whose agent it is. */
  organizationId: string;
  onRinging?(): void;
  /** The party can be heard before it answers, in this session; once per session. */
  onEarlyMedia?(session: MediaSession): void;
}

/**
 * Calls `party` at a SIP address; its media run on the thread of `first` and prefer its codec, because the two will be bridged. Resolves
 * when it answered. Rejects with `SipError`, `MediaError` or `CallEnded`.
 */
export function dialSip(
  party: CalledParty,
  first: CallParty,
  request: SipDialRequest,
  { media, policy, dial }: SipDialDeps,
): Promise<CallLeg> {
  const { call } = party;
  const { uri, fromDisplayName, auth, onEarlyMedia } = request;
  return dial(
    {
      sipCallId: request.sipCallId,
      to: uri,
      from: request.from,
      ...(fromDisplayName ? { fromDisplayName } : {}),
      gateways: [{ uri, ...(auth ? { auth } : {}) }],
      headers: request.headers,
      ringTimeoutMs: request.ringTimeoutMs,
      publicOnly: request.publicOnly,
      writtenBy: request.organizationId,
      offerFor: async (_gateway, localAddress) => {
        const codecs = await codecsLike(first.session, policy.codecs);
        const wanted = { ...policy, codecs, srtp: request.srtp ?? srtpTowards(uri) };
        return party.offer(media, { group: first.call.id, policy: wanted, localAddress });
      },
      onInvite: (pending) => call.dialog(pending),
      onProgress: ({ status, sdp }) => {
        if (status === 180) request.onRinging?.();
        if (sdp !== undefined && onEarlyMedia !== undefined) party.answeredEarly(sdp, onEarlyMedia);
      },
    },
    call.signal,
  );
}
