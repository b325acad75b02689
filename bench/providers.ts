/**
 * What one second of a call costs in each agent protocol: 50 frames of the caller put into words, and one second of the agent's audio
 * understood, with the way between the phone's G.711 and the protocol's format. Without sockets, which cost all protocols the same a message.
 * Run: `npm run build && node dist/bench/providers.js`
 */
import type { AgentTarget, Outgoing, Plain, Sink } from '../media/agents/agent.js';
import { agentProtocols } from '../media/agents/registry.js';
import { agentToPhone, phoneToAgent } from '../media/audio/transcode.js';
import { writeWav } from '../media/audio/wav.js';

const SECONDS = 200;
const ROUNDS = 7;
const FRAMES_PER_SEC = 50;
/** Providers send pieces of this length, bots frames. */
const PIECE_MS = 100;

const configs: Record<string, Plain> = {
  raw: { encoding: 'ulaw' },
  elevenlabs: { agent_id: 'a' },
  vapi: { api_key: 'k', assistant_id: 'a' },
};

/** One piece of agent audio as the protocol's agent sends it. */
function reply(provider: string, bytes: Buffer, opening: Outgoing[]): string | Uint8Array {
  const payload = bytes.toString('base64');
  const streamSid = /"streamSid":"(\w+)"/.exec(opening.join())?.[1];
  const inlineData = { mimeType: 'audio/pcm;rate=24000', data: payload };
  const samples = new Int16Array(bytes.buffer, bytes.byteOffset, bytes.length >> 1);
  const messages: Record<string, () => object> = {
    twilio: () => ({ event: 'media', streamSid, media: { payload } }),
    telnyx: () => ({ event: 'media', media: { payload } }),
    plivo: () => ({ event: 'playAudio', media: { payload } }),
    openai: () => ({ type: 'response.output_audio.delta', item_id: 'i', delta: payload }),
    elevenlabs: () => ({ type: 'audio', audio_event: { audio_base_64: payload, event_id: 1 } }),
    gemini: () => ({ serverContent: { modelTurn: { parts: [{ inlineData }] } } }),
    hume: () => {
      const wav = Buffer.from(writeWav({ sampleRateHz: 48000, channels: [samples] }));
      return { type: 'audio_output', id: 'a', data: wav.toString('base64') };
    },
  };
  const message = messages[provider];
  return message === undefined ? bytes : JSON.stringify(message());
}

/** CPU microseconds for one second of a call. */
function measure(provider: string): number {
  const protocol = agentProtocols.get(provider);
  if (protocol === undefined) throw new Error(`There is no ${provider}.`);
  const target: AgentTarget = {
    protocol: provider,
    url: protocol.knownUrl ?? 'wss://agent.example.com/',
    config: null,
    call: { callId: 'c', organizationId: 'o', from: '+1', to: '+2', direction: 'inbound', custom: {} },
    connectTimeoutMs: 5000,
    firstAudioTimeoutMs: 0,
    allowPrivateAddress: true,
  };
  const conversation = protocol.converse(protocol.parseConfig(configs[provider] ?? { api_key: 'k' }), target);
  const { format, replyFormat } = conversation;
  const toAgent = phoneToAgent('PCMU', format);
  const toPhone = agentToPhone(replyFormat, 'PCMU');
  const frame = new Uint8Array(160).fill(0x55);
  const bytesPerMs = (replyFormat.sampleRateHz / 1000) * (replyFormat.encoding === 'l16' ? 2 : 1);
  const piece = reply(provider, Buffer.alloc(PIECE_MS * bytesPerMs, 0x11), conversation.start());
  const nothing = () => {};
  const sink = new Proxy({ audio: (bytes: Uint8Array) => void toPhone(bytes) } as Sink, {
    get: (known, name: keyof Sink) => known[name] ?? nothing,
  });
  const before = process.cpuUsage();
  for (let i = 0; i < SECONDS * FRAMES_PER_SEC; i++) conversation.audio(toAgent(frame), i * 20);
  for (let i = 0; i < (SECONDS * 1000) / PIECE_MS; i++) conversation.receive(piece, sink);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / SECONDS;
}

function median(values: number[]): number {
  return values.sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
}

process.stdout.write(
  `CPU for one second of a call, translation and transcoding; median of ${ROUNDS}, node ${process.version}\n`,
);
for (const provider of agentProtocols.keys()) {
  measure(provider); // warm
  const us = median(Array.from({ length: ROUNDS }, () => measure(provider)));
  process.stdout.write(
    `${provider.padEnd(12)} ${us.toFixed(0).padStart(6)} µs  ${(us / 10_000).toFixed(3)} % of a core\n`,
  );
}
