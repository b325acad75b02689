/**
 * AudioCodes Bot API in streaming mode: the session is accepted with a media format, the caller's audio is a stream of chunks, each utterance
 * of the bot a stream of its own. Keys, hang-up and transfer are activities.
 */
import {
  AgentFailure,
  type AgentMessage,
  type AgentProtocol,
  type AgentTarget,
  type AudioFormat,
  type Sink,
} from '../../agent.js';
import { configObject, optionalText, upgradeHeaders } from '../../config-fields.js';
import { textField } from '../../config-schema.js';
import { asObject, asText, base64Bytes, type JsonObject } from '../../json.js';
import { base64, readJson } from '../../provider.js';
import { AcceptedStream } from '../../stream-conversation.js';

interface AudiocodesConfig {
  authToken?: string;
  headers: Record<string, string>;
}

const FORMATS: Readonly<Record<string, AudioFormat>> = {
  'raw/lpcm16': { encoding: 'l16', sampleRateHz: 16000 },
  'raw/lpcm16_24': { encoding: 'l16', sampleRateHz: 24000 },
};
const DEFAULT: AudioFormat = { encoding: 'l16', sampleRateHz: 16000 };
const DIGITS = /^[0-9A-Dw*#]{1,64}$/;
const TARGET = /^(?:tel:|sips?:)?[\x21-\x7e]{1,512}$/i;

export const audiocodes: AgentProtocol<AudiocodesConfig> = {
  provider: 'audiocodes',
  title: 'AudioCodes Bot API',
  page: 'streams.md',
  selectedBy: 'protocol',
  config: { auth_token: textField(4096) },
  example: {},
  capabilities: {
    audio: 'PCM 16 kHz',
    flush: ['abortPrompts'],
    afterFlush: 'played',
    keys: { as: 'key', message: 'DTMF' },
    hangUp: { by: 'signal', words: '`hangup`, close 1000' },
    transfer: 'signal',
    variables: 'parameters of the `start` activity',
    longestSession: 'no limit',
  },
  readyOn: 'connect',
  parseConfig(raw) {
    const config = configObject(raw);
    return { authToken: optionalText(config, 'auth_token'), headers: upgradeHeaders(config) };
  },
  converse: (config, target) => new AudiocodesConversation(config, target),
};

class AudiocodesConversation extends AcceptedStream {
  #isAccepted = false;
  /** Format of the bot's newest stream. */
  #playFormat = DEFAULT;

  constructor(
    private readonly config: AudiocodesConfig,
    private readonly target: AgentTarget,
  ) {
    super(DEFAULT);
  }

  upgrade() {
    const { authToken, headers } = this.config;
    const token: Record<string, string> = authToken === undefined ? {} : { Authorization: `Bearer ${authToken}` };
    return { url: this.target.url, headers: { ...token, ...headers } };
  }

  start(): AgentMessage[] {
    const { from } = this.target.call;
    const formats = { supportedMediaFormats: Object.keys(FORMATS) };
    return [this.#message('session.initiate', { expectAudioMessages: true, caller: from, ...formats })];
  }

  /** Audio of another rate than was agreed is converted by `receive`. */
  override readMedia(message: Uint8Array): Uint8Array | null {
    return this.#playsAsAgreed ? super.readMedia(message) : null;
  }

  protected frame(bytes: Uint8Array): AgentMessage {
    return `{"type":"userStream.chunk","conversationId":"${this.target.call.callId}","audioChunk":"${base64(bytes)}"}`;
  }

  receive(message: string | Uint8Array, sink: Sink): void {
    const fields = readJson(message, sink);
    if (fields === null) return;
    switch (fields.type) {
      case 'session.accepted':
        this.#sessionAccepted(fields.mediaFormat, sink);
        return;
      case 'session.error':
        sink.fail(new AgentFailure('refused', 'The agent refused the session.', true));
        return;
      case 'userStream.started':
        this.accept(sink);
        return;
      case 'playStream.start':
        this.#playFormat = FORMATS[String(fields.mediaFormat)] ?? this.replyFormat;
        return;
      case 'playStream.chunk':
        this.#play(message, fields.audioChunk, sink);
        return;
      case 'activities':
        if (Array.isArray(fields.activities))
          for (const each of fields.activities) this.#activity(asObject(each), sink);
        else sink.garbage('bad_field', 'The agent sent activities that are not a list.');
        return;
      default:
        if (!READ_OVER.test(String(fields.type)))
          sink.garbage('unknown_event', 'The agent sent a message that the Bot API does not have.');
    }
  }

  mark(): AgentMessage[] {
    return [];
  }

  dtmf(digit: string): AgentMessage[] {
    return this.#isAccepted ? [this.#message('activities', { activities: [event('DTMF', { value: digit })] })] : [];
  }

  override closing(reason: string): AgentMessage[] {
    return [this.#message('session.end', { reasonCode: 'client-disconnected', reason })];
  }

  #sessionAccepted(mediaFormat: unknown, sink: Sink): void {
    if (this.#isAccepted) return;
    if (mediaFormat !== undefined && mediaFormat !== 'raw/lpcm16') {
      const message = 'The agent accepted the session with a media format other than raw/lpcm16.';
      sink.fail(new AgentFailure('protocol', message, false));
      return;
    }
    this.#isAccepted = true;
    const { from, to, custom } = this.target.call;
    const start = event('start', { parameters: { ...custom, caller: from, callee: to } });
    sink.send(this.#message('activities', { activities: [start] }));
    sink.send(this.#message('userStream.start', {}));
  }

  get #playsAsAgreed(): boolean {
    return this.#playFormat.sampleRateHz === this.replyFormat.sampleRateHz;
  }

  #play(message: string | Uint8Array, chunk: unknown, sink: Sink): void {
    if (this.#playsAsAgreed) {
      this.mediaFromBot(message, chunk, sink, 'bad_audio');
      return;
    }
    const bytes = typeof chunk === 'string' ? base64Bytes(chunk) : null;
    if (bytes === null) sink.garbage('bad_audio', 'The agent sent a playStream.chunk without base64 audio.');
    else if (bytes.length > 1) sink.audioOf(this.#playFormat, bytes.subarray(0, bytes.length & ~1));
  }

  #activity(activity: JsonObject | null, sink: Sink): void {
    switch (activity?.name) {
      case 'abortPrompts':
        sink.clear();
        return;
      case 'hangup':
        sink.hangUp();
        return;
      case 'transfer': {
        const to = asText(asObject(activity.activityParams)?.transferTarget, 512);
        if (to === null || !TARGET.test(to))
          sink.garbage('bad_field', 'The agent sent a transfer without a valid transferTarget.');
        else sink.event({ type: 'transfer', to: to.replace(/^tel:/i, '') });
        return;
      }
      case 'sendDtmf': {
        const digits = asText(activity.value, 64);
        if (digits === null || !DIGITS.test(digits))
          sink.garbage('bad_field', 'The agent sent sendDtmf without valid digits.');
        else sink.event({ type: 'dtmf', digits });
        return;
      }
      default:
        sink.warn('unsupported_activity', 'The agent sent an activity that is not carried out here.');
    }
  }

  #message(type: string, fields: Record<string, unknown>): string {
    return JSON.stringify({ type, conversationId: this.target.call.callId, ...fields });
  }
}

/** Reports of the bot's own recognition, and the ends of streams. */
const READ_OVER = /^(userStream\.(stopped|speech\.\w+)|playStream\.stop)$/;

function event(name: string, fields: Record<string, unknown>) {
  return { type: 'event', name, ...fields };
}
