import type { Mode } from './store/scope.js';
import type { Store } from './store/store.js';

/** Why an organization may not call this number out of a call of its own; null: it may. The rules of outbound calls. */
export function dialRefusal(
  store: Store,
  organizationId: string,
  mode: Mode,
  call: { to: string; from: string | null },
): string | null {
  const prefixes = store.organizations.get(organizationId)?.limits.allowed_prefixes;
  if (prefixes && !prefixes.some((prefix) => call.to.startsWith(prefix)))
    return 'The organization may not call this number.';
  if (call.from !== null && store.phoneNumbers.findDialled(call.from, mode)?.organizationId !== organizationId)
    return 'The caller id is not a number of the organization.';
  if (mode === 'test') return null;
  const plan = store.funds.check({ organizationId, mode, direction: 'outbound', toNumber: call.to });
  return plan.ok ? null : 'The balance is used up.';
}
