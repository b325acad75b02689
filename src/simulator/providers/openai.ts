/** OpenAI Realtime (GA) over WebSocket, and services with the same protocol: the server configures, detects turns and answers. */
import type { IncomingHttpHeaders } from 'node:http';
import { decodeAudio, encodeAudio, type WireEncoding } from './codec.js';
import { jsonOf, type ProviderProtocol, within } from './provider-protocol.js';

const encodings: Record<string, WireEncoding> = {
  'audio/pcmu': 'ulaw',
  'audio/pcma': 'alaw',
  'audio/pcm': 'l16',
  g711_ulaw: 'ulaw',
  g711_alaw: 'alaw',
  pcm16: 'l16',
};

interface Item extends Record<string, unknown> {
  id: string;
}

/** What differs between the services with this protocol. */
interface RealtimeService {
  provider: string;
  path: string;
  isAuthorized(headers: IncomingHttpHeaders): boolean;
  /** The parameters that its address must have. */
  needs?: readonly string[];
  /** Voice Live: the events and the session of the protocol's first version. */
  isFirstVersion?: boolean;
  /** Does not know `conversation.item.truncate`. */
  cannotTruncate?: boolean;
  /** Grok voice: no `type` in the session, no truncation, no instructions of a response, texts spoken word for word. */
  isGrok?: boolean;
}

const hasBearer = (headers: IncomingHttpHeaders) => /^Bearer .+/.test(headers.authorization ?? '');

/** Of each response, whatever is said. */
const usage = {
  ...{ total_tokens: 250, input_tokens: 200, output_tokens: 50 },
  input_token_details: { text_tokens: 120, audio_tokens: 80, cached_tokens: 64 },
  output_token_details: { text_tokens: 10, audio_tokens: 40 },
};

export const openai = realtime({ provider: 'openai', path: '/v1/realtime', isAuthorized: hasBearer });
export const azureOpenai = realtime({
  provider: 'azure_openai',
  path: '/openai/v1/realtime',
  isAuthorized: (headers) => typeof headers['api-key'] === 'string' || hasBearer(headers),
});
export const azureVoiceLive = realtime({
  provider: 'azure_voice_live',
  path: '/voice-live/realtime',
  isAuthorized: (headers) => typeof headers['api-key'] === 'string' || hasBearer(headers),
  needs: ['api-version', 'model'],
  isFirstVersion: true,
});
export const inworld = realtime({
  provider: 'inworld',
  path: '/api/v1/realtime/session',
  isAuthorized: (headers) => /^(Basic|Bearer) .+/.test(headers.authorization ?? ''),
  needs: ['key', 'protocol'],
  cannotTruncate: true,
});
export const xai = realtime({ provider: 'xai', path: '/v1/realtime', isAuthorized: hasBearer, isGrok: true });

function realtime(service: RealtimeService): ProviderProtocol {
  const { provider, path, isAuthorized, needs = ['model'], isFirstVersion = false, isGrok = false } = service;
  const { cannotTruncate = isGrok } = service;
  const output = isFirstVersion ? 'response.audio' : 'response.output_audio';
  return {
    provider,
    path,
    late: true,
    refuse: ({ url, headers }) => {
      if (!isAuthorized(headers)) return 401;
      return needs.every((name) => url.searchParams.has(name)) ? null : 400;
    },
    open(wire, agentInput, url) {
      let encoding: WireEncoding = 'l16';
      let session: Record<string, unknown> = { type: 'realtime', model: url.searchParams.get('model') };
      let began = false;
      let events = 0;
      let calls = 0;
      let utterances = 0;
      let heardSamples = 0;
      const items = new Map<string, Item>();
      let lastItem: string | null = null;
      const texts = new Map<number, string>();
      const heardMs = () => Math.round((heardSamples * 1000) / (encoding === 'l16' ? 24000 : 8000));
      const send = (type: string, fields: Record<string, unknown> = {}) => {
        events += 1;
        wire.send({ type, event_id: `event_${events}`, ...fields });
      };
      const error = (code: string, message: string) =>
        send('error', { error: { type: 'invalid_request_error', code, message, param: null, event_id: null } });
      const begin = () => {
        if (began) return;
        began = true;
        const rateHz = encoding === 'l16' ? 24000 : 8000;
        agentInput.begin({ listensHz: rateHz, speaksHz: rateHz });
      };
      /** A conversation item of the agent; its text exists before its audio. */
      const item = (turn: number, status: string, transcript: string | null): Item => ({
        id: `item_${turn}`,
        object: 'realtime.item',
        type: 'message',
        status,
        role: 'assistant',
        content: transcript === null ? [] : [{ type: 'output_audio', transcript }],
      });
      const part = (turn: number) => ({
        response_id: `resp_${turn}`,
        item_id: `item_${turn}`,
        output_index: 0,
        content_index: 0,
      });
      const enter = (fields: Item) => {
        const previous_item_id = lastItem;
        items.set(fields.id, fields);
        lastItem = fields.id;
        send(isFirstVersion ? 'conversation.item.created' : 'conversation.item.added', {
          item: fields,
          previous_item_id,
        });
        return previous_item_id;
      };
      const added = (fields: Item) => {
        const previous_item_id = enter(fields);
        if (!isFirstVersion) send('conversation.item.done', { item: fields, previous_item_id });
      };
      const callFunction = (name: string, args: string) => {
        calls += 1;
        const id = `fc_${calls}`;
        const call_id = `call_${calls}`;
        const call = { id, object: 'realtime.item', type: 'function_call', status: 'completed', name, call_id };
        const response = { id: `resp_call_${calls}`, object: 'realtime.response', status: 'completed' };
        send('response.created', { response: { ...response, status: 'in_progress' } });
        const place = { response_id: response.id, item_id: id, output_index: 0, call_id };
        send('response.function_call_arguments.delta', { ...place, delta: args });
        send('response.function_call_arguments.done', { ...place, name, arguments: args });
        added({ ...call, arguments: args });
        send('response.done', { response: { ...response, output: [{ ...call, arguments: args }] } });
      };
      if (isGrok) send('conversation.created', { conversation: { id: 'conv_1', object: 'realtime.conversation' } });
      else send('session.created', { session });
      return {
        message(data) {
          const message = typeof data === 'string' ? jsonOf(data) : null;
          if (message === null) return error('invalid_json', 'Expected a JSON object in a text message.');
          switch (message.type) {
            case 'session.update': {
              session = { ...session, ...within(message, 'session') };
              if (!isGrok && !isFirstVersion && session.type !== 'realtime')
                return error('missing_required_parameter', 'session.type is required.');
              const format = within(within(within(session, 'audio') as never, 'input'), 'format');
              encoding = encodings[String(session.input_audio_format ?? format.type ?? 'audio/pcm')] ?? 'l16';
              return send('session.updated', { session });
            }
            case 'input_audio_buffer.append': {
              if (typeof message.audio !== 'string') return error('missing_required_parameter', 'audio is required.');
              begin();
              const samples = decodeAudio(Buffer.from(message.audio, 'base64'), encoding);
              heardSamples += samples.length;
              return agentInput.hear(samples);
            }
            case 'conversation.item.create': {
              const given = within(message, 'item');
              if (isGrok && given.type === 'force_message') {
                begin();
                return agentInput.greet(textOf(given));
              }
              added({ id: `given_${events}`, object: 'realtime.item', status: 'completed', ...given });
              const content = (Array.isArray(given.content) ? given.content : []) as { text?: string }[];
              if (given.role === 'user') for (const { text } of content) agentInput.read(text ?? '');
              return;
            }
            case 'conversation.item.retrieve': {
              const found = items.get(String(message.item_id));
              if (found === undefined) return error('item_not_found', 'There is no such item in the conversation.');
              return send('conversation.item.retrieved', { item: found });
            }
            case 'conversation.item.delete':
              if (!items.delete(String(message.item_id)))
                return error('item_not_found', 'There is no such item in the conversation.');
              return send('conversation.item.deleted', { item_id: message.item_id });
            case 'conversation.item.truncate':
              if (cannotTruncate) return error('invalid_event', 'Unknown event type.');
              return send('conversation.item.truncated', {
                item_id: message.item_id,
                content_index: message.content_index,
                audio_end_ms: message.audio_end_ms,
              });
            case 'response.create':
              if (isGrok && within(message, 'response').instructions !== undefined)
                return error('invalid_event', 'response.instructions is unknown.');
              begin();
              return agentInput.greet(textOf(within(message, 'response').pre_generated_assistant_message));
            case 'response.cancel':
              return;
            case 'input_audio_buffer.clear':
              return send('input_audio_buffer.cleared');
            case 'input_audio_buffer.commit':
              utterances += 1;
              return send('input_audio_buffer.committed', {
                item_id: `user_${utterances}`,
                previous_item_id: lastItem,
              });
            case 'output_audio_buffer.clear':
              return error('invalid_value', 'Only WebRTC and SIP connections have an output audio buffer.');
            default:
              return error('invalid_value', 'Unknown event type.');
          }
        },
        interrupted() {
          utterances += 1;
          send('input_audio_buffer.speech_started', { audio_start_ms: heardMs(), item_id: `user_${utterances}` });
        },
        utterance() {
          const item_id = `user_${utterances}`;
          send('input_audio_buffer.speech_stopped', { audio_end_ms: heardMs(), item_id });
          send('input_audio_buffer.committed', { item_id, previous_item_id: lastItem });
          added({
            id: item_id,
            object: 'realtime.item',
            type: 'message',
            status: 'completed',
            role: 'user',
            content: [{ type: 'input_audio' }],
          });
        },
        heard(transcript) {
          const item_id = `user_${utterances}`;
          const given = items.get(item_id);
          if (given !== undefined) given.content = [{ type: 'input_audio', transcript }];
          const usage = { type: 'duration', seconds: 1 };
          send('conversation.item.input_audio_transcription.delta', { item_id, content_index: 0, delta: transcript });
          send('conversation.item.input_audio_transcription.completed', {
            item_id,
            content_index: 0,
            transcript,
            usage,
          });
        },
        said(text, turn) {
          const response_id = `resp_${turn}`;
          send('response.created', {
            response: { id: response_id, object: 'realtime.response', status: 'in_progress' },
          });
          const begun = item(turn, 'in_progress', null);
          send('response.output_item.added', { response_id, output_index: 0, item: begun });
          enter(begun);
          texts.set(turn, text);
          send('response.content_part.added', { ...part(turn), part: { type: 'audio', transcript: '' } });
          send(`${output}_transcript.delta`, { ...part(turn), delta: text });
          send(`${output}_transcript.done`, { ...part(turn), transcript: text });
        },
        audio: (samples, turn) =>
          send(`${output}.delta`, {
            ...part(turn),
            delta: encodeAudio(samples, encoding).toString('base64'),
          }),
        finished(turn) {
          const response_id = `resp_${turn}`;
          send(`${output}.done`, part(turn));
          const transcript = texts.get(turn) ?? '';
          texts.delete(turn);
          const done = item(turn, 'completed', transcript);
          items.set(done.id, done);
          send('response.content_part.done', { ...part(turn), part: { type: 'audio', transcript } });
          send('response.output_item.done', { response_id, output_index: 0, item: done });
          if (!isFirstVersion) send('conversation.item.done', { item: done, previous_item_id: null });
          send('response.done', {
            response: { id: response_id, object: 'realtime.response', status: 'completed', output: [done], usage },
          });
          const limits = [{ name: 'requests', limit: 1000, remaining: 999, reset_seconds: 60 }];
          send('rate_limits.updated', { rate_limits: limits });
        },
        hangUp: () => callFunction('hang_up', '{}'),
        transfer: (to) => callFunction('transfer_call', JSON.stringify({ to })),
        expire() {
          error('session_expired', 'Your session hit the maximum duration of 60 minutes.');
          wire.close(1001, 'Your session hit the maximum duration of 60 minutes.');
        },
      };
    },
  };
}

/** The text of a message, if it has one. */
function textOf(message: unknown): string | undefined {
  const { content } = within({ message }, 'message');
  const [first] = (Array.isArray(content) ? content : []) as { text?: string }[];
  return first?.text;
}
