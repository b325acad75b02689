/** Hume EVI: session settings, PCM in base64, and a WAV file at 48 kHz per piece of speech. */
import { randomUUID } from 'node:crypto';
import { writeWav } from '../../../media/audio/wav.js';
import { decodeAudio } from './codec.js';
import { jsonOf, type ProviderProtocol, within } from './provider-protocol.js';

const speaksHz = 48000;

export const hume: ProviderProtocol = {
  provider: 'hume',
  path: '/v0/evi/chat',
  late: true,
  refuse: ({ url }) => (url.searchParams.has('api_key') || url.searchParams.has('access_token') ? null : 401),
  open(wire, agentInput, url) {
    const given = url.searchParams;
    // The URL may carry session settings.
    let listensHz: number | null =
      given.get('session_settings[audio][encoding]') === 'linear16'
        ? Number(given.get('session_settings[audio][sample_rate]'))
        : null;
    let heardMs = 0;
    let beganMs = 0;
    let began = false;
    let calls = 0;
    let pieces = 0;
    const resumed = url.searchParams.get('resumed_chat_group_id');
    wire.send({
      type: 'chat_metadata',
      chat_id: randomUUID(),
      chat_group_id: resumed ?? randomUUID(),
      request_id: randomUUID(),
    });
    const error = (code: string, slug: string) => wire.send({ type: 'error', code, slug, message: slug });
    const callTool = (name: string, parameters: string) => {
      calls += 1;
      const call = { name, parameters, tool_call_id: `call_${calls}`, tool_type: 'function' };
      wire.send({ type: 'tool_call', ...call, response_required: true });
    };
    return {
      message(data) {
        const message = typeof data === 'string' ? jsonOf(data) : null;
        switch (message?.type) {
          case 'session_settings': {
            const { encoding, sample_rate } = within(message, 'audio');
            if (encoding !== 'linear16') return error('E0200', 'unsupported_encoding');
            listensHz = Number(sample_rate);
            return;
          }
          case 'audio_input': {
            if (listensHz === null) return error('E0201', 'unknown_audio_format');
            if (!began) {
              began = true;
              agentInput.begin({ listensHz, speaksHz });
              if (resumed === null) agentInput.greet();
            }
            const samples = decodeAudio(Buffer.from(String(message.data), 'base64'), 'l16');
            heardMs += (samples.length * 1000) / listensHz;
            return agentInput.hear(samples);
          }
          case 'user_input':
            return agentInput.read(String(message.text));
          case undefined:
            return error('E0100', 'invalid_message');
        }
      },
      interrupted: (turn) => {
        beganMs = Math.round(heardMs);
        if (turn !== null) wire.send({ type: 'user_interruption', time: Date.now() });
      },
      heard: (content) =>
        wire.send({
          type: 'user_message',
          message: { role: 'user', content },
          from_text: false,
          interim: false,
          models: {},
          time: { begin: beganMs, end: Math.round(heardMs) },
        }),
      said: (content, turn) =>
        wire.send({
          type: 'assistant_message',
          id: `message_${turn}`,
          message: { role: 'assistant', content },
          from_text: false,
          is_quick_response: false,
          models: {},
        }),
      audio(samples, turn) {
        const wav = Buffer.from(writeWav({ sampleRateHz: speaksHz, channels: [samples] }));
        pieces += 1;
        wire.send({ type: 'audio_output', id: `message_${turn}`, index: pieces, data: wav.toString('base64') });
      },
      finished: () => wire.send({ type: 'assistant_end' }),
      hangUp: () => callTool('hang_up', '{}'),
      transfer: (to) => callTool('transfer_call', JSON.stringify({ to })),
      expire() {
        error('E0715', 'max_duration_timeout');
        wire.close(1000);
      },
    };
  },
};
