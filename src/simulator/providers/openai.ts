/** OpenAI Realtime (GA) over WebSocket: the server configures, detects turns and answers. */
import { decodeAudio, encodeAudio, type WireEncoding } from './codec.js';
import { type Dialect, jsonOf, within } from './dialect.js';

const encodings: Record<string, WireEncoding> = { 'audio/pcmu': 'ulaw', 'audio/pcma': 'alaw', 'audio/pcm': 'l16' };

export const openai: Dialect = {
  provider: 'openai',
  path: '/v1/realtime',
  late: true,
  refuse: ({ url, headers }) => {
    if (!/^Bearer .+/.test(headers.authorization ?? '')) return 401;
    return url.searchParams.has('model') ? null : 400;
  },
  open(wire, ears, url) {
    let encoding: WireEncoding = 'l16';
    let session: Record<string, unknown> = { type: 'realtime', model: url.searchParams.get('model') };
    let began = false;
    let events = 0;
    let calls = 0;
    const send = (type: string, fields: Record<string, unknown> = {}) => {
      events += 1;
      wire.send({ type, event_id: `event_${events}`, ...fields });
    };
    const error = (code: string, message: string) =>
      send('error', { error: { type: 'invalid_request_error', code, message, param: null, event_id: null } });
    const part = (turn: number) => ({
      response_id: `resp_${turn}`,
      item_id: `item_${turn}`,
      output_index: 0,
      content_index: 0,
    });
    send('session.created', { session });
    return {
      message(data) {
        const message = typeof data === 'string' ? jsonOf(data) : null;
        if (message === null) return error('invalid_json', 'Expected a JSON object in a text message.');
        switch (message.type) {
          case 'session.update': {
            session = { ...session, ...within(message, 'session') };
            if (session.type !== 'realtime') return error('missing_required_parameter', 'session.type is required.');
            const format = within(within(within(session, 'audio') as never, 'input'), 'format');
            encoding = encodings[String(format.type ?? 'audio/pcm')] ?? 'l16';
            return send('session.updated', { session });
          }
          case 'input_audio_buffer.append': {
            if (typeof message.audio !== 'string') return error('missing_required_parameter', 'audio is required.');
            if (!began) {
              began = true;
              ears.begin({ listensHz: encoding === 'l16' ? 24000 : 8000, speaksHz: encoding === 'l16' ? 24000 : 8000 });
            }
            return ears.hear(decodeAudio(Buffer.from(message.audio, 'base64'), encoding));
          }
          case 'conversation.item.create': {
            const item = within(message, 'item');
            send('conversation.item.added', { item, previous_item_id: null });
            const content = (Array.isArray(item.content) ? item.content : []) as { text?: string }[];
            if (item.role === 'user') for (const { text } of content) ears.read(text ?? '');
            return;
          }
          case 'conversation.item.truncate':
            return send('conversation.item.truncated', {
              item_id: message.item_id,
              content_index: message.content_index,
              audio_end_ms: message.audio_end_ms,
            });
          case 'response.create':
          case 'response.cancel':
          case 'input_audio_buffer.clear':
          case 'input_audio_buffer.commit':
            return;
          default:
            return error('invalid_value', 'Unknown event type.');
        }
      },
      interrupted: () => send('input_audio_buffer.speech_started', { audio_start_ms: 0, item_id: `user_${events}` }),
      heard(transcript) {
        const item_id = `user_${events}`;
        send('input_audio_buffer.speech_stopped', { audio_end_ms: 0, item_id });
        send('input_audio_buffer.committed', { item_id, previous_item_id: null });
        send('conversation.item.input_audio_transcription.completed', { item_id, content_index: 0, transcript });
      },
      said(text, turn) {
        send('response.created', {
          response: { id: `resp_${turn}`, object: 'realtime.response', status: 'in_progress' },
        });
        send('response.output_audio_transcript.delta', { ...part(turn), delta: text });
        send('response.output_audio_transcript.done', { ...part(turn), transcript: text });
      },
      audio: (samples, turn) =>
        send('response.output_audio.delta', {
          ...part(turn),
          delta: encodeAudio(samples, encoding).toString('base64'),
        }),
      finished(turn) {
        send('response.output_audio.done', part(turn));
        send('response.done', { response: { id: `resp_${turn}`, object: 'realtime.response', status: 'completed' } });
      },
      hangUp() {
        calls += 1;
        const call = { response_id: `resp_call_${calls}`, item_id: `fc_${calls}`, output_index: 0 };
        send('response.function_call_arguments.done', {
          ...call,
          call_id: `call_${calls}`,
          name: 'hang_up',
          arguments: '{}',
        });
        send('response.done', { response: { id: call.response_id, object: 'realtime.response', status: 'completed' } });
      },
    };
  },
};
