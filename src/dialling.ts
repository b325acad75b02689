/** The rules for calls that a call makes: those of outbound calls, and where SIP may go. */
import { lookup, resolveSrv } from 'node:dns/promises';
import { isIP } from 'node:net';
import { isPublicAddress } from '../net/safe-lookup.js';
import { microcentsPerCent } from './billing/rate.js';
import { admit } from './call/admission.js';
import type { DialledWish } from './call/dial-out.js';
import type { Mode } from './store/scope.js';
import type { Store } from './store/store.js';
import { e164 } from './webhook/instructions.js';

/** Why an organization may not call this number or SIP URI out of a call of its own; null: it may. */
export function dialRefusal(
  store: Store,
  organizationId: string,
  mode: Mode,
  call: { to: string; from: string | null },
): string | null {
  const isNumber = e164.test(call.to);
  const limits = store.organizations.get(organizationId)?.limits;
  const prefixes = limits?.allowed_prefixes;
  if (isNumber && prefixes && !prefixes.some((prefix) => call.to.startsWith(prefix)))
    return 'The organization may not call this number.';
  if (
    isNumber &&
    call.from !== null &&
    store.phoneNumbers.findDialled(call.from, mode)?.organizationId !== organizationId
  )
    return 'The caller id is not a number of the organization.';
  if (mode === 'test') return null;
  const plan = store.funds.check({ organizationId, mode, direction: 'outbound', toNumber: call.to });
  if (!plan.ok) return 'The balance is used up.';
  const limitCents = limits?.daily_spend_cents ?? null;
  if (limitCents === null) return null;
  const { heldMicrocents } = store.accounts.balance(organizationId);
  const left = limitCents * microcentsPerCent - store.accounts.spentToday(organizationId) - heldMicrocents;
  return left < plan.requiredMicrocents || left <= 0 ? 'The organization has spent what it may today.' : null;
}

/** Writes the record of a call that another one makes, and holds its money. */
export function beginDialled(store: Store, { parentCallId, organizationId, mode, endpointId, from, to }: DialledWish) {
  const createdAt = new Date();
  const startedAtMs = performance.now();
  const parent = store.records.get({ organizationId, mode }, parentCallId);
  const id = store.calls.begin({
    organizationId,
    mode,
    direction: 'outbound',
    fromNumber: from,
    toNumber: to,
    phoneNumberId: store.phoneNumbers.findDialled(from, mode)?.id ?? parent?.phoneNumberId ?? parentCallId,
    endpointId,
    metadata: { parent_call_id: parentCallId },
    createdAt,
    eventData: { parent_call_id: parentCallId },
  });
  const { funds, refusal } = admit(store, { callId: id, organizationId, mode, direction: 'outbound', toNumber: to });
  return { begun: { id, createdAt, startedAtMs, funds }, refusal };
}

/** Why no INVITE may go to this SIP URI, where private addresses are off limits. A name counts for all its addresses. */
export async function sipRefusal(uri: string, allowPrivate: boolean): Promise<string | null> {
  const host = /^sips?:(?:[^@]*@)?(\[[^\]]+\]|[^:;?>]+)/i
    .exec(uri)?.[1]
    ?.replace(/^\[|\]$/g, '')
    .replace(/\.$/, '');
  if (host === undefined) return 'The SIP address has no host.';
  if (allowPrivate) return null;
  // `URL` turns decimal, octal and hexadecimal spellings of an address into the plain one.
  const plain = isIP(host) === 6 ? host : URL.canParse(`http://${host}`) ? new URL(`http://${host}`).hostname : host;
  const refusal = 'The SIP address leads into a private network.';
  if (isIP(plain) !== 0) return isPublicAddress(plain) ? null : refusal;
  const services = ['_sip._udp', '_sip._tcp', '_sips._tcp'].map((service) => resolveSrv(`${service}.${plain}`));
  const records = (await Promise.allSettled(services)).flatMap((found) =>
    found.status === 'fulfilled' ? found.value.map((record) => record.name) : [],
  );
  const names = [plain, ...records].map((name) => lookup(name, { all: true }));
  const addresses = (await Promise.allSettled(names)).flatMap((found) =>
    found.status === 'fulfilled' ? found.value : [],
  );
  if (addresses.length === 0) return 'The host of the SIP address is not known.';
  return addresses.every(({ address }) => isPublicAddress(address)) ? null : refusal;
}
