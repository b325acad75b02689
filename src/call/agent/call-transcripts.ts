import { setMaxListeners } from 'node:events';
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import type { AudioTrack } from '../../../media/agents/agent.js';
import { agentProtocols } from '../../../media/agents/providers/registry.js';
import type { MediaSession, TapMessage } from '../../../media/engine.js';
import { DeadlineError, withDeadline } from '../../../net/deadline.js';
import type { EndpointForCall as Endpoint } from '../../store/routing/endpoints.js';
import {
  type ExpectedSpeech,
  howToTranscribe,
  type TranscriptionEngine,
  TranscriptionError,
} from '../../transcription/engine.js';
import { transcribeSamples } from '../../transcription/spoken-samples.js';
import { type Utterance, Utterances, utteranceHz } from '../../transcription/utterances.js';
import type { Call } from '../core/call.js';

export interface CallTranscriptsOptions {
  /** null when there is none at the moment. */
  engine(): TranscriptionEngine | null;
  /** For endpoints that do not say whether they want it. */
  isDefault: boolean;
}

const chunkMs = 500;
/** Utterances of all calls that are being recognized, or wait for it; what more comes is left out. */
const mostUtterances = 64;
/** Within this time an utterance is recognized, or left out. */
const utteranceLimitMs = 30_000;
/** What is left to recognize at the end of a call may delay its record for this long. */
const lastWordsMs = 5000;

/** Transcripts of calls whose agent's provider gives none: both sides of the conversation, as they were heard. */
export class CallTranscripts {
  readonly #running = new Map<Call, ConversationTranscript>();
  #utterances = 0;

  constructor(private readonly options: CallTranscriptsOptions) {}

  /** The agent of this endpoint talks with the phone of `session` from now on. Ends with the call at the latest. */
  agentBegins(call: Call, session: MediaSession, endpoint: Endpoint): void {
    this.agentLeft(call);
    call.transcript.agentChanged();
    if (!this.#isWanted(endpoint)) return;
    const engine = this.options.engine();
    if (engine === null) {
      const message = `The call is not transcribed: there is no transcription engine (${howToTranscribe}).`;
      call.event('agent.warning', { code: 'transcript_unavailable', message });
      return;
    }
    engine.prepare?.();
    const transcript = new ConversationTranscript(call, session, engine, expectedOf(endpoint), this.#places);
    this.#running.set(call, transcript);
    call.beside(() => transcript.close());
    void transcript.over.then(() => {
      if (this.#running.get(call) === transcript) this.#running.delete(call);
    });
  }

  /** What was said until now is still written down. */
  agentLeft(call: Call): void {
    this.#running.get(call)?.stop();
    this.#running.delete(call);
  }

  #isWanted({ provider, target, providerConfig }: Endpoint): boolean {
    const { transcribe, protocol } = providerConfig;
    if (!(transcribe ?? this.options.isDefault)) return false;
    if (/^sips?:/i.test(target)) return true;
    const named = provider === 'custom' ? String(protocol ?? 'twilio') : (provider ?? '');
    const transcribes = agentProtocols.get(named)?.transcribes;
    return typeof transcribes === 'function' ? !transcribes(providerConfig) : transcribes !== true;
  }

  readonly #places: Places = {
    take: () => {
      if (this.#utterances >= mostUtterances) return false;
      this.#utterances += 1;
      return true;
    },
    free: () => {
      this.#utterances -= 1;
    },
  };
}

/** The limit of utterances of the process. */
interface Places {
  take(): boolean;
  free(): void;
}

class ConversationTranscript {
  /** Resolves when everything was recognized or left out. Never rejects. */
  readonly over: Promise<void>;
  readonly #over = new AbortController();
  readonly #pending = new Set<Promise<void>>();
  readonly #port: MessagePort;
  readonly #sides: Record<AudioTrack, Utterances>;
  readonly #stop: () => void;
  #isHeld: boolean;
  /** When the clock of the audio was 0, on the clock of all threads. */
  #openedMs = Number.POSITIVE_INFINITY;
  #missed = 0;

  constructor(
    private readonly call: Call,
    session: MediaSession,
    private readonly engine: TranscriptionEngine,
    private readonly expected: ExpectedSpeech,
    private readonly places: Places,
  ) {
    setMaxListeners(0, this.#over.signal); // one for each utterance
    const side = (speaker: AudioTrack) =>
      new Utterances((utterance) => {
        const recognized = this.#recognize(speaker, utterance);
        this.#pending.add(recognized);
        void recognized.then(() => this.#pending.delete(recognized));
      });
    this.#sides = { caller: side('caller'), agent: side('agent') };
    this.#isHeld = session.held !== null;
    const { port1, port2 } = new MessageChannel();
    this.#port = port2;
    const heard = call.guarded((message: TapMessage) => this.#hear(message));
    const closed = new Promise<void>((resolve) => {
      port2.on('close', resolve);
    });
    port2.on('message', heard);
    const stopEvents = session.onEvent(
      call.guarded(({ type }) => {
        if (type === 'held' || type === 'resumed') this.#isHeld = type === 'held';
      }),
    );
    const tap = session.tap(port1, { tracks: 'both', chunkMs, sampleRateHz: utteranceHz });
    this.#stop = () => void tap.stop();
    this.over = this.#finish(closed).finally(stopEvents);
  }

  stop(): void {
    this.#stop();
  }

  /** Ends it, and what is not recognized soon is left out. */
  async close(): Promise<void> {
    this.#stop();
    const limit = setTimeout(() => {
      this.#over.abort(new TranscriptionError('The call is over.'));
      this.#port.close();
    }, lastWordsMs);
    await this.over;
    clearTimeout(limit);
  }

  async #finish(closed: Promise<void>): Promise<void> {
    await closed;
    for (const side of Object.values(this.#sides)) side.flush();
    await Promise.all(this.#pending);
    if (this.#missed > 1) this.#warn(`${this.#missed} utterances are not in the transcript.`);
  }

  #hear(message: TapMessage): void {
    if (message === 'end') {
      this.#port.close();
      return;
    }
    this.#port.postMessage('taken');
    const { track, startMs, samples } = message;
    const endMs = startMs + samples.length / (utteranceHz / 1000);
    this.#openedMs = Math.min(this.#openedMs, nowMs() - endMs);
    // A caller who holds the call sends music, if anything.
    if (this.#isHeld && track === 'caller') this.#sides.caller.flush();
    else this.#sides[track].hear(samples, startMs);
  }

  /** Never rejects. */
  async #recognize(speaker: AudioTrack, { samples, startMs, durationMs }: Utterance): Promise<void> {
    const { call } = this;
    if (!call.transcript.isWrittenBy('trunkline', speaker)) return;
    if (!this.places.take()) {
      this.#leftOut(speaker, durationMs, 'Too much speech waits to be recognized.');
      return;
    }
    const beganMs = this.#openedMs + startMs;
    try {
      const audio = { samples, sampleRateHz: utteranceHz };
      const { text } = await withDeadline(
        utteranceLimitMs,
        'the answer of the transcription engine',
        this.#over.signal,
        (signal) => transcribeSamples(this.engine, audio, signal, { ...this.expected, use: 'transcript' }),
      );
      if (text === '') return;
      const startedAt = new Date(Date.now() - Math.round(nowMs() - beganMs)).toISOString();
      call.said({ speaker, text, beganMs }, { started_at: startedAt, duration_ms: Math.round(durationMs) });
    } catch (error) {
      const isKnown = error instanceof TranscriptionError || error instanceof DeadlineError;
      this.#leftOut(speaker, durationMs, isKnown ? error.message : 'The words could not be understood.');
    } finally {
      this.places.free();
    }
  }

  #leftOut(speaker: AudioTrack, durationMs: number, why: string): void {
    this.#missed += 1;
    if (this.#missed > 1) return; // the end has their number
    const seconds = (durationMs / 1000).toFixed(1);
    this.#warn(`The transcript lacks ${seconds} s of the ${speaker}: ${why.replace(/\.$/, '')}.`);
  }

  #warn(message: string): void {
    this.call.event('agent.warning', { code: 'transcript_incomplete', message });
  }
}

/** Milliseconds on the monotonic clock that all threads share. */
function nowMs(): number {
  return performance.timeOrigin + performance.now();
}

function expectedOf({ providerConfig: { language } }: Endpoint): ExpectedSpeech {
  return typeof language === 'string' && /^[a-z]{2,3}([-_][a-z]{2,4})?$/i.test(language) ? { language } : {};
}
