/** An agent that only listens: its socket, and the conversion of each track to its audio format. */
import type { AgentEnd, AgentEvent, AgentTarget, AudioTrack, AudioTracks } from '../../agents/agent.js';
import type { AgentSocket } from '../../agents/connection/agent-socket.js';
import { phoneToAgent, type Transcode } from '../../audio/codec/transcode.js';
import { Mixer } from '../../audio/dsp/mixer.js';
import { sampleFormatOf } from '../../audio/sample-format.js';
import type { PhoneCodec } from '../../engine.js';
import type { OpenAgent } from '../session/session-agent.js';
import type { Listener } from './listener-streams.js';

export interface ForkHooks {
  /** An exception in our own code; the fork is ended. */
  fault(error: unknown): void;
  event(event: AgentEvent): void;
  /** The fork gets silence at this moment. */
  redacted(): boolean;
  /** Called once. */
  ended(end: AgentEnd): void;
}

const nothingHeard = { heardMs: 0, droppedMs: 0 };

export class AgentFork implements Listener {
  private readonly socket: AgentSocket;
  private readonly connecting = new AbortController();
  private readonly encode: Partial<Record<AudioTrack, Transcode>> = {};
  private readonly mixer: Mixer | null;
  private codec: PhoneCodec;
  private startedMs: number | null = null;
  private endTold = false;

  /** Starts connecting. Throws `AgentFailure` when no socket could be opened. */
  constructor(
    target: AgentTarget,
    readonly tracks: AudioTracks,
    codec: PhoneCodec,
    private readonly hooks: ForkHooks,
    open: OpenAgent,
  ) {
    this.codec = codec;
    this.socket = open(
      { ...target, tracks, firstAudioTimeoutMs: 0, phoneEncoding: sampleFormatOf[codec].encoding },
      {
        audio: () => {},
        clear: () => nothingHeard,
        silence: () => nothingHeard,
        // A fork's audio is never played, so its marks are reached at once.
        mark: (name) => this.socket.markReached(name, true),
        event: (event) => hooks.event(event),
        guard: (fn) => this.guard(fn),
      },
      this.connecting.signal,
    );
    const mixes = tracks === 'both' && !this.socket.separateTracks;
    this.mixer = mixes ? new Mixer((frame, atMs) => this.send('caller', frame, atMs)) : null;
    this.socket.ended.then((end) => this.tellEnd(end));
  }

  /** Rejects with `AgentFailure`. */
  get ready(): Promise<void> {
    return this.socket.ready;
  }

  /** `atMs` on the session's clock. */
  start(atMs: number): void {
    this.startedMs = atMs;
    this.guard(() => this.socket.start());
  }

  abort(): void {
    this.connecting.abort();
  }

  hear(track: AudioTrack, frame: Uint8Array, codec: PhoneCodec, atMs: number): void {
    if (this.startedMs === null) return;
    try {
      if (codec !== this.codec) {
        this.codec = codec;
        delete this.encode.caller;
        delete this.encode.agent;
      }
      const heard = this.hooks.redacted() ? new Uint8Array(frame.length).fill(sampleFormatOf[codec].silence) : frame;
      const sinceStartMs = Math.max(0, atMs - this.startedMs);
      if (this.mixer) this.mixer.push(track, heard, codec, sinceStartMs);
      else this.send(track, heard, sinceStartMs);
    } catch (error) {
      this.fail(error);
    }
  }

  async close(reason: string): Promise<void> {
    try {
      await this.socket.close(reason);
    } catch (error) {
      this.hooks.fault(error);
    }
  }

  private send(track: AudioTrack, frame: Uint8Array, atMs: number): void {
    this.encode[track] ??= phoneToAgent(this.codec, this.socket.format);
    const encoded = this.encode[track](frame);
    if (encoded.length > 0) this.socket.audio(encoded, atMs, track);
  }

  private guard(fn: () => void): void {
    try {
      fn();
    } catch (error) {
      this.fail(error);
    }
  }

  private fail(error: unknown): void {
    this.hooks.fault(error);
    this.tellEnd({ by: 'failed', detail: 'An internal error ended the connection to the fork.' });
    void this.close('error');
  }

  private tellEnd(end: AgentEnd): void {
    if (this.endTold) return;
    this.endTold = true;
    this.hooks.ended(end);
  }
}
