/** Applies the rules of outbound calls to calls dialled by another call. */
import { microcentsPerCent } from '../../billing/rate.js';
import type { Store } from '../../store/store.js';
import type { Mode } from '../../store/tenants/scope.js';
import { e164 } from '../../webhook/actions.js';
import type { BegunCall } from '../core/call.js';
import type { Admissions, CallAdmission } from './admission.js';

/** Data of the record of a child call. */
export interface ChildCallRecord {
  parentCallId: string;
  organizationId: string;
  mode: Mode;
  /** The webhook endpoint that requested it. */
  endpointId: string;
  from: string;
  to: string;
}

/** Why an organization may not call this number or SIP URI from within a call; null when it may. */
export async function dialRefusal(
  store: Store,
  organizationId: string,
  mode: Mode,
  call: { to: string; from: string | null },
): Promise<string | null> {
  const isNumber = e164.test(call.to);
  const limits = store.organizations.get(organizationId)?.limits;
  const prefixes = limits?.allowed_prefixes;
  if (isNumber && prefixes && !prefixes.some((prefix) => call.to.startsWith(prefix)))
    return `The organization may not call this number; its allowed_prefixes are ${prefixes.join(', ')}.`;
  if (
    isNumber &&
    call.from !== null &&
    store.phoneNumbers.findDialled(call.from, mode)?.organizationId !== organizationId
  )
    return `${call.from} may not be shown as caller id; the caller's number may, and the organization's own numbers.`;
  if (mode === 'test') return null;
  const plan = await store.funds.check({ organizationId, mode, direction: 'outbound', toNumber: call.to });
  if (!plan.ok) return 'The balance is used up.';
  const limitCents = limits?.daily_spend_cents ?? null;
  if (limitCents === null) return null;
  const { heldMicrocents } = await store.accounts.balance(organizationId);
  const left = limitCents * microcentsPerCent - (await store.accounts.spentToday(organizationId)) - heldMicrocents;
  return left < plan.requiredMicrocents || left <= 0 ? 'The organization has spent what it may today.' : null;
}

/** Queues the record of a child call, and asks for its money. */
export function beginChildCall(
  store: Store,
  admissions: Admissions,
  { parentCallId, organizationId, mode, endpointId, from, to }: ChildCallRecord,
): { begun: BegunCall; admission: Promise<CallAdmission> } {
  const createdAt = new Date();
  const startedAtMs = performance.now();
  const { id, admission } = admissions.begin({
    organizationId,
    mode,
    direction: 'outbound',
    fromNumber: from,
    toNumber: to,
    phoneNumberId:
      store.phoneNumbers.findDialled(from, mode)?.id ?? store.calls.phoneNumberOf(parentCallId) ?? parentCallId,
    endpointId,
    metadata: { parent_call_id: parentCallId },
    createdAt,
    eventData: { parent_call_id: parentCallId },
  });
  return { begun: { id, createdAt, startedAtMs, funds: null }, admission };
}
