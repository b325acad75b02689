/** Plivo audio streaming, bidirectional. The agent uses checkpoints instead of marks, and may send DTMF to the caller. */
import { createHmac, randomUUID } from 'node:crypto';
import type { AgentMessage, AgentProtocol, AgentTarget, AudioFormat, AudioTrack, Sink } from '../../agent.js';
import { audioFormat, configObject, optionalText, upgradeHeaders } from '../../config-fields.js';
import { textField } from '../../config-schema.js';
import { asObject, asText, base64Bytes, type JsonObject } from '../../json.js';
import { base64, readJson } from '../../provider.js';
import { markFromBot, providerTrack, providerTracks, StreamConversation } from '../../stream-conversation.js';

interface PlivoConfig {
  /** Signs the upgrade request; without it there is no signature. */
  authToken?: string;
  headers: Record<string, string>;
  format: AudioFormat;
}

const WIRE = { ulaw: 'audio/x-mulaw', alaw: 'audio/x-alaw', l16: 'audio/x-l16' };
const DIGITS = /^[0-9A-Dw*#]{1,64}$/;

export const plivo: AgentProtocol<PlivoConfig> = {
  provider: 'plivo',
  title: 'Plivo audio streaming',
  page: 'streams.md',
  selectedBy: 'protocol',
  config: { auth_token: textField(4096) },
  example: {},
  capabilities: {
    audio: 'G.711 μ-law',
    flush: ['clearAudio'],
    heard: 'playedStream',
    afterFlush: 'played',
    keys: { as: 'key', message: 'dtmf' },
    hangUp: { by: 'close', words: 'close 1000' },
    variables: '`extra_headers`',
    longestSession: 'no limit',
  },
  readyOn: 'connect',
  separateTracks: true,
  parseConfig(raw) {
    const config = configObject(raw);
    const authToken = optionalText(config, 'auth_token');
    return { authToken, headers: upgradeHeaders(config), format: audioFormat(config, ['ulaw', 'l16'], [8000, 16000]) };
  },
  converse: (config, target) => new PlivoConversation(config, target),
};

class PlivoConversation extends StreamConversation {
  readonly #streamId = randomUUID();
  /** Custom parameters, sent with each message as text. */
  readonly #extraHeaders: string;
  /** The constant end of a media message. */
  readonly #mediaTail: string;
  #sequence = 0;
  /** Time of the newest caller audio, on the stream's clock. */
  #atMs = 0;
  /** Counted per track. */
  readonly #chunks = { caller: 0, agent: 0 };

  constructor(
    private readonly config: PlivoConfig,
    private readonly target: AgentTarget,
  ) {
    super(config.format);
    this.#extraHeaders = JSON.stringify(target.call.custom);
    this.#mediaTail = `"},"extra_headers":${JSON.stringify(this.#extraHeaders)}}`;
  }

  upgrade() {
    const { url } = this.target;
    const { authToken, headers } = this.config;
    return { url, headers: authToken === undefined ? headers : { ...headers, ...signUpgrade(authToken, url) } };
  }

  start(): AgentMessage[] {
    const { callId, organizationId } = this.target.call;
    const { encoding, sampleRateHz } = this.format;
    const start = {
      callId,
      streamId: this.#streamId,
      accountId: organizationId,
      tracks: providerTracks(this.target.tracks),
      mediaFormat: { encoding: WIRE[encoding], sampleRate: sampleRateHz },
    };
    return [this.#numbered('start', { start, extra_headers: this.#extraHeaders })];
  }

  audio(bytes: Uint8Array, atMs: number, track: AudioTrack = 'caller'): AgentMessage {
    this.#sequence += 1;
    this.#chunks[track] += 1;
    const timestamp = Math.max(0, Math.round(atMs));
    this.#atMs = timestamp;
    return `{"event":"media","sequenceNumber":${this.#sequence},"streamId":"${this.#streamId}","media":{"track":"${providerTrack[track]}","timestamp":"${timestamp}","chunk":${this.#chunks[track]},"payload":"${base64(bytes)}${this.#mediaTail}`;
  }

  receive(message: string | Uint8Array, sink: Sink): void {
    const fields = readJson(message, sink);
    if (fields === null) return;
    switch (fields.event) {
      case 'playAudio':
        this.#play(asObject(fields.media), sink);
        return;
      case 'checkpoint':
        markFromBot(fields.name, sink, 'bad_field');
        return;
      case 'clearAudio':
        sink.clear();
        sink.send(this.#numbered('clearedAudio', { streamId: this.#streamId }));
        return;
      case 'sendDTMF': {
        const digits = asText(asObject(fields.dtmf)?.digits ?? fields.dtmf, 64);
        if (digits === null || !DIGITS.test(digits))
          sink.garbage('bad_field', 'The agent sent sendDTMF without valid digits.');
        else sink.event({ type: 'dtmf', digits });
        return;
      }
      default:
        sink.garbage(
          'unknown_event',
          'The agent sent an event other than playAudio, checkpoint, clearAudio and sendDTMF.',
        );
    }
  }

  /** Only played checkpoints are reported, not cleared ones. */
  mark(name: string, cleared: boolean): AgentMessage[] {
    return cleared ? [] : [this.#numbered('playedStream', { streamId: this.#streamId, name })];
  }

  dtmf(digit: string): AgentMessage[] {
    const dtmf = { track: 'inbound', digit, timestamp: String(this.#atMs) };
    return [this.#numbered('dtmf', { streamId: this.#streamId, dtmf, extra_headers: this.#extraHeaders })];
  }

  /** Each message names its audio format; without one it is the stream's. */
  #play(media: JsonObject | null, sink: Sink): void {
    const bytes = typeof media?.payload === 'string' ? base64Bytes(media.payload) : null;
    const format = media === null ? null : formatOf(media, this.replyFormat);
    if (bytes === null) sink.garbage('bad_audio', 'The agent sent media without a base64 payload.');
    else if (format === null)
      sink.garbage(
        'bad_audio',
        'The agent sent playAudio in another audio than audio/x-mulaw at 8000 Hz or audio/x-l16 at 8000, 16000 or 24000 Hz.',
      );
    else if (bytes.length > 0) {
      const { encoding, sampleRateHz } = this.replyFormat;
      if (format.encoding === encoding && format.sampleRateHz === sampleRateHz) sink.audio(bytes);
      else sink.audioOf(format, bytes);
    }
  }

  #numbered(event: string, body: Record<string, unknown>): string {
    this.#sequence += 1;
    return JSON.stringify({ event, sequenceNumber: this.#sequence, ...body });
  }
}

const CONTENT_TYPE = /^audio\/x-(l16|mulaw)(?:;\s*rate=(\d+))?$/i;

/** Format of `playAudio`; null when it is not supported. */
function formatOf({ contentType, sampleRate }: JsonObject, stream: AudioFormat): AudioFormat | null {
  const [, name, rateInType] = CONTENT_TYPE.exec(String(contentType)) ?? [];
  if (contentType !== undefined && name === undefined) return null;
  const encoding = name === undefined ? stream.encoding : name.toLowerCase() === 'l16' ? 'l16' : 'ulaw';
  const rate = Number(sampleRate ?? rateInType ?? (encoding === stream.encoding ? stream.sampleRateHz : 8000));
  if (rate !== 8000 && (encoding !== 'l16' || (rate !== 16000 && rate !== 24000))) return null;
  return { encoding, sampleRateHz: rate };
}

/** Plivo signs the URL with an http scheme, its parameters in order, then a nonce. */
export function signUpgrade(authToken: string, target: string, nonce: string = randomUUID()): Record<string, string> {
  const url = new URL(target.replace(/^ws/i, 'http'));
  const parameters = [...url.searchParams].map(([name, value]) => `${name}=${value}`).sort();
  const query = parameters.length > 0 ? `?${parameters.join('&')}` : '';
  const signature = createHmac('sha256', authToken)
    .update(`${url.origin}${url.pathname}${query}.${nonce}`)
    .digest('base64');
  return { 'X-Plivo-Signature-V3': signature, 'X-Plivo-Signature-V3-Nonce': nonce };
}
