/**
 * Twilio Media Streams, bidirectional: we are the WebSocket client that a Twilio bot expects. `connected` and `start` are sent when the
 * caller answered, since bots greet on `start`. Bad input is ignored and counted under Twilio's own warning codes.
 */
import { createHmac, randomUUID } from 'node:crypto';
import type { AgentMessage, AgentProtocol, AgentTarget, AudioFormat, AudioTrack, Sink } from '../../agent.js';
import { choice, configObject, optionalText, upgradeHeaders } from '../../config-fields.js';
import { textField } from '../../config-schema.js';
import { asObject, parseObject } from '../../json.js';
import { markFromBot, providerTrack, providerTracks, StreamConversation } from '../../stream-conversation.js';

export interface TwilioConfig {
  /** Signs the upgrade request; without it there is no signature header. */
  authToken?: string;
  /** Id of the stream, when a TwiML script must know it too; generated when absent. */
  streamSid?: string;
  headers: Record<string, string>;
}

const FORMAT: AudioFormat = { encoding: 'ulaw', sampleRateHz: 8000 };
/** Twilio's warning for a binary frame. */
const NOT_TEXT = '31950';
/** Twilio's warning for bad JSON, an unknown event, a missing field or a foreign streamSid. */
const BAD_MESSAGE = '31951';

const EVENTS: ReadonlySet<unknown> = new Set(['media', 'mark', 'clear']);

export const twilio: AgentProtocol<TwilioConfig> = {
  provider: 'twilio',
  title: 'Twilio Media Streams',
  page: 'streams.md',
  selectedBy: 'protocol',
  config: { auth_token: textField(4096) },
  example: {},
  capabilities: {
    audio: 'G.711 μ-law',
    flush: ['clear'],
    heard: 'mark',
    afterFlush: 'played',
    keys: { as: 'key', message: 'dtmf' },
    hangUp: { by: 'close', words: 'close 1000' },
    variables: '`start.customParameters`',
    longestSession: 'no limit',
  },
  readyOn: 'connect',
  separateTracks: true,
  parseConfig(raw) {
    const config = configObject(raw);
    choice(config, 'encoding', ['ulaw']);
    choice(config, 'sample_rate', [8000]);
    const streamSid = optionalText(config, 'stream_sid');
    return { authToken: optionalText(config, 'auth_token'), streamSid, headers: upgradeHeaders(config) };
  },
  converse: (config, target) => new TwilioConversation(config, target),
};

class TwilioConversation extends StreamConversation {
  readonly #config: TwilioConfig;
  readonly #target: AgentTarget;
  readonly #streamSid: string;
  readonly #callSid: string;
  readonly #accountSid: string;
  /** The constant end of a media message, so that a frame is one concatenation. */
  readonly #mediaTail: string;
  #sequence = 0;
  /** Counted per track. */
  readonly #chunks = { caller: 0, agent: 0 };

  constructor(config: TwilioConfig, target: AgentTarget) {
    super(FORMAT);
    this.#config = config;
    this.#target = target;
    this.#streamSid = config.streamSid ?? `MZ${withoutDashes(randomUUID())}`;
    this.#callSid = `CA${withoutDashes(target.call.callId)}`;
    this.#accountSid = `AC${withoutDashes(target.call.organizationId)}`;
    this.#mediaTail = `"},"streamSid":"${this.#streamSid}"}`;
  }

  upgrade() {
    const { url } = this.#target;
    const { authToken } = this.#config;
    const headers = { ...this.#config.headers };
    if (authToken !== undefined) headers['X-Twilio-Signature'] = signUpgrade(authToken, url);
    return { url, headers };
  }

  start(): AgentMessage[] {
    const start = {
      accountSid: this.#accountSid,
      streamSid: this.#streamSid,
      callSid: this.#callSid,
      tracks: providerTracks(this.#target.tracks),
      mediaFormat: { encoding: 'audio/x-mulaw', sampleRate: 8000, channels: 1 },
      customParameters: this.#target.call.custom,
    };
    return [
      JSON.stringify({ event: 'connected', protocol: 'Call', version: '1.0.0' }),
      this.#numbered('start', { start }),
    ];
  }

  audio(bytes: Uint8Array, atMs: number, track: AudioTrack = 'caller'): AgentMessage {
    this.#sequence += 1;
    this.#chunks[track] += 1;
    const payload = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
    const timestamp = Math.max(0, Math.round(atMs));
    return `{"event":"media","sequenceNumber":"${this.#sequence}","media":{"track":"${providerTrack[track]}","chunk":"${this.#chunks[track]}","timestamp":"${timestamp}","payload":"${payload}${this.#mediaTail}`;
  }

  receive(message: string | Uint8Array, sink: Sink): void {
    if (typeof message !== 'string') {
      sink.garbage(NOT_TEXT, 'The agent sent a binary message; Media Streams are text.');
      return;
    }
    const fields = parseObject(message);
    if (fields === null) {
      sink.garbage(BAD_MESSAGE, 'The agent sent a message that is not a JSON object.');
      return;
    }
    if (fields.streamSid === undefined && EVENTS.has(fields.event)) {
      sink.warn(BAD_MESSAGE, 'The agent sent a message without a streamSid, which is ignored.');
      return;
    }
    if (fields.streamSid !== this.#streamSid) {
      sink.garbage(BAD_MESSAGE, 'The agent sent a message without the streamSid of this stream.');
      return;
    }
    switch (fields.event) {
      case 'media':
        this.mediaFromBot(message, asObject(fields.media)?.payload, sink, BAD_MESSAGE);
        return;
      case 'mark': {
        const name = asObject(fields.mark)?.name;
        if (name === undefined) sink.warn(BAD_MESSAGE, 'The agent sent a mark without a name, which is ignored.');
        else markFromBot(name, sink, BAD_MESSAGE);
        return;
      }
      case 'clear':
        sink.clear();
        return;
      default:
        sink.garbage(BAD_MESSAGE, 'The agent sent an event other than media, mark and clear.');
    }
  }

  /** Twilio sends the same message for a played and a cleared mark. */
  mark(name: string): AgentMessage[] {
    return [this.#numbered('mark', { mark: { name } })];
  }

  dtmf(digit: string): AgentMessage[] {
    return [this.#numbered('dtmf', { dtmf: { track: 'inbound_track', digit } })];
  }

  override closing(): AgentMessage[] {
    return [this.#numbered('stop', { stop: { accountSid: this.#accountSid, callSid: this.#callSid } })];
  }

  /** Sequence numbers are strings, counted over all messages from `start` on. */
  #numbered(event: string, body: Record<string, unknown>): string {
    this.#sequence += 1;
    return JSON.stringify({ event, sequenceNumber: String(this.#sequence), ...body, streamSid: this.#streamSid });
  }
}

/**
 * X-Twilio-Signature of an upgrade request: base64 of the HMAC-SHA1 of the configured URL. Validators rebuild the URL without the scheme's
 * default port, so an explicit port of 443 (or 80 for ws) is left out.
 */
export function signUpgrade(authToken: string, url: string): string {
  const signed = url.replace(/^(wss:\/\/[^/?#]*?):443(?=[/?#]|$)|^(ws:\/\/[^/?#]*?):80(?=[/?#]|$)/i, '$1$2');
  return createHmac('sha1', authToken).update(signed).digest('base64');
}

function withoutDashes(uuid: string): string {
  return uuid.replaceAll('-', '');
}
