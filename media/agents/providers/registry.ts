/** All providers. A new one is a file and a line here. */
import type { AgentProtocol } from '../agent.js';
import type { ProviderDescriptor } from '../descriptor.js';
import { amazonNovaSonic } from './hosted/amazon-nova-sonic.js';
import { assemblyai } from './hosted/assemblyai.js';
import { azureOpenai } from './hosted/azure-openai.js';
import { azureVoiceLive } from './hosted/azure-voice-live.js';
import { cartesia } from './hosted/cartesia.js';
import { deepgram } from './hosted/deepgram.js';
import { elevenlabs } from './hosted/elevenlabs.js';
import { gemini } from './hosted/gemini.js';
import { hume } from './hosted/hume.js';
import { inworld } from './hosted/inworld.js';
import { livekit } from './hosted/livekit.js';
import { openai } from './hosted/openai.js';
import { retell } from './hosted/retell.js';
import { ultravox } from './hosted/ultravox.js';
import { vapi } from './hosted/vapi.js';
import { xai } from './hosted/xai.js';
import { asterisk } from './streams/asterisk.js';
import { audiocodes } from './streams/audiocodes.js';
import { audiosocket } from './streams/audiosocket.js';
import { exotel } from './streams/exotel.js';
import { genesys } from './streams/genesys.js';
import { jambonz } from './streams/jambonz.js';
import { plivo } from './streams/plivo.js';
import { raw } from './streams/raw.js';
import { signalwire } from './streams/signalwire.js';
import { sinch } from './streams/sinch.js';
import { telnyx } from './streams/telnyx.js';
import { twilio } from './streams/twilio.js';
import { vonage } from './streams/vonage.js';

/** Reached over a socket. */
const PROTOCOLS: readonly AgentProtocol[] = [
  openai,
  azureOpenai,
  azureVoiceLive,
  xai,
  inworld,
  elevenlabs,
  deepgram,
  gemini,
  ultravox,
  hume,
  vapi,
  assemblyai,
  cartesia,
  amazonNovaSonic,
  twilio,
  telnyx,
  plivo,
  vonage,
  exotel,
  signalwire,
  jambonz,
  asterisk,
  sinch,
  genesys,
  audiocodes,
  audiosocket,
  raw,
];
const SIP_ONLY: readonly ProviderDescriptor[] = [retell, livekit];

export const agentProtocols: ReadonlyMap<string, AgentProtocol> = new Map(
  PROTOCOLS.map((each) => [each.provider, each]),
);

export const agentProviders: ReadonlyMap<string, ProviderDescriptor> = new Map(
  [...PROTOCOLS, ...SIP_ONLY].map((each) => [each.provider, each]),
);

/** The providers whose name is a value of the field `provider` (or `protocol`). */
export function providersSelectedBy(field: ProviderDescriptor['selectedBy']): ProviderDescriptor[] {
  return [...agentProviders.values()].filter(({ selectedBy }) => selectedBy === field);
}
