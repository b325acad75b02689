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
  /** The owner's key, never shown again; null when it was given in the settings. */
  apiKey: string | null;
  number: string;
  endpointId: string;
}

/**
 * Fills an empty database: an organization, its owner, a key, and a number that answers with an echo. In one transaction, so that it
 * happens wholly or not at all, and once, however many processes start together. null: the database was not empty.
 */
export function bootstrap(store: Store, settings: FirstSettings): FirstStart | null {
  const { key } = settings;
  if (key !== undefined && !(apiKeyPattern.test(key) && key.startsWith('trunkline_live_'))) {
    throw new Error('TRUNKLINE_BOOTSTRAP_KEY must be trunkline_live_ followed by 32 letters and digits');
  }
  return store.transaction(() => {
    if (store.organizations.count() > 0) return null;
    const organization = store.organizations.create({ name: 'Default', tier: 'enterprise' });
    const owner = store.organizations.createUser({ name: 'Owner', platformOwner: true });
    store.organizations.addMember(organization.id, owner.id, 'owner');
    const made = store.apiKeys.create({ userId: owner.id, organizationId: null, mode: 'live', name: 'First key', key });

    const scope = { organizationId: organization.id, mode: 'live' } as const;
    const echo = store.endpoints.create(scope, {
      name: 'Echo',
      type: 'agent',
      target: settings.echoAgent.target,
      provider: 'custom',
      providerConfig: settings.echoAgent.providerConfig,
    });
    store.phoneNumbers.create(scope, { number: demoNumber, name: 'Demo: echo', endpointId: echo.record.id });
    if (settings.loopbackTrunk) addLoopbackTrunk(store, organization.id);
    return {
      organizationId: organization.id,
      apiKey: key === undefined ? made.key : null,
      number: demoNumber,
      endpointId: echo.record.id,
    };
  });
}

function addLoopbackTrunk(store: Store, organizationId: string): void {
  store.trunks.create(
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
  );
}
