import { microcentsPerCent } from '../../billing/rate.js';
import type { OutboundCalls } from '../../call/core/outbound-request.js';
import type { CallRates } from '../../redis/call-rates.js';
import type { Reads } from '../../store/database/database.js';
import type { Endpoint } from '../../store/routing/endpoints.js';
import type { Store } from '../../store/store.js';
import type { Organization } from '../../store/tenants/organizations.js';
import type { Scope } from '../../store/tenants/scope.js';
import { e164 } from '../../webhook/actions.js';
import { ApiError, notFound } from '../errors.js';

/** The caller id that every test key may use, and its phone number id in records. */
export const testNumber = '+15005550006';
export const testNumberId = '00000000-0000-7000-8000-015005550006';

/** The phone number id in the record of a call between a name and an address. */
const noNumberId = '00000000-0000-0000-0000-000000000000';

/** A requested call. */
export interface RequestedCall {
  toNumber: string;
  fromNumber: string;
  endpointId: string;
}

/** Decides whether an organization may start a call now; checks apply in order. */
export class OutboundRules {
  constructor(
    private readonly store: Store,
    private readonly outboundCalls: OutboundCalls | undefined,
    private readonly rates: CallRates,
  ) {}

  /** Throws the error of the first failed check. Runs in the transaction that creates the call, so that its result still holds. */
  async allow(
    scope: Scope,
    organization: Organization,
    asked: RequestedCall,
    reads: Reads,
  ): Promise<{ endpoint: Endpoint; phoneNumberId: string }> {
    const endpoint = await this.store.endpoints.get(scope, asked.endpointId, reads);
    if (!endpoint) throw notFound('Endpoint');
    const isNumber = e164.test(asked.toNumber);
    const phoneNumberId = this.callerId(scope, asked.fromNumber, isNumber);
    const { allowed_prefixes: prefixes } = organization.limits;
    if (isNumber && prefixes && !prefixes.some((prefix) => asked.toNumber.startsWith(prefix)))
      throw new ApiError('DESTINATION_NOT_ALLOWED');
    if (endpoint.status !== 'active') throw new ApiError('ENDPOINT_INACTIVE', undefined, { endpoint_id: endpoint.id });
    await this.checkMoney(scope, organization, asked.toNumber, reads);
    await this.checkCap(scope, organization, reads);
    this.checkServer(scope, asked.toNumber);
    await this.checkRate(organization);
    return { endpoint, phoneNumberId };
  }

  /** The id of the number. Towards an address a name may call as well. */
  private callerId(scope: Scope, fromNumber: string, isToNumber: boolean): string {
    if (!isToNumber && !e164.test(fromNumber)) return noNumberId;
    const number = this.store.phoneNumbers.findDialled(fromNumber, scope.mode);
    if (number?.organizationId === scope.organizationId) return number.id;
    if (scope.mode === 'test' && fromNumber === testNumber) return testNumberId;
    throw new ApiError('CALLER_ID_NOT_ALLOWED');
  }

  private async checkMoney(scope: Scope, organization: Organization, toNumber: string, reads: Reads): Promise<void> {
    if (scope.mode === 'test') return;
    const { accounts, funds } = this.store;
    const plan = await funds.check({ ...scope, direction: 'outbound', toNumber }, reads);
    if (!plan.ok)
      throw new ApiError('INSUFFICIENT_BALANCE', undefined, {
        balance: plan.balanceMicrocents / microcentsPerCent,
        required: plan.requiredMicrocents / microcentsPerCent,
      });
    const limitCents = organization.limits.daily_spend_cents;
    if (limitCents === null) return;
    const { heldMicrocents } = await accounts.balance(organization.id, reads);
    const left = limitCents * microcentsPerCent - (await accounts.spentToday(organization.id, reads)) - heldMicrocents;
    if (left < plan.requiredMicrocents || left <= 0)
      throw new ApiError('SPEND_LIMIT_EXCEEDED', undefined, {
        balance: Math.max(0, left) / microcentsPerCent,
        required: plan.requiredMicrocents / microcentsPerCent,
      });
  }

  private async checkCap(scope: Scope, organization: Organization, reads: Reads): Promise<void> {
    const { concurrent_calls: atOnce } = organization.limits;
    if (atOnce !== null && (await this.store.records.running(scope, reads)) >= atOnce)
      throw new ApiError('CONCURRENCY_LIMIT_EXCEEDED', undefined, { limit: atOnce }, { 'retry-after': '5' });
  }

  /** The last check, since it counts the call. */
  private async checkRate({ id, limits }: Organization): Promise<void> {
    const { calls_per_second: limit } = limits;
    if (limit !== null && !(await this.rates.begin('organization', id, limit)))
      throw new ApiError('CALLS_PER_SECOND_EXCEEDED', undefined, { limit }, { 'retry-after': '1' });
  }

  private checkServer({ organizationId, mode }: Scope, to: string): void {
    const refusal = this.outboundCalls ? this.outboundCalls.refusal(organizationId, mode, to) : 'no_trunk';
    if (refusal === 'no_trunk') throw new ApiError('NO_TRUNK_AVAILABLE', undefined, undefined, { 'retry-after': '30' });
    if (refusal === 'full') throw new ApiError('SERVICE_UNAVAILABLE', undefined, undefined, { 'retry-after': '5' });
    if (refusal === 'shutting_down') throw new ApiError('SHUTTING_DOWN', undefined, undefined, { 'retry-after': '30' });
  }
}
