/** LiveKit: agents are reached through its SIP server, whose dispatch rules choose the agent. */
import { textField } from '../../config-schema.js';
import type { ProviderDescriptor } from '../../descriptor.js';

export const livekit: ProviderDescriptor = {
  provider: 'livekit',
  title: 'LiveKit',
  page: 'sip.md',
  selectedBy: 'provider',
  config: { api_secret: textField(4096) },
  example: {},
};
