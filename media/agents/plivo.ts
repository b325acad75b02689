/** Plivo audio streaming, bidirectional. The agent asks for checkpoints instead of marks, and may send keys to the caller. */
import { randomUUID } from 'node:crypto';
import type { AgentProtocol, AgentTarget, AudioFormat, Outgoing, Sink, Track } from './agent.js';
import { audioFormat, configObject, upgradeHeaders } from './config-fields.js';
import { asObject, asText } from './json.js';
import { base64, readJson } from './provider.js';
import { providerTrack, providerTracks } from './provider-tracks.js';
import { markFromBot, mediaFromBot, StreamConversation } from './stream.js';

interface PlivoConfig {
  headers: Record<string, string>;
  format: AudioFormat;
}

const WIRE = { ulaw: 'audio/x-mulaw', alaw: 'audio/x-alaw', l16: 'audio/x-l16' };
const DIGITS = /^[0-9A-Dw*#]{1,64}$/;

export const plivo: AgentProtocol<PlivoConfig> = {
  provider: 'plivo',
  readyOn: 'connect',
  separateTracks: true,
  parseConfig(raw) {
    const config = configObject(raw);
    return { headers: upgradeHeaders(config), format: audioFormat(config, ['ulaw', 'l16'], [8000, 16000]) };
  },
  converse: (config, target) => new PlivoConversation(config, target),
};

class PlivoConversation extends StreamConversation {
  readonly #streamId = randomUUID();
  #sequence = 0;
  /** Counted on each track. */
  readonly #chunks = { caller: 0, agent: 0 };

  constructor(
    private readonly config: PlivoConfig,
    private readonly target: AgentTarget,
  ) {
    super(config.format);
  }

  upgrade() {
    return { url: this.target.url, headers: this.config.headers };
  }

  start(): Outgoing[] {
    const { callId, organizationId, custom } = this.target.call;
    const { encoding, sampleRateHz } = this.format;
    const start = {
      callId,
      streamId: this.#streamId,
      accountId: organizationId,
      tracks: providerTracks(this.target.tracks),
      mediaFormat: { encoding: WIRE[encoding], sampleRate: sampleRateHz },
    };
    return [this.#numbered('start', { start, extra_headers: JSON.stringify(custom) })];
  }

  audio(bytes: Uint8Array, atMs: number, track: Track = 'caller'): Outgoing {
    this.#sequence += 1;
    this.#chunks[track] += 1;
    const timestamp = Math.max(0, Math.round(atMs));
    return `{"event":"media","sequenceNumber":${this.#sequence},"streamId":"${this.#streamId}","media":{"track":"${providerTrack[track]}","timestamp":"${timestamp}","chunk":${this.#chunks[track]},"payload":"${base64(bytes)}"}}`;
  }

  receive(message: string | Uint8Array, sink: Sink): void {
    const fields = readJson(message, sink);
    if (fields === null) return;
    switch (fields.event) {
      case 'playAudio':
        mediaFromBot(asObject(fields.media)?.payload, sink, 'bad_audio');
        return;
      case 'checkpoint':
        markFromBot(fields.name, sink, 'bad_field');
        return;
      case 'clearAudio':
        sink.clear();
        sink.send(JSON.stringify({ event: 'clearedAudio', streamId: this.#streamId }));
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

  /** Only what was played is told; a cleared checkpoint was not. */
  mark(name: string, cleared: boolean): Outgoing[] {
    return cleared ? [] : [JSON.stringify({ event: 'playedStream', streamId: this.#streamId, name })];
  }

  dtmf(digit: string): Outgoing[] {
    return [this.#numbered('dtmf', { streamId: this.#streamId, dtmf: { track: 'inbound', digit } })];
  }

  override closing(): Outgoing[] {
    return [this.#numbered('stop', { streamId: this.#streamId })];
  }

  #numbered(event: string, body: Record<string, unknown>): string {
    this.#sequence += 1;
    return JSON.stringify({ event, sequenceNumber: this.#sequence, ...body });
  }
}
