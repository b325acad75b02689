/** Ultravox: a call is created over REST; its join URL carries PCM and JSON. */
import { randomUUID } from 'node:crypto';
import { decodeAudio, encodeAudio } from './codec.js';
import { jsonOf, type ProviderProtocol, within } from './provider-protocol.js';

export const ultravox: ProviderProtocol = {
  provider: 'ultravox',
  path: '/calls',
  late: false,
  refuse: ({ url }) => (url.searchParams.has('inputSampleRate') ? null : 404),
  rest({ method, url, headers, body, socketBase }) {
    if (method !== 'POST' || !/^\/api\/(agents\/[^/]+\/)?calls$/.test(url.pathname)) return null;
    if (headers['x-api-key'] === undefined) return { status: 401, body: { detail: 'No API key.' } };
    const medium = within(within(body, 'medium'), 'serverWebSocket');
    const input = Number(medium.inputSampleRate);
    if (!(input > 0)) return { status: 400, body: { medium: ['inputSampleRate is required.'] } };
    const callId = randomUUID();
    const rates = `inputSampleRate=${input}&outputSampleRate=${Number(medium.outputSampleRate ?? input)}`;
    return { status: 201, body: { callId, joinUrl: `${socketBase}${ultravox.path}/${callId}/join?${rates}` } };
  },
  open(wire, agentInput, url) {
    let began = false;
    let calls = 0;
    wire.send({ type: 'call_started', callId: url.pathname.split('/')[2] });
    const transcript = (role: string, text: string, ordinal: number) =>
      wire.send({ type: 'transcript', role, medium: 'voice', text, final: true, ordinal });
    return {
      message(data) {
        if (typeof data !== 'string') {
          if (!began) {
            began = true;
            agentInput.begin({
              listensHz: Number(url.searchParams.get('inputSampleRate')),
              speaksHz: Number(url.searchParams.get('outputSampleRate')),
            });
            agentInput.greet();
          }
          return agentInput.hear(decodeAudio(data, 'l16'));
        }
        const message = jsonOf(data);
        if (message?.type === 'user_text_message') return agentInput.read(String(message.text));
        if (message?.type === 'hang_up') wire.close(1000);
      },
      interrupted: (turn) => {
        if (turn !== null) wire.send({ type: 'playback_clear_buffer' });
        wire.send({ type: 'state', state: 'listening' });
      },
      heard: (text) => transcript('user', text, 1000 + calls),
      said(text, turn) {
        wire.send({ type: 'state', state: 'speaking' });
        transcript('agent', text, turn);
      },
      audio: (samples) => wire.sendBinary(encodeAudio(samples, 'l16')),
      finished: () => wire.send({ type: 'state', state: 'listening' }),
      hangUp: () => {
        calls += 1;
        wire.close(1000);
      },
      transfer(to) {
        calls += 1;
        const call = { toolName: 'transfer_call', invocationId: `invocation_${calls}`, parameters: { to } };
        wire.send({ type: 'client_tool_invocation', ...call });
      },
      expire: () => wire.close(1000),
    };
  },
};
