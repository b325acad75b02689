/**
 * Genesys AudioHook, version 2, as Genesys' Audio Connector speaks it: `open` and `opened`, then μ-law or PCM in binary messages both ways,
 * `close` and `closed`. Both sides count their messages.
 */
import { createHmac, randomBytes, randomUUID } from 'node:crypto';
import {
  AgentFailure,
  type AgentMessage,
  type AgentProtocol,
  type AgentTarget,
  type AudioFormat,
  type Sink,
} from '../../agent.js';
import { audioFormat, configObject, optionalText, upgradeHeaders } from '../../config-fields.js';
import { textField } from '../../config-schema.js';
import { asObject, type JsonObject, parseObject } from '../../json.js';
import { AcceptedStream } from '../../stream-conversation.js';

interface GenesysConfig {
  /** Sent as `X-API-KEY`, and the key id of the signature. */
  apiKey?: string;
  /** Base64; signs the upgrade request. */
  clientSecret?: string;
  headers: Record<string, string>;
  format: AudioFormat;
}

/** Pings are sent so often while there is nothing else to send. */
const PING_MS = 5000;
/** The end of what the bot has sent so far. */
const PLAYED = 'played';

export const genesys: AgentProtocol<GenesysConfig> = {
  provider: 'genesys',
  title: 'Genesys AudioHook',
  page: 'streams.md',
  selectedBy: 'protocol',
  config: { client_secret: textField(4096) },
  example: {},
  capabilities: {
    audio: 'G.711 μ-law',
    flush: ['barge_in'],
    heard: 'playback_completed',
    afterFlush: 'played',
    keys: { as: 'key', message: 'dtmf' },
    hangUp: { by: 'signal', words: '`disconnect`, close 1000' },
    keepAlive: 'ping',
    variables: '`inputVariables` of `open`',
    longestSession: 'no limit',
  },
  readyOn: 'connect',
  parseConfig(raw) {
    const config = configObject(raw);
    return {
      apiKey: optionalText(config, 'api_key'),
      clientSecret: optionalText(config, 'client_secret'),
      headers: upgradeHeaders(config),
      format: audioFormat(config, ['ulaw', 'l16'], [8000]),
    };
  },
  converse: (config, target) => new GenesysConversation(config, target),
};

class GenesysConversation extends AcceptedStream {
  readonly #sessionId = randomUUID();
  readonly keepAlive: { readonly afterMs: number; readonly message: string };
  #sequence = 0;
  /** The newest message of the bot. */
  #serverSequence = 0;
  #heardMs = 0;
  #paused = false;
  /** Audio was sent behind the mark that waits. */
  #moreQueued = false;
  #playing = false;
  #sink: Sink | null = null;

  constructor(
    private readonly config: GenesysConfig,
    private readonly target: AgentTarget,
  ) {
    super(config.format);
    const ping = () => this.#message('ping', {});
    this.keepAlive = {
      afterMs: PING_MS,
      get message() {
        return ping();
      },
    };
  }

  upgrade() {
    const { apiKey, clientSecret, headers } = this.config;
    const ids: Record<string, string> = {
      'Audiohook-Organization-Id': this.target.call.organizationId,
      'Audiohook-Session-Id': this.#sessionId,
      'Audiohook-Correlation-Id': this.#sessionId,
    };
    if (apiKey !== undefined) ids['X-API-KEY'] = apiKey;
    const signature = clientSecret === undefined ? {} : signUpgrade(clientSecret, this.target.url, ids);
    return { url: this.target.url, headers: { ...ids, ...signature, ...headers } };
  }

  start(): AgentMessage[] {
    const { callId, organizationId, from, to, custom } = this.target.call;
    const format = this.format.encoding === 'l16' ? 'L16' : 'PCMU';
    const parameters = {
      organizationId,
      conversationId: callId,
      participant: { id: callId, ani: from, aniName: '', dnis: to },
      media: [{ type: 'audio', format, channels: ['external'], rate: 8000 }],
      inputVariables: custom,
    };
    return [this.#message('open', parameters)];
  }

  protected frame(bytes: Uint8Array): AgentMessage {
    if (this.#paused) return null;
    this.#heardMs += bytes.length / (this.format.encoding === 'l16' ? 16 : 8);
    return bytes;
  }

  receive(message: string | Uint8Array, sink: Sink): void {
    this.#sink = sink;
    if (typeof message !== 'string') {
      if (message.length > 0) this.#play(message, sink);
      return;
    }
    const fields = parseObject(message);
    if (fields === null) {
      sink.garbage('bad_json', 'The agent sent a text message that is not a JSON object.');
      return;
    }
    if (typeof fields.seq === 'number') this.#serverSequence = fields.seq;
    const parameters = asObject(fields.parameters);
    switch (fields.type) {
      case 'opened':
        this.#paused = parameters?.startPaused === true;
        this.accept(sink);
        return;
      case 'event':
        if (bargesIn(parameters)) sink.clear();
        return;
      case 'pause':
        this.#paused = true;
        sink.send(this.#message('paused', {}));
        return;
      case 'resume':
        this.#paused = false;
        sink.send(this.#message('resumed', { start: this.#position, discarded: 'PT0S' }));
        return;
      case 'disconnect':
        this.#disconnected(parameters?.reason, sink);
        return;
      case 'pong':
      case 'closed':
      case 'updated':
        return;
      default:
        sink.garbage(
          'unknown_event',
          'The agent sent a message other than opened, event, pause, resume, pong, updated, disconnect and closed.',
        );
    }
  }

  /** The queue has run empty, unless the bot went on speaking meanwhile. */
  mark(_name: string, cleared: boolean): AgentMessage[] {
    if (this.#moreQueued && !cleared) {
      this.#moreQueued = false;
      this.#sink?.mark(PLAYED);
      return [];
    }
    this.#moreQueued = false;
    this.#playing = false;
    return [this.#message('playback_completed', {})];
  }

  dtmf(digit: string): AgentMessage[] {
    return [this.#message('dtmf', { digit })];
  }

  override closing(): AgentMessage[] {
    return [this.#message('close', { reason: 'end' })];
  }

  #play(bytes: Uint8Array, sink: Sink): void {
    sink.audio(bytes);
    if (this.#playing) {
      this.#moreQueued = true;
      return;
    }
    this.#playing = true;
    sink.send(this.#message('playback_started', {}));
    sink.mark(PLAYED);
  }

  #disconnected(reason: unknown, sink: Sink): void {
    if (reason === undefined || reason === 'completed') sink.hangUp();
    else if (reason === 'unauthorized')
      sink.fail(new AgentFailure('unauthorized', 'The agent ended the session as unauthorized.', false));
    else sink.fail(new AgentFailure('protocol', 'The agent ended the session with an error.', true));
  }

  /** Of the audio to the bot, as an ISO 8601 duration. */
  get #position(): string {
    return `PT${(this.#heardMs / 1000).toFixed(3)}S`;
  }

  #message(type: string, parameters: Record<string, unknown>): string {
    this.#sequence += 1;
    const numbers = { seq: this.#sequence, serverseq: this.#serverSequence, position: this.#position };
    return JSON.stringify({ version: '2', id: this.#sessionId, type, ...numbers, parameters });
  }
}

function bargesIn(parameters: JsonObject | null): boolean {
  const entities = parameters?.entities;
  return Array.isArray(entities) && entities.some((each) => asObject(each)?.type === 'barge_in');
}

/** The headers `Signature-Input` and `Signature`, as HTTP message signatures with the components that AudioHook names. */
export function signUpgrade(
  clientSecret: string,
  target: string,
  ids: Readonly<Record<string, string>>,
  { nonce = randomBytes(18).toString('base64'), createdSec = Math.floor(Date.now() / 1000), lifetimeSec = 30 } = {},
): Record<string, string> {
  const url = new URL(target);
  const components: [name: string, value: string][] = [
    ['@request-target', url.pathname + url.search],
    ['@authority', url.host],
    ...Object.entries(ids).map(([name, value]): [string, string] => [name.toLowerCase(), value]),
  ];
  const names = components.map(([name]) => `"${name}"`).join(' ');
  const keyId = ids['X-API-KEY'] ?? '';
  const times = `created=${createdSec};expires=${createdSec + lifetimeSec}`;
  const input = `(${names});keyid="${keyId}";nonce="${nonce}";alg="hmac-sha256";${times}`;
  const lines = [...components.map(([name, value]) => `"${name}": ${value}`), `"@signature-params": ${input}`];
  const key = Buffer.from(clientSecret, 'base64');
  const signature = createHmac('sha256', key).update(lines.join('\n')).digest('base64');
  return { 'Signature-Input': `sig1=${input}`, Signature: `sig1=:${signature}:` };
}
