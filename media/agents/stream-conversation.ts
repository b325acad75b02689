/** Base of the carriers' stream protocols: the bot gets the call's facts in the first message and hangs up by closing. */
import type { AgentMessage, AudioFormat, AudioTrack, AudioTracks, Conversation, Sink, Upgrade } from './agent.js';
import { asText, base64Bytes, type JsonObject, parseObject } from './json.js';
import { RepeatedMedia } from './repeated-media.js';

const MAX_MARK_CHARS = 1024;

/** Names of the two tracks. */
export const providerTrack: Record<AudioTrack, string> = { caller: 'inbound', agent: 'outbound' };

export function providerTracks(tracks: AudioTracks = 'caller'): string[] {
  return tracks === 'both' ? [providerTrack.caller, providerTrack.agent] : [providerTrack[tracks]];
}

export abstract class StreamConversation implements Conversation {
  readonly replyFormat: AudioFormat;
  readonly #repeated = new RepeatedMedia();

  constructor(readonly format: AudioFormat) {
    this.replyFormat = format;
  }

  readMedia(message: Uint8Array): Uint8Array | null {
    return this.#repeated.read(message);
  }

  /** Audio of the bot in base64, the only effect of `message`; anything else is counted under `code`. */
  protected mediaFromBot(message: string | Uint8Array, payload: unknown, sink: Sink, code: string): void {
    const bytes = typeof payload === 'string' ? base64Bytes(payload) : null;
    if (bytes === null) sink.garbage(code, 'The agent sent media without a base64 payload.');
    else if (bytes.length > 0) {
      if (typeof message === 'string') this.#repeated.learn(message, payload as string);
      sink.audio(bytes);
    }
  }

  abstract upgrade(): Upgrade;
  abstract start(): AgentMessage[];
  abstract audio(bytes: Uint8Array, atMs: number, track?: AudioTrack): AgentMessage;
  abstract receive(message: string | Uint8Array, sink: Sink): void;
  abstract mark(name: string, cleared: boolean): AgentMessage[];
  abstract dtmf(digits: string): AgentMessage[];

  opening(): AgentMessage[] {
    return [];
  }

  interrupted(): AgentMessage[] {
    return [];
  }

  closing(_reason: string): AgentMessage[] {
    return [];
  }

  closed(code: number): 'hangup' | 'failed' {
    return code === 1000 || code === 1001 || code === 1005 ? 'hangup' : 'failed';
  }
}

/** The longest audio that is kept for a bot that has not accepted the stream yet. */
const KEPT_MS = 1000;

/** A stream that the bot accepts with a message of its own: what the caller says before that is kept, so that the first word arrives. */
export abstract class AcceptedStream extends StreamConversation {
  #accepted = false;
  #kept: { bytes: Uint8Array; atMs: number }[] = [];

  /** One message with caller audio. */
  protected abstract frame(bytes: Uint8Array, atMs: number): AgentMessage;

  audio(bytes: Uint8Array, atMs: number): AgentMessage {
    if (this.#accepted) return this.frame(bytes, atMs);
    this.#kept.push({ bytes: bytes.slice(), atMs });
    while (atMs - (this.#kept[0]?.atMs ?? atMs) > KEPT_MS) this.#kept.shift();
    return null;
  }

  /** The bot takes audio from now on. */
  protected accept(sink: Sink): void {
    this.#accepted = true;
    for (const { bytes, atMs } of this.#kept.splice(0)) sink.send(this.frame(bytes, atMs));
  }
}

/** A message of a bot whose binary messages are audio. Returns the fields of a text message; null when there is nothing more to do. */
export function audioOrFields(message: string | Uint8Array, sink: Sink): JsonObject | null {
  if (typeof message !== 'string') {
    if (message.length > 0) sink.audio(message);
    return null;
  }
  const fields = parseObject(message);
  if (fields === null) sink.garbage('bad_json', 'The agent sent a text message that is not a JSON object.');
  return fields;
}

/** A mark of the bot. */
export function markFromBot(name: unknown, sink: Sink, code: string): void {
  const text = asText(name, MAX_MARK_CHARS);
  if (text === null) sink.garbage(code, 'The agent sent a mark without a name.');
  else sink.mark(text);
}
