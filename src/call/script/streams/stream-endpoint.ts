import type { EndpointForCall as Endpoint } from '../../../store/routing/endpoints.js';
import { twilioSignature } from '../../../webhook/signature.js';

interface Stream {
  url: string;
  protocol: string;
  /** The `streamSid` in its messages. */
  sid?: string;
}

/**
 * The stream of a webhook's action as an agent endpoint for one call. Its upgrade request is signed as the webhook's own requests are.
 * `provider_config.wss_map` of the webhook maps a host to another address, for development without certificates.
 */
export function streamEndpoint(webhook: Endpoint, stream: Stream): Endpoint {
  const asked = new URL(stream.url);
  const map = webhook.providerConfig.wss_map as Record<string, string> | undefined;
  const mapped = map !== undefined && Object.hasOwn(map, asked.host) ? map[asked.host] : undefined;
  const url = mapped === undefined ? asked : new URL(asked.pathname + asked.search, mapped);
  // Signed over the address as the webhook wrote it, because a bot checks its public address.
  const signature =
    stream.protocol === 'twilio' && webhook.webhookSecret !== null
      ? twilioSignature(webhook.webhookSecret, stream.url)
      : null;
  return {
    ...webhook,
    type: 'agent',
    target: url.href,
    provider: 'custom',
    providerConfig: {
      protocol: stream.protocol,
      ...(stream.sid !== undefined && stream.protocol === 'twilio' && { stream_sid: stream.sid }),
      ...(signature && { headers: { 'X-Twilio-Signature': signature } }),
    },
  };
}
