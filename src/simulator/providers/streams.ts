/** Bots behind the stream protocols of carriers: `twilio`, `telnyx`, `plivo`, `vonage` and our own `raw`. */
import { decodeAudio, encodeAudio, type WireEncoding } from './codec.js';
import { type Dialect, jsonOf, within } from './dialect.js';

/** What one protocol says where the others say something else. */
interface StreamWords {
  /** The audio of the stream, when the message begins it. */
  started(message: Record<string, unknown>): { encoding: WireEncoding; rateHz: number } | null;
  /** Base64 audio of a message; streams with binary audio have none. */
  payload?(message: Record<string, unknown>): unknown;
  key(message: Record<string, unknown>): unknown;
  /** null: audio is binary. */
  media: ((payload: string, started: Record<string, unknown>) => Record<string, unknown>) | null;
  clear(started: Record<string, unknown>): Record<string, unknown>;
}

const encodings: Record<string, WireEncoding> = {
  PCMU: 'ulaw',
  PCMA: 'alaw',
  L16: 'l16',
  'audio/x-mulaw': 'ulaw',
  'audio/x-l16': 'l16',
  ulaw: 'ulaw',
  l16: 'l16',
};

const audioOf = (encoding: unknown, rate: unknown) => ({
  encoding: encodings[String(encoding)] ?? 'l16',
  rateHz: Number(rate),
});
const startOf = (message: Record<string, unknown>) => within(message, 'start');
const isStart = (message: Record<string, unknown>) => message.event === 'start';
const keyOf = (message: Record<string, unknown>) =>
  message.event === 'dtmf' ? (within(message, 'dtmf').digit ?? message.digits) : undefined;

const words: Record<string, StreamWords> = {
  twilio: {
    started: (message) => (isStart(message) ? { encoding: 'ulaw', rateHz: 8000 } : null),
    payload: (message) => within(message, 'media').payload,
    key: keyOf,
    media: (payload, { streamSid }) => ({ event: 'media', streamSid, media: { payload } }),
    clear: ({ streamSid }) => ({ event: 'clear', streamSid }),
  },
  telnyx: {
    started: (message) => {
      const { encoding, sample_rate } = within(startOf(message), 'media_format');
      return isStart(message) ? audioOf(encoding, sample_rate) : null;
    },
    payload: (message) => within(message, 'media').payload,
    key: keyOf,
    media: (payload) => ({ event: 'media', media: { payload } }),
    clear: () => ({ event: 'clear' }),
  },
  plivo: {
    started: (message) => {
      const { encoding, sampleRate } = within(startOf(message), 'mediaFormat');
      return isStart(message) ? audioOf(encoding, sampleRate) : null;
    },
    payload: (message) => within(message, 'media').payload,
    key: keyOf,
    media: (payload, started) => {
      const { encoding: contentType, sampleRate } = within(startOf(started), 'mediaFormat');
      return { event: 'playAudio', media: { contentType, sampleRate, payload } };
    },
    clear: (started) => ({ event: 'clearAudio', streamId: startOf(started).streamId }),
  },
  vonage: {
    started: (message) =>
      message.event === 'websocket:connected'
        ? audioOf('l16', /rate=(\d+)/.exec(String(message['content-type']))?.[1])
        : null,
    key: (message) => (message.event === 'websocket:dtmf' ? message.digit : undefined),
    media: null,
    clear: () => ({ action: 'clear' }),
  },
  raw: {
    started: (message) => {
      const { encoding, sample_rate } = within(message, 'format');
      return isStart(message) ? audioOf(encoding, sample_rate) : null;
    },
    key: keyOf,
    media: null,
    clear: () => ({ event: 'clear' }),
  },
};

export const streams: readonly Dialect[] = Object.entries(words).map(([provider, say]) => ({
  provider,
  path: `/${provider}`,
  late: false,
  refuse: () => null,
  open(wire, ears) {
    let audio: { encoding: WireEncoding; rateHz: number } | null = null;
    let started: Record<string, unknown> = {};
    return {
      message(data) {
        if (typeof data !== 'string') {
          if (audio !== null) ears.hear(decodeAudio(data, audio.encoding));
          return;
        }
        const message = jsonOf(data);
        if (message === null) return;
        const begun = say.started(message);
        if (begun !== null) {
          audio = begun;
          started = message;
          ears.begin({ listensHz: begun.rateHz, speaksHz: begun.rateHz });
          return ears.greet();
        }
        const payload = say.payload?.(message);
        if (typeof payload === 'string' && audio !== null)
          return ears.hear(decodeAudio(Buffer.from(payload, 'base64'), audio.encoding));
        const key = say.key(message);
        if (key !== undefined) ears.read(String(key));
      },
      interrupted: (turn) => {
        if (turn !== null) wire.send(say.clear(started));
      },
      heard: () => {},
      said: () => {},
      audio(samples) {
        if (audio === null) return;
        const bytes = encodeAudio(samples, audio.encoding);
        if (say.media === null) wire.sendBinary(bytes);
        else wire.send(say.media(bytes.toString('base64'), started));
      },
      finished: () => {},
      hangUp: () => wire.close(1000),
      // Carriers transfer over their REST services, which is none of the socket's business.
      ...(provider === 'raw' && { transfer: (to: string) => wire.send({ event: 'transfer', to }) }),
      expire: () => wire.close(1000),
    };
  },
}));
