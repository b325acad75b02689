import { type CallLeg, type DialRequest, SipError, type SipGateway } from '../../../sip/leg.js';
import type { Call } from '../core/call.js';
import { CallEnded } from '../core/outcome.js';
import type { Carrier, TrunkMedia } from '../routing/trunk-selection.js';

export interface TrunkDialRequest {
  sipCallId: string;
  to: string;
  from: string;
  ringTimeoutMs: number;
  offerFor(localAddress: string, media: TrunkMedia): Promise<string>;
  onProgress: NonNullable<DialRequest['onProgress']>;
}

/**
 * Tries one trunk after the other until the callee answers or declines. The answered call keeps its place in the trunk until its leg ends.
 * Rejects with `SipError` when the callee did not answer, and with `CallEnded` when every trunk is full.
 */
export async function dialCarriers(
  call: Call,
  wish: TrunkDialRequest,
  carriers: readonly Carrier[],
  dial: SipGateway['dial'],
): Promise<CallLeg> {
  const untilMs = performance.now() + wish.ringTimeoutMs;
  let failure: SipError | null = null;
  for (const [index, carrier] of carriers.entries()) {
    const failed = (reason: string, more: object = {}) =>
      call.event('trunk.failed', { trunk_id: carrier.trunkId, trunk: carrier.name, reason, ...more });
    const leave = await carrier.enter();
    if (leave === null) {
      failed('full');
      continue;
    }
    call.assign({ trunkId: carrier.trunkId, sipCallId: wish.sipCallId });
    try {
      const leg = await dial(
        {
          ...carrier.present(wish),
          sipCallId: wish.sipCallId,
          gateways: carrier.gateways,
          moreAreLeft: index < carriers.length - 1,
          offerFor: (_gateway, localAddress) => wish.offerFor(localAddress, carrier.media),
          onProgress: wish.onProgress,
          onInvite: (pending) => call.dialog(pending),
          onFailover: ({ error }) => failed(error.code, whyOf(error)),
          ringTimeoutMs: Math.max(1, untilMs - performance.now()),
        },
        call.signal,
      );
      void leg.ended.then(leave);
      return leg;
    } catch (error) {
      leave();
      if (!(error instanceof SipError) || !error.mayFailOver) throw error;
      failure = error;
      failed(error.code, whyOf(error));
    }
  }
  if (failure !== null) throw failure;
  const detail = carriers.length === 0 ? 'There is no trunk for outbound calls.' : 'Every trunk carries all it may.';
  throw new CallEnded({ cause: 'carrier_unreachable', source: 'system', detail });
}

function whyOf(error: SipError): object {
  return { detail: error.message, ...(error.sipStatus === undefined ? {} : { sip_status: error.sipStatus }) };
}
