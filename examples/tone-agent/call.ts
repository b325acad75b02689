/** One call of the tone agent: greets, listens, answers each utterance, and stops speaking when the caller interrupts. */
import { WebSocket } from 'ws';
import { type AgentProtocolName, parseMessage } from '../serve.js';
import { Listener, type Utterance } from './listener.js';
import { decodeL16, decodeUlaw, encodeL16, encodeUlaw, tone } from './sound.js';

export interface ToneBehaviour {
  /** 0 ms: no greeting. */
  greetingHz: number;
  greetingMs: number;
  answerHz: number;
  answerMs: number;
  /** Delay from the end of an utterance (after `silenceMs`) to the answer. */
  answerDelayMs: number;
  /** Silence of the caller that ends an utterance. */
  silenceMs: number;
}

export type ToneEvent =
  | { type: 'started'; start: Record<string, unknown> }
  | { type: 'speech' }
  | { type: 'utterance'; utterance: Utterance }
  | { type: 'answered'; mark: string }
  /** The caller spoke while the agent was speaking; `clear` was sent. */
  | { type: 'bargeIn' }
  | { type: 'mark'; name: string; cleared: boolean }
  | { type: 'dtmf'; digits: string }
  | { type: 'stopped'; reason: string }
  | { type: 'closed'; code: number };

/** Length of the audio chunks, which are sent as fast as the socket takes them. */
const PIECE_MS = 100;

export class ToneCall {
  readonly utterances: Utterance[] = [];
  readonly marks: string[] = [];
  digits = '';
  bargeIns = 0;
  /** The `start` message as received. */
  start: Record<string, unknown> | undefined;
  readonly #socket: WebSocket;
  readonly #protocol: AgentProtocolName;
  readonly #behaviour: ToneBehaviour;
  readonly #onEvent: (event: ToneEvent) => void;
  /** Marks of audio that is still being played. */
  readonly #playing = new Set<string>();
  #listener: Listener | undefined;
  #encoding: 'ulaw' | 'l16' = 'ulaw';
  #sampleRateHz = 8000;
  #streamSid = '';
  #answers = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    socket: WebSocket,
    protocol: AgentProtocolName,
    behaviour: ToneBehaviour,
    onEvent: (event: ToneEvent) => void,
  ) {
    this.#socket = socket;
    this.#protocol = protocol;
    this.#behaviour = behaviour;
    this.#onEvent = onEvent;
    socket.on('close', (code) => {
      clearTimeout(this.#timer);
      onEvent({ type: 'closed', code });
    });
    socket.on('message', (data: Buffer, isBinary) => {
      if (isBinary) this.#hear(data);
      else this.#message(data.toString());
    });
  }

  /** Ends the call from the agent's side. */
  hangUp(): void {
    this.#socket.close(1000);
  }

  /** Plays a tone now; its mark comes back when it was played. */
  say(frequencyHz: number, durationMs: number, mark: string): void {
    if (this.#socket.readyState !== WebSocket.OPEN) return;
    const samples = tone(frequencyHz, durationMs, this.#sampleRateHz);
    const piece = (this.#sampleRateHz * PIECE_MS) / 1000;
    for (let at = 0; at < samples.length; at += piece) this.#sendAudio(samples.subarray(at, at + piece));
    this.#playing.add(mark);
    this.#sendEvent('mark', this.#protocol === 'raw' ? { name: mark } : { mark: { name: mark } });
  }

  #message(text: string): void {
    const message = parseMessage(text);
    const body = message[String(message.event)];
    const inner: Record<string, unknown> = typeof body === 'object' && body !== null ? { ...body } : message;
    switch (message.event) {
      case 'start':
        this.#started(message);
        break;
      case 'media':
        if (typeof inner.payload === 'string') this.#hear(Buffer.from(inner.payload, 'base64'));
        break;
      case 'mark':
        this.#marked(String(inner.name), inner.cleared === true);
        break;
      case 'dtmf':
        this.#keyed(String(inner.digits ?? inner.digit));
        break;
      case 'stop':
        this.#onEvent({ type: 'stopped', reason: String(inner.reason ?? '') });
        this.#socket.close(1000);
        break;
    }
  }

  #started(message: Record<string, unknown>): void {
    this.start = message;
    const { format } = message as { format?: { encoding?: 'ulaw' | 'l16'; sample_rate?: number } };
    this.#encoding = format?.encoding ?? 'ulaw';
    this.#sampleRateHz = format?.sample_rate ?? 8000;
    this.#streamSid = String(message.streamSid ?? '');
    this.#listener = new Listener({
      sampleRateHz: this.#sampleRateHz,
      silenceMs: this.#behaviour.silenceMs,
      onSpeech: () => this.#interrupted(),
      onUtterance: (utterance) => this.#heard(utterance),
    });
    this.#onEvent({ type: 'started', start: message });
    const { greetingHz, greetingMs } = this.#behaviour;
    if (greetingMs > 0) this.say(greetingHz, greetingMs, 'greeting');
  }

  #hear(bytes: Buffer): void {
    this.#listener?.hear(this.#encoding === 'ulaw' ? decodeUlaw(bytes) : decodeL16(bytes));
  }

  #interrupted(): void {
    this.#onEvent({ type: 'speech' });
    clearTimeout(this.#timer);
    if (this.#playing.size === 0) return;
    this.bargeIns += 1;
    this.#sendEvent('clear', {});
    this.#onEvent({ type: 'bargeIn' });
  }

  #heard(utterance: Utterance): void {
    this.utterances.push(utterance);
    this.#onEvent({ type: 'utterance', utterance });
    const { answerHz, answerMs, answerDelayMs } = this.#behaviour;
    this.#timer = setTimeout(() => {
      this.#answers += 1;
      const mark = `answer-${this.#answers}`;
      this.say(answerHz, answerMs, mark);
      this.#onEvent({ type: 'answered', mark });
    }, answerDelayMs);
  }

  #marked(name: string, cleared: boolean): void {
    this.#playing.delete(name);
    this.marks.push(name);
    this.#onEvent({ type: 'mark', name, cleared });
  }

  #keyed(digits: string): void {
    this.digits += digits;
    this.#onEvent({ type: 'dtmf', digits });
  }

  #sendAudio(samples: Int16Array): void {
    const bytes = this.#encoding === 'ulaw' ? encodeUlaw(samples) : encodeL16(samples);
    if (this.#protocol === 'raw') this.#socket.send(bytes);
    else this.#sendEvent('media', { media: { payload: bytes.toString('base64') } });
  }

  #sendEvent(event: string, fields: Record<string, unknown>): void {
    const stream = this.#protocol === 'twilio' ? { streamSid: this.#streamSid } : {};
    this.#socket.send(JSON.stringify({ event, ...stream, ...fields }));
  }
}
