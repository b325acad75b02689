/** An INVITE to an address that no trunk carries: a registered phone (`client:name`) or a SIP address. */
import { type CallLeg, SipError, type SipGateway } from '../../../sip/leg.js';
import type { Mode } from '../../store/tenants/scope.js';
import { clientAddress, e164 } from '../../webhook/actions.js';
import type { Call } from '../core/call.js';
import { CallEnded } from '../core/outcome.js';
import type { TrunkMedia } from '../routing/trunk-selection.js';
import type { TrunkDialRequest } from './dial-trunks.js';
import { srtpTowards } from './leg-media.js';

/** What it needs of the process. */
export interface AddressDialDeps {
  dial: SipGateway['dial'];
  /** Whether a SIP address is one of ours, where the organization's phones register. */
  isOurs: SipGateway['isOurs'];
  /** SIP addresses inside our network may be called. */
  allowPrivateTargets: boolean;
  /** The media settings of the organization's trunk with this user name, which registers with us; null: there is none. */
  mediaOfUser(organizationId: string, name: string): TrunkMedia | null;
}

export interface AddressDialRequest
  extends Pick<TrunkDialRequest, 'sipCallId' | 'from' | 'ringTimeoutMs' | 'onProgress'> {
  organizationId: string;
  /** `client:name` or a SIP URI, which at an address of ours means the same; `?X-Name=value` become header fields of the INVITE. */
  to: string;
  auth: { username: string; password: string } | null;
  headers: { [name: string]: string };
  offerFor(localAddress: string, media: Partial<TrunkMedia>): Promise<string>;
}

/**
 * Resolves when the callee answered. Rejects with `SipError`, and with `CallEnded` when there is no such user (`not_found`) or its phone is
 * not registered (`no_answer`).
 */
export async function dialAddress(call: Call, wish: AddressDialRequest, deps: AddressDialDeps): Promise<CallLeg> {
  const { address, headers } = addressParts(wish.to);
  const user = phoneUser(address, deps.isOurs);
  const media = user === undefined ? null : deps.mediaOfUser(wish.organizationId, user);
  if (user !== undefined && media === null)
    throw new CallEnded({ cause: 'not_found', source: 'system', detail: `There is no user "${user}".` });
  // The SIP application takes an address without a user part for the name of a registered phone, of whatever organization.
  if (user === undefined && !sipUser.test(address))
    throw new CallEnded({ cause: 'not_found', source: 'system', detail: `${address} has no user part.` });
  const { sipCallId, from, ringTimeoutMs, auth, onProgress } = wish;
  const uri = user === undefined ? address : `sip:${user}`;
  call.assign({ sipCallId });
  const leg = deps.dial(
    {
      ...{ sipCallId, to: uri, from, ringTimeoutMs, onProgress },
      gateways: [{ uri, ...(auth && { auth }) }],
      headers: { ...headers, ...wish.headers },
      // A registered user proved its address with its password.
      publicOnly: user === undefined && !deps.allowPrivateTargets,
      ...(user === undefined && { writtenBy: wish.organizationId }),
      offerFor: (_gateway, localAddress) => wish.offerFor(localAddress, media ?? { srtp: srtpTowards(uri) }),
      onInvite: (pending) => call.dialog(pending),
    },
    call.signal,
  );
  return user === undefined ? leg : leg.catch(notRegistered);
}

const sipUser = /^sips?:([^@;]+)@/i;

/** The user name of the registered phone that the address means; undefined: it is a SIP address elsewhere. */
function phoneUser(address: string, isOurs: AddressDialDeps['isOurs']): string | undefined {
  return clientAddress.exec(address)?.[1] ?? (isOurs(address) ? sipUser.exec(address)?.[1] : undefined);
}

/**
 * What carriers are asked for when `to` is called: a number, or the user part of a SIP address that a call in test mode must not reach. null:
 * they are not asked, and `dialAddress` calls it.
 */
export function carriedNumber(to: string, mode: Mode, isOurs: AddressDialDeps['isOurs']): string | null {
  if (e164.test(to)) return to;
  const { address } = addressParts(to);
  if (mode === 'live' || phoneUser(address, isOurs) !== undefined) return null;
  return sipUser.exec(address)?.[1] ?? null;
}

/** A user without a registration does not answer. */
function notRegistered(error: unknown): never {
  if (error instanceof SipError && error.code === 'unreachable')
    throw new CallEnded({ cause: 'no_answer', source: 'system', detail: error.message });
  throw error;
}

/** `?X-Name=value` are header fields of the INVITE; other names are not allowed there. */
function addressParts(text: string): { address: string; headers: { [name: string]: string } } {
  const [address = text, query = ''] = text.split('?', 2);
  const headers = [...new URLSearchParams(query)].filter(([name]) => /^x-[\w-]{1,60}$/i.test(name));
  return {
    address,
    headers: Object.fromEntries(headers.map(([name, value]) => [name, value.replace(/[\r\n]/g, ' ')])),
  };
}
