/** Gemini Live: one setup, then JSON in binary messages, as the real service sends it. */
import { randomUUID } from 'node:crypto';
import { decodeAudio, encodeAudio } from './codec.js';
import { jsonOf, type ProviderProtocol, within } from './provider-protocol.js';

/** Time from `goAway` until the service closes. */
const leaveMs = 5000;

/** Of each answer, whatever is said. */
const usageMetadata = {
  ...{ promptTokenCount: 200, responseTokenCount: 50, thoughtsTokenCount: 6, totalTokenCount: 256 },
  promptTokensDetails: [
    { modality: 'TEXT', tokenCount: 120 },
    { modality: 'AUDIO', tokenCount: 80 },
  ],
  responseTokensDetails: [{ modality: 'AUDIO', tokenCount: 50 }],
};

export const gemini: ProviderProtocol = {
  provider: 'gemini',
  path: '/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent',
  late: false,
  refuse: ({ url, headers }) =>
    url.searchParams.has('key') ||
    url.searchParams.has('access_token') ||
    headers.authorization !== undefined ||
    headers['x-goog-api-key'] !== undefined
      ? null
      : 403,
  open(wire, agentInput, _url, state) {
    let set = false;
    let calls = 0;
    const send = (message: Record<string, unknown>) => wire.sendBinary(Buffer.from(JSON.stringify(message)));
    const content = (serverContent: unknown) => send({ serverContent });
    const callFunction = (name: string, args: Record<string, unknown>) => {
      calls += 1;
      send({ toolCall: { functionCalls: [{ id: `function_${calls}`, name, args }] } });
    };
    const setUp = (setup: Record<string, unknown>) => {
      if (set) return wire.close(1007, 'Setup was sent already.');
      set = true;
      const handle = within(setup, 'sessionResumption').handle;
      if (typeof handle === 'string' && !state.has(handle))
        return wire.close(1007, 'Request contains an invalid argument.');
      send({ setupComplete: {} });
      if (setup.sessionResumption !== undefined) {
        const newHandle = randomUUID();
        state.set(newHandle, true);
        send({ sessionResumptionUpdate: { newHandle, resumable: true } });
      }
      agentInput.begin({ listensHz: 16000, speaksHz: 24000 });
    };
    return {
      message(data) {
        const message = jsonOf(data);
        if (message === null) return wire.close(1007, 'Request contains an invalid argument.');
        if (message.setup !== undefined) return setUp(within(message, 'setup'));
        if (!set) return wire.close(1007, 'The first message must be setup.');
        const audio = within(within(message, 'realtimeInput'), 'audio');
        if (typeof audio.data === 'string')
          return agentInput.hear(decodeAudio(Buffer.from(audio.data, 'base64'), 'l16'));
        const given = within(message, 'clientContent') as {
          turns?: { parts?: { text?: string }[] }[];
          turnComplete?: boolean;
        };
        for (const { parts } of given.turns ?? []) for (const { text } of parts ?? []) agentInput.read(text ?? '');
        if (given.turnComplete === true) agentInput.greet();
      },
      interrupted: (turn) => {
        if (turn === null) return;
        content({ interrupted: true });
        content({ turnComplete: true });
      },
      heard: (text) => content({ inputTranscription: { text } }),
      said: (text) => content({ outputTranscription: { text } }),
      audio: (samples) => {
        const data = encodeAudio(samples, 'l16').toString('base64');
        const parts = [{ inlineData: { mimeType: 'audio/pcm;rate=24000', data } }];
        content({ modelTurn: { role: 'model', parts } });
      },
      finished: () => {
        content({ generationComplete: true });
        content({ turnComplete: true });
        send({ usageMetadata });
      },
      hangUp: () => callFunction('hang_up', {}),
      transfer: (to) => callFunction('transfer_call', { to }),
      expire() {
        send({ goAway: { timeLeft: `${leaveMs / 1000}s` } });
        wire.closeAfter(leaveMs, 1011, 'Deadline expired before operation could complete.');
      },
    };
  },
};
