/** Vapi's WebSocket transport: a call is created over REST; its URL carries bare audio and bare JSON objects. */
import { randomUUID } from 'node:crypto';
import { decodeAudio, encodeAudio, type WireEncoding } from './codec.js';
import { jsonOf, type ProviderProtocol, within } from './provider-protocol.js';

export const vapi: ProviderProtocol = {
  provider: 'vapi',
  path: '/',
  late: false,
  refuse: ({ url }) => (url.pathname.endsWith('/transport') ? null : 404),
  rest({ method, url, headers, body, socketBase }) {
    if (method !== 'POST' || url.pathname !== '/call') return null;
    if (!/^Bearer .+/.test(headers.authorization ?? '')) return { status: 401, body: { message: 'Invalid key' } };
    if (body.assistantId === undefined && body.assistant === undefined)
      return { status: 400, body: { message: ['assistant or assistantId is required'] } };
    const { format, sampleRate } = within(within(body, 'transport'), 'audioFormat');
    const id = randomUUID();
    const audio = `format=${format ?? 'pcm_s16le'}&rate=${sampleRate ?? 16000}`;
    const transport = { provider: 'vapi.websocket', websocketCallUrl: `${socketBase}/${id}/transport?${audio}` };
    return { status: 201, body: { id, type: 'vapi.websocketCall', status: 'queued', transport } };
  },
  open(wire, agentInput, url) {
    const encoding: WireEncoding = url.searchParams.get('format') === 'mulaw' ? 'ulaw' : 'l16';
    const rate = Number(url.searchParams.get('rate'));
    let began = false;
    const transcript = (role: string, text: string) =>
      wire.send({ type: 'transcript', role, transcriptType: 'final', transcript: text });
    const speech = (role: string, status: string, turn: number) =>
      wire.send({ type: 'speech-update', role, status, turn });
    return {
      message(data) {
        if (typeof data !== 'string') {
          if (!began) {
            began = true;
            agentInput.begin({ listensHz: rate, speaksHz: rate });
            agentInput.greet();
          }
          return agentInput.hear(decodeAudio(data, encoding));
        }
        const message = jsonOf(data);
        if (message?.type === 'end-call') return wire.close(1000);
        const { role, content } = within(message, 'message');
        if (message?.type === 'add-message' && role === 'user') agentInput.read(String(content));
      },
      interrupted: (turn) => {
        if (turn !== null) wire.send({ type: 'user-interrupted', turnId: String(turn) });
        speech('user', 'started', turn ?? 0);
      },
      heard(text) {
        speech('user', 'stopped', 0);
        transcript('user', text);
      },
      said(text, turn) {
        speech('assistant', 'started', turn);
        transcript('assistant', text);
      },
      audio: (samples) => wire.sendBinary(encodeAudio(samples, encoding)),
      finished: (turn) => speech('assistant', 'stopped', turn),
      hangUp: () => wire.send({ type: 'hang' }),
      transfer: (number) => wire.send({ type: 'transfer-update', destination: { type: 'number', number } }),
      expire: () => wire.close(1000),
    };
  },
};
