/** Gemini Live: one setup, then JSON in binary messages, as the real service sends it. */
import { decodeAudio, encodeAudio } from './codec.js';
import { type Dialect, jsonOf, within } from './dialect.js';

export const gemini: Dialect = {
  provider: 'gemini',
  path: '/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent',
  late: false,
  refuse: ({ url, headers }) =>
    url.searchParams.has('key') || url.searchParams.has('access_token') || headers.authorization !== undefined
      ? null
      : 403,
  open(wire, ears) {
    let set = false;
    let began = false;
    let calls = 0;
    const send = (message: unknown) => wire.sendBinary(Buffer.from(JSON.stringify(message)));
    const content = (serverContent: unknown) => send({ serverContent });
    return {
      message(data) {
        const message = jsonOf(data);
        if (message === null) return wire.close(1007, 'Request contains an invalid argument.');
        if (message.setup !== undefined) {
          if (set) return wire.close(1007, 'Setup was sent already.');
          set = true;
          send({ setupComplete: {} });
          return send({ sessionResumptionUpdate: { newHandle: 'handle_1', resumable: true } });
        }
        if (!set) return wire.close(1007, 'The first message must be setup.');
        const audio = within(within(message, 'realtimeInput'), 'audio');
        if (typeof audio.data === 'string') {
          if (!began) {
            began = true;
            ears.begin({ listensHz: 16000, speaksHz: 24000 });
          }
          return ears.hear(decodeAudio(Buffer.from(audio.data, 'base64'), 'l16'));
        }
        const { turns } = within(message, 'clientContent') as { turns?: { parts?: { text?: string }[] }[] };
        for (const { parts } of turns ?? []) for (const { text } of parts ?? []) ears.read(text ?? '');
      },
      interrupted: (turn) => {
        if (turn !== null) content({ interrupted: true });
      },
      heard: (text) => content({ inputTranscription: { text } }),
      said: (text) => content({ outputTranscription: { text } }),
      audio: (samples) => {
        const data = encodeAudio(samples, 'l16').toString('base64');
        content({ modelTurn: { parts: [{ inlineData: { mimeType: 'audio/pcm;rate=24000', data } }] } });
      },
      finished: () => {
        content({ generationComplete: true });
        content({ turnComplete: true });
      },
      hangUp: () => {
        calls += 1;
        send({ toolCall: { functionCalls: [{ id: `function_${calls}`, name: 'hang_up', args: {} }] } });
      },
    };
  },
};
