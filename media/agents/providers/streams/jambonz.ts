/** The `listen` verb of jambonz, bidirectional: one text message describes the call, then PCM in binary messages both ways. */
import type { AgentMessage, AgentProtocol, AgentTarget, AudioFormat, Sink } from '../../agent.js';
import { audioFormat, configObject, optionalText, upgradeHeaders } from '../../config-fields.js';
import { textField } from '../../config-schema.js';
import { asObject, asText, base64Bytes, type JsonObject } from '../../json.js';
import { audioOrFields, markFromBot, StreamConversation } from '../../stream-conversation.js';

interface JambonzConfig {
  headers: Record<string, string>;
  format: AudioFormat;
}

/** A `playAudio` with an id is reported when it was played: its mark has this before the id. */
const PLAYED = 'playAudio:';
const KEY_MS = 100;

export const jambonz: AgentProtocol<JambonzConfig> = {
  provider: 'jambonz',
  title: 'jambonz `listen`',
  page: 'streams.md',
  selectedBy: 'protocol',
  config: { username: textField(256), password: textField(4096) },
  example: {},
  capabilities: {
    audio: 'PCM 8 kHz',
    flush: ['killAudio'],
    heard: 'mark',
    afterFlush: 'played',
    keys: { as: 'key', message: 'dtmf' },
    hangUp: { by: 'close', words: 'close 1000, `disconnect`' },
    variables: 'fields of the first message',
    longestSession: 'no limit',
  },
  readyOn: 'connect',
  parseConfig(raw) {
    const config = configObject(raw);
    const [username, password] = [optionalText(config, 'username'), optionalText(config, 'password')];
    const basic: Record<string, string> = {};
    if (username !== undefined)
      basic.Authorization = `Basic ${Buffer.from(`${username}:${password ?? ''}`).toString('base64')}`;
    const format = audioFormat(config, ['l16'], [8000, 16000, 24000, 48000]);
    return { headers: { ...basic, ...upgradeHeaders(config) }, format };
  },
  converse: (config, target) => new JambonzConversation(config, target),
};

class JambonzConversation extends StreamConversation {
  constructor(
    private readonly config: JambonzConfig,
    private readonly target: AgentTarget,
  ) {
    super(config.format);
  }

  upgrade() {
    return { url: this.target.url, headers: this.config.headers, subprotocol: 'audio.jambonz.org' };
  }

  /** The `metadata` of the verb are fields beside those of the call. */
  start(): AgentMessage[] {
    const { callId, organizationId, from, to, direction, custom } = this.target.call;
    const call = { callSid: callId, callId, accountSid: organizationId, direction, from, to };
    const audio = { sampleRate: this.format.sampleRateHz, mixType: 'mono' };
    return [JSON.stringify({ ...custom, ...audio, ...call, callStatus: 'in-progress', sipStatus: 200 })];
  }

  audio(bytes: Uint8Array): AgentMessage {
    return bytes;
  }

  receive(message: string | Uint8Array, sink: Sink): void {
    const fields = audioOrFields(message, sink);
    if (fields === null) return;
    const data = asObject(fields.data);
    switch (fields.type) {
      case 'killAudio':
        sink.clear();
        return;
      case 'clearMarks':
        return; // marks have no queue of their own: they go with the audio
      case 'mark':
        markFromBot(data?.name, sink, 'bad_field');
        return;
      case 'playAudio':
        this.#play(data, sink);
        return;
      case 'disconnect':
        sink.hangUp();
        return;
      default:
        sink.garbage(
          'unknown_event',
          'The agent sent a message other than killAudio, mark, clearMarks, playAudio and disconnect.',
        );
    }
  }

  mark(name: string, cleared: boolean): AgentMessage[] {
    if (name.startsWith(PLAYED))
      return cleared ? [] : [JSON.stringify({ type: 'playDone', data: { id: name.slice(PLAYED.length) } })];
    return [JSON.stringify({ type: 'mark', data: { name, event: cleared ? 'cleared' : 'playout' } })];
  }

  dtmf(digit: string): AgentMessage[] {
    // In units of 8 kHz, as in RFC 4733.
    return [JSON.stringify({ event: 'dtmf', dtmf: digit, duration: KEY_MS * 8 })];
  }

  /** A clip in base64, which takes the place of what is playing unless it is to be queued. */
  #play(data: JsonObject | null, sink: Sink): void {
    const bytes = typeof data?.audioContent === 'string' ? base64Bytes(data.audioContent) : null;
    const rate = data?.sampleRate ?? this.replyFormat.sampleRateHz;
    const isPcm = data?.audioContentType === undefined || data.audioContentType === 'raw';
    if (bytes === null || !isPcm || !isRate(rate)) {
      sink.garbage('bad_audio', 'The agent sent playAudio without raw PCM in base64 at 8, 16, 24 or 48 kHz.');
      return;
    }
    if (data?.queuePlay !== true) sink.clear();
    if (bytes.length > 1) sink.audioOf({ encoding: 'l16', sampleRateHz: rate }, bytes.subarray(0, bytes.length & ~1));
    const id = asText(data?.id, 256);
    if (id !== null) sink.mark(PLAYED + id);
  }
}

function isRate(rate: unknown): rate is AudioFormat['sampleRateHz'] {
  return rate === 8000 || rate === 16000 || rate === 24000 || rate === 48000;
}
