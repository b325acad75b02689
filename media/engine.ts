/**
 * The media engine's API for the rest of Trunkline. `media/thread` (the embedded engine) and `media/freeswitch` implement it. Every value
 * that crosses a thread is structured-cloneable.
 */
import type { MessagePort } from 'node:worker_threads';
import type {
  AgentCommand,
  AgentEnd,
  AgentEvent,
  AgentTarget,
  AudioFormat,
  AudioTrack,
  AudioTracks,
} from './agents/agent.js';
import type { EchoFigures, LateCauses, MediaDelay, StreamStats } from './stats.js';

export type PhoneCodec = 'PCMU' | 'PCMA' | 'G722' | 'OPUS';

/** SRTP towards the phone (RFC 4568): never, when the far side offers it, or required. */
export type SrtpPolicy = 'off' | 'allow' | 'require';

/** The direction attribute of an SDP stream, as seen by the side that writes the SDP. */
export type MediaDirection = 'sendrecv' | 'sendonly' | 'recvonly' | 'inactive';

/** Settings of one session. Cloneable. */
export interface MediaPolicy {
  /** In order of preference. */
  codecs: PhoneCodec[];
  /** Default `off`. */
  srtp?: SrtpPolicy;
  /** Without any RTP for this long after the first `attach` or final `accept`, the session ends with `rtp-timeout`; 0 disables the limit. */
  firstRtpTimeoutMs: number;
  /** The same limit for RTP that arrived and then stopped, except while the call is held; 0 disables it. */
  rtpTimeoutMs: number;
  /** Conceals lost packets in the audio for agents and other listeners; when absent, lost packets are silence. */
  concealLoss?: boolean;
}

export interface OpenSession {
  /** The call id. All sessions of one group run on the same thread. */
  group: string;
  /**
   * The far side's offer, when it offers first: `localSdp` is then the answer as soon as `open` resolves, and `answer` with the same offer
   * returns the same SDP. null when we offer (`offer()`), as on outbound calls and delayed offers.
   */
  offer: string | null;
  policy: MediaPolicy;
  /** The address in our SDP (`c=`). RTP sockets bind to `bindAddress`, or to this address when it is absent. */
  localAddress: string;
  bindAddress?: string;
  /** The host that sent the INVITE with the offer; behind a NAT, RTP from this host is accepted. */
  signalledFrom?: string;
  role: 'caller' | 'callee';
}

export interface MediaEngine {
  /** Rejects with `MediaError`: `incompatible_media` (488), `no_ports` (503), `engine_gone` (503). */
  open(options: OpenSession): Promise<MediaSession>;
  /** A conference for at most `seats` phones, which may be on different threads. It holds only memory and needs no close. */
  room(seats: number): MediaRoom;
  load(): EngineLoad;
  close(): Promise<void>;
}

/** A conference: each phone hears all the others, but not itself. */
export interface MediaRoom {
  /**
   * Replaces the session's owner of playout until `leave`, a `play`, `bridge` or `attach`, or the end of the session. DTMF is not passed on.
   * null when all seats are taken.
   */
  join(session: MediaSession, options: { muted: boolean }): RoomSeat | null;
  /** Plays a tone to all participants when one of them enters or leaves. */
  beep(kind: 'entered' | 'left'): void;
  /** Records all participants, mixed into one track; one recording at a time. Of the options, `path` and `maxMs` apply. */
  record(options: RoomRecordOptions): Recording;
  /** What is kept out of recordings of the room from now on, until the next call. */
  redact(what: RedactedMedia): void;
}

export interface RoomSeat {
  /** A muted phone hears the conference, but is not heard. */
  mute(muted: boolean): void;
  /** The participant is speaking, or spoke within the last half second. */
  readonly speaks: boolean;
  /** Never rejects. */
  ended: Promise<PlayEnd['by']>;
  /** Idempotent; returns `ended`. */
  leave(): Promise<PlayEnd['by']>;
}

/** Log output of the engine; a pino logger fits. */
export interface EngineLog {
  warn(fields: Record<string, unknown>, text: string): void;
  error(fields: Record<string, unknown>, text: string): void;
}

export interface EngineLoad {
  sessions: number;
  threads: { sessions: number; eventLoopLagMs: number; alive: boolean }[];
  /** How often a media thread was late by 5 ms or more, by cause, since start. */
  late: LateCauses;
  /** RTP ports in use, in quarantine and configured. */
  ports: { used: number; quarantined: number; total: number };
  /** Since start: exceptions caught in session code, threads replaced, foreign and malformed packets dropped. */
  faults: number;
  threadsReplaced: number;
  foreignPackets: number;
  malformedPackets: number;
  /** The FreeSWITCH servers; absent with the embedded engine. */
  servers?: MediaServerLoad[];
}

/** One FreeSWITCH as this process sees it. */
export interface MediaServerLoad {
  /** `host:port` of its event socket. */
  name: string;
  connected: boolean;
  /** Paused by its operator: it keeps its calls and gets no new ones. */
  drained: boolean;
  /** Why it takes no calls, in one sentence; null while it does. */
  problem: string | null;
  /** Channels of this process, two for each phone. */
  channels: number;
  version: string | null;
}

export interface MediaSession {
  /** Creates our offer. `direction` is what we want from now on; `sendonly` and `inactive` put the far side on hold. */
  offer(direction?: MediaDirection): Promise<string>;
  /** Applies the far side's answer to our offer. `signalledFrom`: the host that sent it. */
  accept(sdp: string, options: { provisional: boolean; signalledFrom?: string }): Promise<void>;
  /**
   * Answers an offer or re-offer of the far side. `signalledFrom`: the host that sent it, if it changed. Rejects with
   * `incompatible_media` and then changes nothing.
   */
  answer(offer: string, signalledFrom?: string): Promise<string>;
  /** The SDP we sent last, for session refreshes. */
  readonly localSdp: string;
  /** The far side holds the call (`a=sendonly`, `a=inactive`), perhaps since its first offer; `sends`: it plays something. null when it does not. */
  readonly held: { sends: boolean } | null;
  /** Connects an agent that does not speak yet; its audio before `attach` is queued up to a limit. Rejects with `AgentFailure`. */
  prepareAgent(target: AgentTarget, signal: AbortSignal): Promise<AgentLink>;
  /**
   * Sets the one owner of playout; null is silence. The swap is atomic. The first `attach` (also with null) marks the call as answered: from
   * then on RTP to the carrier never pauses, and the time limits of the policy apply. A final `accept` does the same.
   */
  attach(owner: AgentLink | null): void;
  /**
   * Plays audio to the phone in place of the owner of playout, which resumes when the play ends; its audio is queued meanwhile. Also works
   * before the call is answered (early media). Resolves when the last audio was sent or the play was ended: by the signal (`cancelled`; the
   * next packet is silence), by another `play`, `bridge` or `attach` (`replaced`), or by the end of the session (`closed`). Rejects with
   * `MediaError`: `bad_source`, `closed`, `engine_gone`.
   */
  play(source: AudioSource, signal: AbortSignal): Promise<PlayEnd>;
  /** What is kept out of recordings and forks from now on, until the next call. Without effect on what the agent and the phone hear. */
  redact(what: RedactedMedia): void;
  /** Starts recording into a WAV file; at most four recordings at a time. */
  record(options: RecordOptions): Recording;
  /**
   * Connects the phones of two sessions until `stop`, an `attach` or the end of one of them. The sessions may be on different media threads
   * (those of one group share a thread). The bridge replaces the owners of playout; attached agents hear nothing meanwhile.
   */
  bridge(other: MediaSession, options: BridgeOptions): Bridge;
  /**
   * Starts an agent that only listens; up to four beside the one that converses. It connects and starts like any agent, but its audio is
   * dropped and its commands have no effect. If its protocol has no separate tracks, `both` is sent mixed. A slow fork loses audio and a
   * failing fork ends alone; the call is not affected. Ends with the session at the latest. Rejects with `AgentFailure`, and with
   * `MediaError`: `too_many_forks`, `closed`, `engine_gone`.
   */
  fork(target: AgentTarget, tracks: AudioTracks, signal: AbortSignal): Promise<Fork>;
  /**
   * Sends audio to the reader at the other end of the port, on any thread. The reader receives `TapMessage`s and posts `'taken'` for each
   * chunk. The session owns the port from now on. Throws `MediaError` `bad_options`.
   */
  tap(port: MessagePort, options: TapOptions): Tap;
  /**
   * Answering machine detection on the phone's audio, for at most 30 s. With `untilMessageEnd`, a machine's verdict comes when its greeting
   * is over. With `early`, before the answer, only an operator is detected, without a time limit. The call continues meanwhile. Never rejects:
   * `call_ended` when `signal` or the end of the session came first.
   */
  detectMachine(options: { untilMessageEnd: boolean; early?: boolean }, signal: AbortSignal): Promise<MachineVerdict>;
  /**
   * Sends DTMF to the phone: digits `0-9A-D*#`; `w` is a pause of 500 ms. `event` (default) sends RFC 4733 events and rejects with
   * `no_telephone_event` when the phone did not agree to them. `tone` sends DTMF tones in place of the audio. Resolves when sent.
   */
  sendDtmf(digits: string, as?: KeyForm): Promise<void>;
  onEvent(listener: (event: MediaEvent) => void): () => void;
  /** Resolves when the session cannot continue. Never rejects. */
  lost: Promise<'rtp-timeout' | 'engine-gone'>;
  stats(): Promise<MediaStats>;
  /** Closes the session's sockets and agents; resolves with the final statistics. Idempotent, always settles. */
  close(): Promise<MediaStats>;
}

/** Mono audio in memory shared by all threads and calls: G.711 μ-law at 8 kHz, or a wide clip, linear 16 bit samples at 16 kHz. */
export type Clip = SharedArrayBuffer;

/** One segment of a tone; no frequencies means silence. */
export interface ToneSegment {
  /** Up to four at once, each under 4000 Hz. */
  frequenciesHz: number[];
  durationMs: number;
}

/** `repeat`: number of repetitions, default 1; 0 repeats without end. */
export type AudioSource =
  | { kind: 'clip'; clip: Clip; isWide?: boolean; repeat?: number }
  /** At most 60 s before it repeats. `peak`: amplitude, at most 32767; default 8000. */
  | { kind: 'tone'; segments: ToneSegment[]; repeat?: number; peak?: number }
  /**
   * Live audio: the other end of the port posts `StreamMessage`s and reads `StreamDemand`s. The session owns the port from now on and closes
   * it when the play ends. Closing the port without `end` also ends the play, after the audio that already arrived.
   */
  | { kind: 'stream'; port: MessagePort; format: AudioFormat };

/** Audio in the source's format, in whole samples. */
export type StreamMessage = Uint8Array | 'end';
/** Flow control: `pause` above 2 s in the queue, `resume` below 0.5 s. Audio beyond 10 minutes is discarded. */
export type StreamDemand = 'pause' | 'resume';

export interface PlayEnd {
  by: 'finished' | 'cancelled' | 'replaced' | 'closed';
  /** Duration that was sent to the phone. */
  playedMs: number;
}

export interface RecordOptions {
  /**
   * Absolute path of the file. A missing folder is created; the file must not exist. null: the file is in memory (`wav` of its end), and nothing
   * is redacted in it.
   */
  path: string | null;
  /** The recording stops after this long; when absent, it ends with the session. */
  maxMs?: number;
  /** `both` directions (default), or only the phone. */
  tracks?: 'both' | 'phone';
  /**
   * Stops the recording when the phone is silent from the beginning (`beforeMs`) or after its last speech (`afterMs`). The `words` event
   * reports when speech begins.
   */
  silence?: { beforeMs: number; afterMs: number };
  /** Only with `silence`: cuts the silence before the first and after the last speech; without speech the file is empty. */
  trim?: boolean;
}

/** Of a conference. */
export interface RoomRecordOptions extends Pick<RecordOptions, 'maxMs'> {
  path: string;
}

/** What is kept out of what is stored. */
export interface RedactedMedia {
  /** Recordings get silence in both directions. */
  audio: boolean;
  /** Forks get silence, and the agents of the call do not. */
  streams: boolean;
  /** Recordings get silence while a key is pressed, as RTP event or as tones, in either direction. */
  keys: boolean;
  /** `audio` may have begun this long ago, and may end this much later than is known; absent: 0. Of recordings at least the last 500 ms are in memory. */
  lateMs?: number;
}

export interface Recording {
  /** While paused, the file gets silence. */
  pause(paused: boolean): void;
  /** Resolves when the file is complete and closed, or with `error` when it could not be written. Never rejects. */
  ended: Promise<RecordingEnd>;
  /** Idempotent; returns `ended`. */
  stop(): Promise<RecordingEnd>;
}

/** 16 bit PCM at 8 kHz, or 16 kHz when the recording starts with a wideband codec; stereo (left: from the phone, right: to it) or mono. */
export interface RecordingEnd {
  by: 'stopped' | 'silence' | 'limit' | 'closed' | 'failed';
  /** With an `error`: the duration in the file. */
  durationMs: number;
  /** 0 when there is no file. */
  bytes: number;
  /** The file, of a recording in memory. */
  wav?: Uint8Array;
  /** One sentence when audio is missing. What was written before the error is a valid file; a file without audio is removed. */
  error: string | null;
}

export interface Fork {
  /** Resolves once. */
  ended: Promise<AgentEnd>;
  /** Transcripts and warnings, and also the agent's other events, which have no effect on the call. */
  onEvent(listener: (event: AgentEvent) => void): () => void;
  close(reason: string): Promise<void>;
}

export interface TapOptions {
  tracks: AudioTracks;
  /** 20–1000, a multiple of 20. */
  chunkMs: number;
  sampleRateHz: 8000 | 16000;
}

/** `'end'`: no more chunks follow, and the port is closed. */
export type TapMessage = TapChunk | 'end';

/** Audio that was lost on the network or not sent is silence. */
export interface TapChunk {
  track: AudioTrack;
  /** Time of the first sample, counted from `open`. */
  startMs: number;
  /** Linear PCM. The last chunk of a tap may be shorter. */
  samples: Int16Array;
  /** Duration dropped just before this chunk because the reader fell behind by 10 s. */
  droppedMs: number;
}

export interface Tap {
  /** Never rejects. */
  ended: Promise<TapEnd>;
  /** Idempotent; returns `ended`. */
  stop(): Promise<TapEnd>;
}

export interface TapEnd {
  /** `closed`: the session ended, or the reader closed its port. */
  by: 'stopped' | 'closed';
  droppedMs: number;
}

/** All times are milliseconds from the start of the detection. */
export interface MachineVerdict {
  result: 'human' | 'machine' | 'fax' | 'operator' | 'unknown';
  /** `sit_tone`: the three tones before an announcement of the network (ITU-T E.180). */
  reason: 'short_greeting' | 'long_greeting' | 'beep' | 'fax_tone' | 'sit_tone' | 'silence' | 'timeout' | 'call_ended';
  /** When the detector was certain. */
  decidedMs: number;
  /** Length of the greeting heard so far; null when there was none. */
  greetingMs: number | null;
  /** Only for machines whose end of message was awaited, or that beeped. */
  messageEnd: 'beep' | 'silence' | 'timeout' | null;
  messageEndMs: number | null;
  beepHz: number | null;
}

/** A key as RTP events (RFC 4733), or as tones in the audio. */
export type KeyForm = 'event' | 'tone';

export interface BridgeOptions {
  /**
   * `packets` forwards each packet as it arrives, unchanged when both sides use the same codec. `frames` goes through the playout queue,
   * which removes jitter and fills gaps and adds a few milliseconds of delay.
   */
  relay: 'packets' | 'frames';
  /**
   * `pass` forwards one phone's DTMF to the other; `block` only emits the event. Tones of a phone without telephone events become events for
   * a phone that supports them; events are not turned into tones: the listener of the event decides.
   */
  dtmf: 'pass' | 'block';
  /** This session's phone is the caller and the other is its agent: turns and barge-ins are reported as for an attached agent. */
  turns?: boolean;
}

export interface Bridge {
  /** Never rejects. */
  ended: Promise<BridgeEnd>;
  /** Idempotent; returns `ended`. */
  stop(): Promise<BridgeEnd>;
}

export interface BridgeEnd {
  by: 'stopped' | 'replaced' | 'closed';
  /** Packets or frames that were forwarded. */
  forwarded: { toThis: number; toOther: number };
}

export type MediaEvent =
  /** First RTP packet from the far side. All `atMs` are counted from `open`. */
  | { type: 'started'; atMs: number }
  /**
   * A DTMF key of the phone, once per press; `tone` only from phones that did not agree to events. `passedOn`: a bridge forwarded the key to
   * the other phone in a form it supports.
   */
  | { type: 'dtmf'; digit: string; durationMs: number; form: KeyForm; passedOn: boolean }
  /** The far side put the call on hold: the agent hears silence and its audio is not queued. `sends`: the far side plays something. */
  | { type: 'held'; sends: boolean }
  | { type: 'resumed' }
  /** The attached agent's first frame was sent to the phone; once per attach. */
  | { type: 'agentAudio'; atMs: number }
  /** The phone's first speech since a recording with `silence` began. */
  | { type: 'words' }
  /** The agent's audio was cleared: time heard and dropped, in total and per item (null: the agent names no items). */
  | {
      type: 'cleared';
      heardMs: number;
      droppedMs: number;
      items: { itemId: string | null; heardMs: number; droppedMs: number }[];
    }
  | { type: 'mark'; name: string; cleared: boolean }
  /**
   * The session moved to another media server: the far side needs our new offer (`offer`, by re-INVITE) and its answer is applied by
   * `accept`. Without that the session ends as lost within ten seconds.
   */
  | { type: 'moved' }
  /**
   * The call is answered and nothing arrived from the far side for 2.5 s: from the start, or later when it cannot be a pause (DTX) because the
   * phone had sent its silence as packets or its reports say that it still sends. Emitted again after RTP returned and stopped.
   */
  | { type: 'oneWay'; direction: 'received' }
  /**
   * One side's turn is over: the other side began, or the call ended. `responseMs`: from the end of the other side's speech to the start of
   * this turn; null for the first turn and when it began over the other's speech (`talkOver`). Only while an agent is attached.
   */
  | {
      type: 'turn';
      speaker: 'caller' | 'agent';
      /** From `open`. */
      startedMs: number;
      /** From the start of the turn until this event. */
      agoMs: number;
      durationMs: number;
      responseMs: number | null;
      talkOver: boolean;
    }
  /** The caller spoke over the agent. `silenceMs`: time until the agent was silent; null when it spoke on for 5 s. */
  | { type: 'bargeIn'; atMs: number; silenceMs: number | null }
  /** Every 5 s. */
  | { type: 'quality'; sample: MediaStats };

/** Packets to the phone that were late, by cause. */
export interface LatePackets extends LateCauses {
  /** The agent's audio came late, and was waited for. */
  agent: number;
  unknown: number;
}

export interface MediaStats {
  /** A FreeSWITCH may agree on codecs that are not ours: `GSM`. */
  codec: PhoneCodec | (string & {}) | null;
  ptimeMs: number | null;
  /** From the far side to us, measured by us. */
  received: StreamStats & {
    duplicates: number;
    reordered: number;
    late: number;
    /** Lost packets whose audio was recovered from the next Opus packet (in-band FEC). */
    recovered: number;
    foreign: number;
    malformed: number;
    ssrcChanges: number;
  };
  /** From us to the far side; loss and jitter come from its RTCP reports and are null without them. */
  sent: StreamStats;
  rttMs: number | null;
  /** Where the conversation's delay arises; null where nothing was measured. */
  delay: MediaDelay;
  /** As `delay`, of the time since the last event `quality`. */
  recentDelay: MediaDelay;
  /** Packets to the phone that were late by 19 ms or more, by cause. */
  late: LatePackets;
  /** The echo of what was sent, in the phone's audio; null when none was found. */
  echo: EchoFigures | null;
  /** Agent side. `framesDropped`: the agent did not read them in time; `underruns`: gaps within an utterance; `skippedMs`: time during which our own thread stalled. */
  agent: {
    framesSent: number;
    framesDropped: number;
    bytesReceived: number;
    underruns: number;
    skippedMs: number;
    garbage: number;
  };
}

export interface AgentLink {
  /** The caller answered: the agent may speak (`start` of its protocol). */
  start(): void;
  /** Resolves once. */
  ended: Promise<AgentEnd>;
  onEvent(listener: (event: AgentEvent) => void): () => void;
  command(command: AgentCommand): void;
  close(reason: string): Promise<void>;
}

/** An error of the media side. */
export class MediaError extends Error {
  constructor(
    readonly code:
      | 'incompatible_media'
      | 'no_ports'
      | 'engine_gone'
      | 'no_telephone_event'
      | 'bad_digits'
      | 'bad_sdp'
      | 'bad_source'
      | 'bad_options'
      | 'too_many_forks'
      | 'not_together'
      | 'busy'
      | 'closed',
    message: string,
  ) {
    super(message);
    this.name = 'MediaError';
  }
}
