/**
 * Asterisk's AudioSocket over TCP: each message is a kind, a 16 bit length (big-endian) and a payload. The first one has the call's UUID; then
 * come audio (little-endian 16 bit PCM; the kind tells its rate) and keys. Source: docs.asterisk.org, Channel Drivers, AudioSocket.
 */
import {
  AgentFailure,
  type AgentMessage,
  type AgentProtocol,
  type AgentTarget,
  type AudioFormat,
  type MessageCodec,
  type Sink,
} from '../../agent.js';
import { audioFormat, configObject } from '../../config-fields.js';
import { StreamConversation } from '../../stream-conversation.js';

const HEADER_BYTES = 3;
const MAX_PAYLOAD_BYTES = 0xffff;

const KIND = { hangup: 0x00, uuid: 0x01, silence: 0x02, dtmf: 0x03, error: 0xff } as const;
/** Kinds of audio by their rate. */
const AUDIO_KIND: Readonly<Record<AudioFormat['sampleRateHz'], number>> = {
  8000: 0x10,
  16000: 0x12,
  24000: 0x13,
  48000: 0x16,
};
/** 12, 32, 44.1, 96 and 192 kHz, which no phone has. */
const OTHER_AUDIO_KINDS: ReadonlySet<number> = new Set([0x11, 0x14, 0x15, 0x17, 0x18]);
const RATE_OF: ReadonlyMap<number, AudioFormat['sampleRateHz']> = new Map(
  ([8000, 16000, 24000, 48000] as const).map((rate) => [AUDIO_KIND[rate], rate]),
);

interface AudioSocketConfig {
  format: AudioFormat;
}

export const audiosocket: AgentProtocol<AudioSocketConfig> = {
  provider: 'audiosocket',
  title: 'Asterisk AudioSocket',
  page: 'streams.md',
  selectedBy: 'protocol',
  schemes: ['tcp'],
  config: {},
  example: {},
  capabilities: {
    audio: 'PCM 8 kHz',
    flush: [],
    afterFlush: 'no flush',
    keys: { as: 'key', message: '0x03' },
    hangUp: { by: 'close', words: 'kind `0x00`, end of the connection' },
    variables: 'none; the UUID is the id of the call',
    longestSession: 'no limit',
  },
  readyOn: 'connect',
  parseConfig: (raw) => ({ format: audioFormat(configObject(raw), ['l16'], [8000, 16000, 24000, 48000]) }),
  converse: (config, target) => new AudioSocketConversation(config, target),
};

/** The header contains the length, and nothing is encoded. */
export const audioSocketCodec: MessageCodec = {
  headerBytes: HEADER_BYTES,
  lengthOf: (bytes) => HEADER_BYTES + bytes.readUInt16BE(1),
  encode: (message) => (typeof message === 'string' ? Buffer.from(message) : message),
  decode: (message) => Buffer.from(message),
};

class AudioSocketConversation extends StreamConversation {
  constructor(
    config: AudioSocketConfig,
    private readonly target: AgentTarget,
  ) {
    super(config.format);
  }

  upgrade() {
    return { url: this.target.url, headers: {}, codec: audioSocketCodec };
  }

  start(): AgentMessage[] {
    return [frame(KIND.uuid, Buffer.from(this.target.call.callId.replaceAll('-', ''), 'hex'))];
  }

  audio(bytes: Uint8Array): AgentMessage {
    return frame(AUDIO_KIND[this.format.sampleRateHz], bytes);
  }

  receive(message: string | Uint8Array, sink: Sink): void {
    const kind = typeof message === 'string' ? undefined : message[0];
    if (typeof message === 'string' || kind === undefined || message.length < HEADER_BYTES) {
      sink.garbage('bad_message', 'The agent sent a message without kind and length.');
      return;
    }
    const payload = message.subarray(HEADER_BYTES);
    const sampleRateHz = RATE_OF.get(kind);
    if (sampleRateHz !== undefined) this.#play(payload, sampleRateHz, sink);
    else if (kind === KIND.hangup) sink.hangUp();
    else if (kind === KIND.error) {
      const code = payload.length === 0 ? '' : ` with code ${payload[0]}`;
      sink.fail(new AgentFailure('protocol', `The agent reported an error${code}.`, true));
    } else if (OTHER_AUDIO_KINDS.has(kind))
      sink.garbage('unsupported_rate', 'The agent sent audio of another rate than 8, 16, 24 and 48 kHz.');
    else if (kind !== KIND.silence)
      sink.garbage('unknown_kind', 'The agent sent a message that is neither audio nor a hang-up.');
  }

  /** There are no marks. */
  mark(): AgentMessage[] {
    return [];
  }

  dtmf(digit: string): AgentMessage[] {
    return [frame(KIND.dtmf, Buffer.from(digit, 'latin1'))];
  }

  override closing(): AgentMessage[] {
    return [frame(KIND.hangup, new Uint8Array(0))];
  }

  #play(payload: Uint8Array, sampleRateHz: AudioFormat['sampleRateHz'], sink: Sink): void {
    if (payload.length === 0) return;
    if (sampleRateHz === this.replyFormat.sampleRateHz) {
      sink.audio(payload);
      return;
    }
    const whole = payload.subarray(0, payload.length & ~1);
    if (whole.length > 0) sink.audioOf({ encoding: 'l16', sampleRateHz }, whole);
  }
}

function frame(kind: number, payload: Uint8Array): Uint8Array {
  if (payload.length > MAX_PAYLOAD_BYTES) throw new RangeError('A payload has at most 65535 bytes.');
  const message = Buffer.allocUnsafe(HEADER_BYTES + payload.length);
  message[0] = kind;
  message.writeUInt16BE(payload.length, 1);
  message.set(payload, HEADER_BYTES);
  return message;
}
