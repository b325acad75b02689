import { microcentsPerCent } from '../../../billing/rate.js';
import type { Transaction } from '../../../store/database/database.js';
import type { Store } from '../../../store/store.js';
import type { CardRate } from '../../../store/tenants/accounts.js';
import type { Membership } from '../../../store/tenants/organizations.js';
import { membershipIn, requirePlatformOwner } from '../../auth/membership.js';
import { invalid, notFound } from '../../errors.js';
import {
  presentAccount,
  presentLedgerEntry,
  presentList,
  presentRate,
  presentRejectedInvite,
} from '../../present/present.js';
import { type Route, route } from '../../route.js';
import {
  createOrganizationBody,
  creditBody,
  rateCardBody,
  sliceOnlyQuery,
  updateOrganizationBody,
} from '../../schemas/organizations.js';
import { idParams, ref } from '../../schemas/types.js';
import { memberRoutes } from './members.js';

const tag = 'Organizations';

export function organizationRoutes({ store }: { store: Store }): Route[] {
  const present = async ({ organization }: Membership, reads?: Transaction) => {
    if (reads === undefined) await store.calls.flush(); // the balance contains the cost of every ended call
    return presentAccount(organization, await store.accounts.balance(organization.id, reads));
  };
  return [
    route({
      method: 'GET',
      path: '/v1/organizations',
      operationId: 'listOrganizations',
      tag,
      summary: 'List organizations',
      description: 'The organizations the caller may act in, most recently joined first.',
      access: 'member',
      query: sliceOnlyQuery,
      answer: { status: 200, description: 'One page of the list.', schema: ref('OrganizationList') },
      handle: async ({ query, caller }) => {
        const all = caller.memberships.toReversed();
        const data = all.slice(query.offset, query.offset + query.limit);
        const presented = await Promise.all(data.map((membership) => present(membership)));
        return presentList({ data: presented, total: all.length }, query, (account) => account);
      },
    }),
    route({
      method: 'POST',
      path: '/v1/organizations',
      operationId: 'createOrganization',
      tag,
      summary: 'Create an organization',
      description:
        'Creates a tenant with a balance of 0 and, by default, the tier `free`. Only for the platform owner, who becomes the owner of the organization.',
      access: 'member',
      body: createOrganizationBody,
      answer: { status: 201, description: 'The organization.', schema: ref('Organization') },
      handle: ({ body, caller, within }) => {
        requirePlatformOwner(caller);
        return store.transaction(async (transaction) => {
          const wanted = { ...body, tier: body.tier ?? 'free', metered: true };
          const organization = await store.organizations.create(wanted, transaction);
          await store.organizations.addMember(organization.id, caller.user.id, 'owner', transaction);
          return present({ organization, role: 'owner' }, transaction);
        }, within);
      },
    }),
    route({
      method: 'GET',
      path: '/v1/organizations/:id',
      operationId: 'getOrganization',
      tag,
      summary: 'Get an organization',
      description: 'The organization with its limits and balance.',
      access: 'member',
      params: idParams,
      answer: { status: 200, description: 'The organization.', schema: ref('Organization') },
      handle: ({ params, caller }) => present(membershipIn(caller, params.id)),
    }),
    route({
      method: 'PATCH',
      path: '/v1/organizations/:id',
      operationId: 'updateOrganization',
      tag,
      summary: 'Update an organization',
      description: 'Changes name, tier and limits; omitted limits keep their value. Only for the platform owner.',
      access: 'member',
      params: idParams,
      body: updateOrganizationBody,
      answer: { status: 200, description: 'The organization.', schema: ref('Organization') },
      handle: async ({ params, body, caller }) => {
        const { organization, role } = membershipIn(caller, params.id);
        requirePlatformOwner(caller);
        const changed = await store.organizations.update(organization.id, body);
        if (!changed) throw notFound('Organization');
        return present({ organization: changed, role });
      },
    }),
    route({
      method: 'GET',
      path: '/v1/organizations/:id/rates',
      operationId: 'getRates',
      tag,
      summary: 'Get the rate card',
      description: 'The prices of calls of the organization. A call without a matching rate is free.',
      access: 'member',
      params: idParams,
      answer: { status: 200, description: 'The rate card.', schema: ref('RateCard') },
      handle: ({ params, caller }) => ({
        rates: store.accounts.rates(membershipIn(caller, params.id).organization.id).map(presentRate),
      }),
    }),
    route({
      method: 'PUT',
      path: '/v1/organizations/:id/rates',
      operationId: 'replaceRates',
      tag,
      summary: 'Replace the rate card',
      description:
        'Replaces the prices of calls; running calls keep the rate they began with. Only for the platform owner, so that no customer sets its own price.',
      access: 'owner',
      params: idParams,
      body: rateCardBody,
      answer: { status: 200, description: 'The rate card.', schema: ref('RateCard') },
      handle: async ({ params, body, caller }) => {
        const { organization } = membershipIn(caller, params.id);
        requirePlatformOwner(caller);
        await store.accounts.setRates(organization.id, cardOf(body.rates));
        return { rates: store.accounts.rates(organization.id).map(presentRate) };
      },
    }),
    route({
      method: 'GET',
      path: '/v1/organizations/:id/ledger',
      operationId: 'listLedger',
      tag,
      summary: 'List the ledger',
      description: 'The changes of the balance: credits and costs of calls, newest first.',
      access: 'member',
      params: idParams,
      query: sliceOnlyQuery,
      answer: { status: 200, description: 'One page of the list.', schema: ref('LedgerEntryList') },
      handle: async ({ params, query, caller }) => {
        const { organization } = membershipIn(caller, params.id);
        await store.calls.flush(); // so that the list contains the cost of every ended call
        return presentList(await store.longReads.ask('ledger', organization.id, query), query, presentLedgerEntry);
      },
    }),
    route({
      method: 'POST',
      path: '/v1/organizations/:id/credits',
      operationId: 'addCredits',
      tag,
      summary: 'Add credit',
      description:
        'Adds an amount to the balance or, if negative, deducts it. An organization is metered from its first credit on. Only for the platform owner.',
      access: 'owner',
      params: idParams,
      body: creditBody,
      answer: { status: 201, description: 'The ledger entry.', schema: ref('LedgerEntry') },
      handle: async ({ params, body, caller, within }) => {
        const { organization } = membershipIn(caller, params.id);
        requirePlatformOwner(caller);
        if (!wholeMicrocents(body.amount_cents))
          throw invalid({ path: 'amount_cents', message: 'must have at most six decimals' });
        return presentLedgerEntry(await store.accounts.credit(organization.id, body.amount_cents, body.note, within));
      },
    }),
    route({
      method: 'GET',
      path: '/v1/rejected-invites',
      operationId: 'listRejectedInvites',
      tag,
      summary: 'List rejected INVITEs',
      description:
        'INVITEs that belong to no organization: from unknown sources or to unknown numbers, newest first. One per address and 10 seconds is stored, at most 10,000 in total. Only for the platform owner.',
      access: 'member',
      query: sliceOnlyQuery,
      answer: { status: 200, description: 'One page of the list.', schema: ref('RejectedInviteList') },
      handle: async ({ query, caller }) => {
        requirePlatformOwner(caller);
        return presentList(await store.rejectedInvites.list(query), query, presentRejectedInvite);
      },
    }),
    ...memberRoutes({ store }),
  ];
}

function cardOf(
  rates: readonly {
    direction: CardRate['direction'];
    prefix: string;
    rate_cents_per_minute: number;
    initial_increment_s: number;
    increment_s: number;
  }[],
): CardRate[] {
  const seen = new Set<string>();
  return rates.map((rate, index) => {
    const key = `${rate.direction} ${rate.prefix}`;
    if (seen.has(key)) throw invalid({ path: `rates.${index}.prefix`, message: 'is a duplicate' });
    seen.add(key);
    if (!wholeMicrocents(rate.rate_cents_per_minute))
      throw invalid({ path: `rates.${index}.rate_cents_per_minute`, message: 'must have at most six decimals' });
    return {
      direction: rate.direction,
      prefix: rate.prefix,
      microcentsPerMinute: Math.round(rate.rate_cents_per_minute * microcentsPerCent),
      initialIncrementSec: rate.initial_increment_s,
      incrementSec: rate.increment_s,
    };
  });
}

/** Whether the amount has at most six decimals, apart from floating-point rounding. */
function wholeMicrocents(cents: number): boolean {
  const micro = cents * microcentsPerCent;
  return Number.isSafeInteger(Math.round(micro)) && Math.round(micro) / microcentsPerCent === cents;
}
