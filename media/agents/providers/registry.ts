/** All agent protocols. A new provider is one file and one line here. */
import type { AgentProtocol } from '../agent.js';
import { deepgram } from './deepgram.js';
import { elevenlabs } from './elevenlabs.js';
import { gemini } from './gemini.js';
import { hume } from './hume.js';
import { openai } from './openai.js';
import { plivo } from './plivo.js';
import { raw } from './raw.js';
import { telnyx } from './telnyx.js';
import { twilio } from './twilio.js';
import { ultravox } from './ultravox.js';
import { vapi } from './vapi.js';
import { vonage } from './vonage.js';

const ALL: readonly AgentProtocol[] = [
  raw,
  twilio,
  telnyx,
  plivo,
  vonage,
  openai,
  elevenlabs,
  deepgram,
  gemini,
  ultravox,
  hume,
  vapi,
];

export const agentProtocols: ReadonlyMap<string, AgentProtocol> = new Map(ALL.map((each) => [each.provider, each]));
