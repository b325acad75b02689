/** SignalWire's `<Stream>` of cXML: Twilio's messages; the upgrade has a bearer token instead of a signature. */
import type { AgentProtocol } from '../../agent.js';
import { configObject, optionalText } from '../../config-fields.js';
import { type TwilioConfig, twilio } from './twilio.js';

export const signalwire: AgentProtocol<TwilioConfig> = {
  ...twilio,
  provider: 'signalwire',
  title: 'SignalWire streams',
  parseConfig(raw) {
    const { authToken: _signs, headers, ...rest } = twilio.parseConfig(raw);
    const token = optionalText(configObject(raw), 'auth_token');
    const bearer: Record<string, string> = token === undefined ? {} : { Authorization: `Bearer ${token}` };
    return { ...rest, headers: { ...bearer, ...headers } };
  },
};
