import type { Recording } from '../../../../media/engine.js';
import { DeadlineError, withDeadline } from '../../../../net/deadline.js';
import { type ExpectedSpeech, type TranscriptionEngine, TranscriptionError } from '../../../transcription/engine.js';
import type { CallParty } from '../../party/party.js';

/** Longest input, including the prompts before it. */
const maxMs = 300_000;
/** During the transcription the caller hears silence. */
const recognitionLimitMs = 5000;

/** Speech input: reports when the phone begins to speak, and what it said. */
export class SpeechInput {
  /** Resolves when speech begins; may never resolve. */
  readonly begun: Promise<void>;
  /** The text; null when nothing was understood, or the input was cancelled. Resolves when the phone is silent after speech; never rejects. */
  readonly said: Promise<string | null>;
  /** Resolves with false when the phone is silent after speech, and with true when nothing more can be heard of it. */
  readonly isOver: Promise<boolean>;
  private readonly recording: Recording;
  private readonly over = new AbortController();

  constructor(
    private readonly party: CallParty,
    engine: TranscriptionEngine,
    { speechTimeoutSec, ...expected }: { speechTimeoutSec: number } & ExpectedSpeech,
  ) {
    engine.prepare?.();
    let stopListening = () => {};
    this.begun = new Promise((resolve) => {
      stopListening = party.observe((event) => {
        if (event.type === 'words') resolve();
      });
    });
    this.recording = party.session.record({
      path: null,
      maxMs,
      tracks: 'phone',
      silence: { beforeMs: maxMs, afterMs: Math.max(500, speechTimeoutSec * 1000) },
      trim: true,
    });
    this.isOver = this.recording.ended.then(({ by, error }) => by === 'closed' || error !== null);
    this.said = this.understand(engine, expected).finally(stopListening);
  }

  /** Cancels the input. */
  giveUp(): void {
    this.over.abort();
    void this.recording.stop();
  }

  private async understand(engine: TranscriptionEngine, expected: ExpectedSpeech): Promise<string | null> {
    const { over } = this;
    const { call } = this.party;
    try {
      const { durationMs, error, wav } = await this.recording.ended;
      if (over.signal.aborted) return null;
      if (error !== null) this.failed(error);
      if (error !== null || durationMs === 0 || wav === undefined) return null;
      const audio = { bytes: new Uint8Array(wav), format: 'wav' };
      // The input is also cancelled at the end of the call.
      const { text } = await withDeadline(
        recognitionLimitMs,
        'the answer of the transcription engine',
        over.signal,
        (signal) => engine.transcribe(audio, signal, { ...expected, use: 'dialogue' }),
      );
      return text === '' ? null : text;
    } catch (error) {
      if (!over.signal.aborted && call.ending === null)
        this.failed(
          error instanceof TranscriptionError || error instanceof DeadlineError
            ? error.message
            : 'The words could not be understood.',
        );
      return null;
    }
  }

  private failed(message: string): void {
    this.party.call.event('agent.warning', { code: 'transcription_failed', message });
  }
}
