/** Every provider that can be simulated. */
import { assemblyai } from './assemblyai.js';
import { amazonNovaSonic } from './byte-streams/amazon-nova-sonic.js';
import { audiosocket } from './byte-streams/audiosocket.js';
import { cartesia } from './cartesia.js';
import { deepgram } from './deepgram.js';
import { elevenlabs } from './elevenlabs.js';
import { gemini } from './gemini.js';
import { hume } from './hume.js';
import { azureOpenai, azureVoiceLive, inworld, openai, xai } from './openai.js';
import type { ProviderProtocol } from './provider-protocol.js';
import { streams } from './streams.js';
import { ultravox } from './ultravox.js';
import { vapi } from './vapi.js';

const all: readonly ProviderProtocol[] = [
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
  ...streams,
  audiosocket,
];

export const providerProtocols: ReadonlyMap<string, ProviderProtocol> = new Map(
  all.map((each) => [each.provider, each]),
);
