/** Deepgram Voice Agent v1: Welcome, Settings, SettingsApplied; then bare audio both ways. */
import { randomUUID } from 'node:crypto';
import { decodeAudio, encodeAudio, type WireEncoding } from './codec.js';
import { jsonOf, type ProviderProtocol, within } from './provider-protocol.js';

const encodings: Record<string, WireEncoding> = { mulaw: 'ulaw', alaw: 'alaw', linear16: 'l16' };

export const deepgram: ProviderProtocol = {
  provider: 'deepgram',
  path: '/v1/agent/converse',
  late: false,
  refuse: ({ headers }) => (/^(Token|Bearer) .+/.test(headers.authorization ?? '') ? null : 401),
  open(wire, agentInput) {
    let input: WireEncoding | null = null;
    let output: WireEncoding = 'l16';
    let calls = 0;
    const fatal = (code: string) => {
      wire.send({ type: 'Error', code, description: 'The simulator cannot go on.' });
      wire.close(1008);
    };
    const callFunction = (name: string, args: string) => {
      calls += 1;
      const call = { id: `func_${calls}`, name, arguments: args, client_side: true };
      wire.send({ type: 'FunctionCallRequest', functions: [call] });
    };
    wire.send({ type: 'Welcome', request_id: randomUUID() });
    return {
      message(data) {
        if (typeof data !== 'string') {
          if (input === null) return fatal('NON_SETTINGS_MESSAGE_BEFORE_SETTINGS');
          return agentInput.hear(decodeAudio(data, input));
        }
        const message = jsonOf(data);
        if (message === null) return fatal('UNPARSABLE_CLIENT_MESSAGE');
        if (message.type === 'InjectUserMessage') return agentInput.read(String(message.content));
        if (message.type === 'UpdatePrompt') return wire.send({ type: 'PromptUpdated' });
        if (message.type !== 'Settings') return;
        if (input !== null) return fatal('SETTINGS_ALREADY_APPLIED');
        const audio = within(message, 'audio');
        const from = within(audio, 'input');
        const to = within(audio, 'output');
        input = encodings[String(from.encoding ?? 'linear16')] ?? null;
        output = encodings[String(to.encoding ?? 'linear16')] ?? 'l16';
        if (input === null) return fatal('INVALID_SETTINGS');
        wire.send({ type: 'SettingsApplied' });
        agentInput.begin({ listensHz: Number(from.sample_rate ?? 24000), speaksHz: Number(to.sample_rate ?? 24000) });
        const { greeting, context } = within(message, 'agent');
        if (context === undefined) agentInput.greet(typeof greeting === 'string' ? greeting : undefined);
      },
      interrupted: () => wire.send({ type: 'UserStartedSpeaking' }),
      heard(content) {
        wire.send({ type: 'ConversationText', role: 'user', content });
        wire.send({ type: 'AgentThinking', content: 'The simulated agent thinks.' });
      },
      said(content) {
        wire.send({ type: 'AgentStartedSpeaking', total_latency: 0.5, tts_latency: 0.2, ttt_latency: 0.3 });
        wire.send({ type: 'ConversationText', role: 'assistant', content });
      },
      audio: (samples) => wire.sendBinary(encodeAudio(samples, output)),
      finished: () => wire.send({ type: 'AgentAudioDone' }),
      hangUp: () => callFunction('hang_up', '{}'),
      transfer: (to) => callFunction('transfer_call', JSON.stringify({ to })),
      // The documentation says that the service closes, but not with which code.
      expire: () => wire.close(1011, 'The session reached its maximum duration of 2 hours.'),
    };
  },
};
