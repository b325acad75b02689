import type { EndpointForCall as Endpoint } from '../../../store/routing/endpoints.js';
import type { StreamTarget } from '../../../webhook/actions.js';
import { dialects } from '../../../webhook/dialects/registry.js';

/** The dialect of webhooks that signs the upgrade requests of a stream protocol. */
const signers: { readonly [protocol: string]: string } = {
  twilio: 'twiml',
  telnyx: 'texml',
  plivo: 'plivo',
  vonage: 'ncco',
};

/**
 * The stream of a webhook's action as an agent endpoint for one call. Its upgrade request is signed as the platform of its protocol signs.
 * `provider_config.wss_map` of the webhook maps a host to another address, for development without certificates. `sid`: the `streamSid`
 * in Twilio's messages.
 */
export function streamEndpoint(
  webhook: Endpoint,
  stream: Pick<StreamTarget, 'url' | 'protocol' | 'audio'>,
  sid?: string,
): Endpoint {
  const asked = new URL(stream.url);
  const map = webhook.providerConfig.wss_map as Record<string, string> | undefined;
  const mapped = map !== undefined && Object.hasOwn(map, asked.host) ? map[asked.host] : undefined;
  const url = mapped === undefined ? asked : new URL(asked.pathname + asked.search, mapped);
  // Signed over the address as the webhook wrote it, because a bot checks its public address.
  const { id, organizationId, webhookSecret: secret } = webhook;
  const headers =
    secret === null
      ? undefined
      : dialects[signers[stream.protocol] ?? '']?.signStream({ id, organizationId, secret }, stream.url);
  return {
    ...webhook,
    type: 'agent',
    target: url.href,
    provider: 'custom',
    providerConfig: {
      protocol: stream.protocol,
      ...(sid !== undefined && stream.protocol === 'twilio' && { stream_sid: sid }),
      ...stream.audio,
      ...(headers && { headers }),
    },
  };
}
