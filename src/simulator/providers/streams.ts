/** Simulated bots for the stream protocols of carriers and telephone systems, and for our own `raw`. */
import { decodeAudio, encodeAudio, type WireEncoding } from './codec.js';
import { jsonOf, type ProviderProtocol, within } from './provider-protocol.js';

/** What differs between the protocols. */
interface StreamWords {
  /** The audio format, if the message starts the stream. */
  started(message: Record<string, unknown>): { encoding: WireEncoding; rateHz: number } | null;
  /** Base64 audio of a message; absent for streams with binary audio. */
  payload?(message: Record<string, unknown>): unknown;
  key(message: Record<string, unknown>): unknown;
  /** null: audio is binary. */
  media: ((payload: string, started: Record<string, unknown>) => Record<string, unknown>) | null;
  clear(started: Record<string, unknown>): Record<string, unknown>;
  /** The response to a message, such as the acceptance of the stream. */
  answers?(message: Record<string, unknown>): Record<string, unknown>[];
  /** Messages before and after each utterance. */
  begins?(turn: number): Record<string, unknown>;
  ends?(turn: number): Record<string, unknown>;
  /** Absent: the bot hangs up by closing the socket. */
  hangUp?(started: Record<string, unknown>): Record<string, unknown>;
  transfer?(to: string): Record<string, unknown>;
}

const encodings: Record<string, WireEncoding> = {
  PCMU: 'ulaw',
  PCMA: 'alaw',
  L16: 'l16',
  'audio/x-mulaw': 'ulaw',
  'audio/x-l16': 'l16',
  ulaw: 'ulaw',
  alaw: 'alaw',
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
  exotel: {
    started: (message) =>
      isStart(message) ? audioOf('l16', within(startOf(message), 'media_format').sample_rate) : null,
    payload: (message) => within(message, 'media').payload,
    key: keyOf,
    media: (payload, { stream_sid }) => ({ event: 'media', stream_sid, media: { payload } }),
    clear: ({ stream_sid }) => ({ event: 'clear', stream_sid }),
  },
  jambonz: {
    started: (message) => (message.callSid === undefined ? null : audioOf('l16', message.sampleRate)),
    key: (message) => (message.event === 'dtmf' ? message.dtmf : undefined),
    media: null,
    clear: () => ({ type: 'killAudio' }),
  },
  asterisk: {
    started: ({ event, format, optimal_frame_size: bytes }) => {
      if (event !== 'MEDIA_START') return null;
      const isPcm = String(format).startsWith('slin');
      return audioOf(isPcm ? 'l16' : format, (Number(bytes) * 50) / (isPcm ? 2 : 1));
    },
    key: (message) => (message.event === 'DTMF_END' ? message.digit : undefined),
    media: null,
    clear: () => ({ command: 'FLUSH_MEDIA' }),
  },
  sinch: {
    started: (message) => (message.command === 'connect' ? audioOf('l16', message.sampleRate) : null),
    key: () => undefined,
    media: null,
    clear: () => ({ command: 'clear' }),
    answers: ({ command }) => (command === 'connect' ? [{ command: 'answer' }] : []),
  },
  genesys: {
    started: (message) => {
      const [media] = (within(message, 'parameters').media ?? []) as { format: string; rate: number }[];
      return message.type === 'open' ? audioOf(media?.format, media?.rate) : null;
    },
    key: (message) => (message.type === 'dtmf' ? within(message, 'parameters').digit : undefined),
    media: null,
    clear: (started) => audiohook('event', started, { entities: [{ type: 'barge_in', data: {} }] }),
    answers: (message) => {
      const { media } = within(message, 'parameters');
      if (message.type === 'open') return [audiohook('opened', message, { startPaused: false, media })];
      if (message.type === 'ping') return [audiohook('pong', message, {})];
      return message.type === 'close' ? [audiohook('closed', message, {})] : [];
    },
    hangUp: (started) => audiohook('disconnect', started, { reason: 'completed' }),
  },
  audiocodes: {
    started: ({ type }) => (type === 'userStream.start' ? audioOf('l16', 16000) : null),
    payload: (message) => (message.type === 'userStream.chunk' ? message.audioChunk : undefined),
    key: ({ activities }) => {
      const [activity] = (activities ?? []) as { name?: string; value?: unknown }[];
      return activity?.name === 'DTMF' ? activity.value : undefined;
    },
    media: (audioChunk) => ({ type: 'playStream.chunk', audioChunk }),
    clear: () => activity('abortPrompts'),
    answers: ({ type }) => {
      if (type === 'session.initiate') return [{ type: 'session.accepted', mediaFormat: 'raw/lpcm16' }];
      return type === 'userStream.start' ? [{ type: 'userStream.started' }] : [];
    },
    begins: (turn) => ({ type: 'playStream.start', streamId: `play-${turn}`, mediaFormat: 'raw/lpcm16' }),
    ends: (turn) => ({ type: 'playStream.stop', streamId: `play-${turn}` }),
    hangUp: () => activity('hangup'),
    transfer: (transferTarget) => activity('transfer', { transferTarget }),
  },
  raw: {
    started: (message) => {
      const { encoding, sample_rate } = within(message, 'format');
      return isStart(message) ? audioOf(encoding, sample_rate) : null;
    },
    key: keyOf,
    media: null,
    clear: () => ({ event: 'clear' }),
    transfer: (to) => ({ event: 'transfer', to }),
  },
};

/** A message of an AudioHook server. */
function audiohook(type: string, { id, seq }: Record<string, unknown>, parameters: Record<string, unknown>) {
  return { version: '2', id, type, seq: 1, clientseq: seq, parameters };
}

function activity(name: string, activityParams?: Record<string, unknown>) {
  return { type: 'activities', activities: [{ type: 'event', name, ...(activityParams && { activityParams }) }] };
}

const protocolOf = (provider: string, say: StreamWords): ProviderProtocol => ({
  provider,
  path: `/${provider}`,
  late: false,
  refuse: () => null,
  open(wire, agentInput) {
    let audio: { encoding: WireEncoding; rateHz: number } | null = null;
    let started: Record<string, unknown> = {};
    return {
      message(data) {
        if (typeof data !== 'string') {
          if (audio !== null) agentInput.hear(decodeAudio(data, audio.encoding));
          return;
        }
        const message = jsonOf(data);
        if (message === null) return;
        for (const answer of say.answers?.(message) ?? []) wire.send(answer);
        const begun = say.started(message);
        if (begun !== null) {
          audio = begun;
          started = message;
          agentInput.begin({ listensHz: begun.rateHz, speaksHz: begun.rateHz });
          return agentInput.greet();
        }
        const payload = say.payload?.(message);
        if (typeof payload === 'string' && audio !== null)
          return agentInput.hear(decodeAudio(Buffer.from(payload, 'base64'), audio.encoding));
        const key = say.key(message);
        if (key !== undefined) agentInput.read(String(key));
      },
      interrupted: (turn) => {
        if (turn !== null) wire.send(say.clear(started));
      },
      heard: () => {},
      said(_text, turn) {
        if (say.begins !== undefined) wire.send(say.begins(turn));
      },
      audio(samples) {
        if (audio === null) return;
        const bytes = encodeAudio(samples, audio.encoding);
        if (say.media === null) wire.sendBinary(bytes);
        else wire.send(say.media(bytes.toString('base64'), started));
      },
      finished(turn) {
        if (say.ends !== undefined) wire.send(say.ends(turn));
      },
      hangUp: () => (say.hangUp === undefined ? wire.close(1000) : wire.send(say.hangUp(started))),
      // Most carriers transfer over their REST API and not over the socket.
      transfer: (to: string) => {
        if (say.transfer !== undefined) wire.send(say.transfer(to));
      },
      expire: () => wire.close(1000),
    };
  },
});

export const streams: readonly ProviderProtocol[] = [
  ...Object.entries(words),
  ['signalwire', words.twilio] as const,
].flatMap(([provider, say]) => (say === undefined ? [] : [protocolOf(provider, say)]));
