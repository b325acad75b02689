import type { Transaction } from '../database/database.js';
import { loopbackTrunk } from '../routing/trunks.js';
import type { Store } from '../store.js';
import { apiKeyPattern } from './api-keys.js';
import type { StoredProviderConfig } from './secrets.js';

export const demoNumber = '+15550100';

export interface FirstSettings {
  /** `TRUNKLINE_BOOTSTRAP_KEY`: installed instead of a new key. Must be a live key. */
  key?: string;
  /** The demo number's endpoint: where the built-in echo agent listens. */
  echoAgent: { target: string; providerConfig: StoredProviderConfig };
  /** Trust the loopback addresses as a carrier: only while SIP listens on loopback. */
  loopbackTrunk: boolean;
}

export interface FirstStart {
  organizationId: string;
  ownerId: string;
  loopbackTrunkId: string | null;
  /** The owner's key, never shown again; null when it was given in the settings. */
  apiKey: string | null;
  number: string;
  endpointId: string;
}

/**
 * Fills an empty database: an organization, its owner, a key, and a number that answers with an echo. In one transaction, so that it
 * happens wholly or not at all, and once, however many processes start together. null: the database was not empty.
 */
export async function bootstrap(store: Store, settings: FirstSettings): Promise<FirstStart | null> {
  const { key } = settings;
  if (key !== undefined && !(apiKeyPattern.test(key) && key.startsWith('trunkline_live_'))) {
    throw new Error('TRUNKLINE_BOOTSTRAP_KEY must be trunkline_live_ followed by 32 letters and digits');
  }
  return store.transaction(async (transaction) => {
    if ((await store.organizations.count(transaction)) > 0) return null;
    const organization = await store.organizations.create({ name: 'Default', tier: 'enterprise' }, transaction);
    const owner = await store.organizations.createUser({ name: 'Owner', platformOwner: true }, transaction);
    await store.organizations.addMember(organization.id, owner.id, 'owner', transaction);
    const first = { userId: owner.id, organizationId: null, mode: 'live', name: 'First key', key } as const;
    const made = await store.apiKeys.create(first, transaction);

    const scope = { organizationId: organization.id, mode: 'live' } as const;
    const agent = {
      name: 'Echo',
      type: 'agent',
      target: settings.echoAgent.target,
      provider: 'custom',
      providerConfig: settings.echoAgent.providerConfig,
    } as const;
    const echo = await store.endpoints.create(scope, agent, transaction);
    const number = { number: demoNumber, name: 'Demo: echo', endpointId: echo.record.id };
    await store.phoneNumbers.create(scope, number, transaction);
    const loopbackTrunkId = settings.loopbackTrunk ? await addLoopbackTrunk(store, organization.id, transaction) : null;
    return {
      organizationId: organization.id,
      ownerId: owner.id,
      loopbackTrunkId,
      apiKey: key === undefined ? made.key : null,
      number: demoNumber,
      endpointId: echo.record.id,
    };
  });
}

/** Empties the database again, unless it has a call: its key was never shown, so the next start must be the first. */
export function undoBootstrap(store: Store, { organizationId, ownerId, loopbackTrunkId }: FirstStart): Promise<void> {
  return store.transaction(async (transaction) => {
    const { sql } = transaction;
    const ofIt = sql.selectFrom('calls').select('id').where('organization_id', '=', organizationId).limit(1);
    if (await transaction.get(ofIt)) return;
    if (loopbackTrunkId !== null) await transaction.run(sql.deleteFrom('trunks').where('id', '=', loopbackTrunkId));
    // endpoints, numbers, memberships and keys go with them
    await transaction.run(sql.deleteFrom('organizations').where('id', '=', organizationId));
    await transaction.run(sql.deleteFrom('users').where('id', '=', ownerId));
    await transaction.changedSettings();
  });
}

async function addLoopbackTrunk(store: Store, organizationId: string, within: Transaction): Promise<string> {
  const { id } = await store.trunks.create(
    { organizationId, mode: 'live', shared: true },
    {
      shared: true,
      ...loopbackTrunk,
      direction: 'inbound',
      username: null,
      password: null,
      gateways: [],
      transport: 'udp',
      srtp: 'off',
      register: false,
      codecs: ['PCMU', 'PCMA', 'G722', 'OPUS'],
      status: 'active',
    },
    within,
  );
  return id;
}
