/**
 * The words of the media side that the rest of Trunkline may use. `media/thread` (embedded) implements them; a FreeSWITCH engine
 * will implement the same. Everything that crosses a thread is structured-cloneable.
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

export type PhoneCodec = 'PCMU' | 'PCMA' | 'G722' | 'OPUS';

/** Whether RTP to the phone is encrypted (RFC 4568): never, where the far side can, or always. */
export type SrtpPolicy = 'off' | 'allow' | 'require';

/** As SDP says it of a stream, seen from the side that writes it. */
export type MediaDirection = 'sendrecv' | 'sendonly' | 'recvonly' | 'inactive';

/** What a session may do. Cloneable. */
export interface MediaPolicy {
  /** In order of preference. */
  codecs: PhoneCodec[];
  /** Default `off`. */
  srtp?: SrtpPolicy;
  /** No RTP at all for this long after the first `attach` or final `accept` ends the session with `rtp-timeout`; 0 = never. */
  firstRtpTimeoutMs: number;
  /** RTP that was there and stopped (not while held); 0 = never. */
  rtpTimeoutMs: number;
  /** What the phone's packets that were lost would have said is made up for agents and other listeners; absent: they are silence. */
  concealLoss?: boolean;
}

export interface OpenSession {
  /** The call id: all sessions of a group live on one thread. */
  group: string;
  /**
   * The far side's offer when it offers first: `localSdp` is the answer as soon as `open` resolves, and `answer` with the same offer gives
   * the same. null when we offer (`offer()`), as on outbound calls and delayed offers.
   */
  offer: string | null;
  policy: MediaPolicy;
  /** The address that goes into our SDP (`c=`); RTP sockets bind to `bindAddress`, or to this. */
  localAddress: string;
  bindAddress?: string;
  /** The host that sent the INVITE with the offer: whose RTP counts behind a NAT. */
  signalledFrom?: string;
  role: 'caller' | 'callee';
}

export interface MediaEngine {
  /** Rejects with `MediaError`: `incompatible_media` (488), `no_ports` (503), `engine_gone` (503). */
  open(options: OpenSession): Promise<MediaSession>;
  /** A conference for so many phones at most, on whichever threads. It holds nothing but memory: dropping it is enough. */
  room(seats: number): MediaRoom;
  load(): EngineLoad;
  close(): Promise<void>;
}

/** Phones that all hear each other, and none itself. */
export interface MediaRoom {
  /**
   * Takes the place of the owner of playout of this session, until `leave`, a `play`, `bridge` or `attach`, or its end. Keys do not pass on.
   * null: all seats are taken.
   */
  join(session: MediaSession, options: { muted: boolean }): RoomSeat | null;
  /** All hear that somebody came, or left. */
  beep(kind: 'entered' | 'left'): void;
  /** All of them in one track, from now on; one at a time. `path` and `maxMs` of the options count. */
  record(options: Pick<RecordOptions, 'path' | 'maxMs'>): Recording;
}

export interface RoomSeat {
  /** A muted phone hears, and is not heard. */
  mute(muted: boolean): void;
  /** It says something now, or has within half a second. */
  readonly speaks: boolean;
  /** Never rejects. */
  ended: Promise<PlayEnd['by']>;
  /** Idempotent; the same as `ended`. */
  leave(): Promise<PlayEnd['by']>;
}

/** Where the engine tells what an operator should know; a pino logger fits. */
export interface EngineLog {
  warn(fields: Record<string, unknown>, text: string): void;
  error(fields: Record<string, unknown>, text: string): void;
}

export interface EngineLoad {
  sessions: number;
  threads: { sessions: number; eventLoopLagMs: number; alive: boolean }[];
  /** RTP ports in use and in quarantine, of those configured. */
  ports: { used: number; quarantined: number; total: number };
  /** Since start: exceptions caught by `guard`, threads replaced, garbage and foreign packets dropped. */
  faults: number;
  threadsReplaced: number;
  foreignPackets: number;
  malformedPackets: number;
}

export interface MediaSession {
  /** Our offer. `direction`: what we want from now on, if the far side agrees; `sendonly` and `inactive` put it on hold. */
  offer(direction?: MediaDirection): Promise<string>;
  /** The far side's answer to our offer. `signalledFrom`: the host that sent it. */
  accept(sdp: string, options: { provisional: boolean; signalledFrom?: string }): Promise<void>;
  /**
   * Our answer to the far side's offer, the first one and every re-offer; `signalledFrom`: the host that sent it, if another one than before.
   * Rejects `incompatible_media` and then changes nothing.
   */
  answer(offer: string, signalledFrom?: string): Promise<string>;
  /** The SDP we last sent, for refreshes. */
  readonly localSdp: string;
  /** Connected and ready for audio, but silent; what the agent sends before `attach` is kept, bounded. Rejects with `AgentFailure`. */
  prepareAgent(target: AgentTarget, signal: AbortSignal): Promise<AgentLink>;
  /**
   * Exactly one owner of playout; null is silence. The swap is atomic. The first `attach` (null too) tells the session that the call is
   * answered: from then on RTP to the carrier runs all the time, and the limits of the policy count. A final `accept` does the same.
   */
  attach(owner: AgentLink | null): void;
  /**
   * Plays to the phone, in the place of the owner of playout, which has its place again when the play ends; what it says meanwhile waits.
   * Also before the call is answered (early media). Resolves when the last of it was sent or something ended it: the signal (cancelled at
   * once, the very next packet is silence), another `play`, `bridge` or `attach` (replaced), or the end of the session (closed). Rejects
   * with `MediaError`: `bad_source`, `closed`, `engine_gone`.
   */
  play(source: AudioSource, signal: AbortSignal): Promise<PlayEnd>;
  /** Records into a WAV file from now on; four at a time at most. */
  record(options: RecordOptions): Recording;
  /**
   * Joins the phones of two sessions, on one media thread or two (those of one group are on one), until `stop`, an `attach` or the end of one of them. Takes the place of the owners of
   * playout; agents that were attached hear nothing meanwhile.
   */
  bridge(other: MediaSession, options: BridgeOptions): Bridge;
  /**
   * An agent that only listens, from now on: up to four beside the one that converses. It is connected and started as any agent; what it says
   * is dropped, what it asks for changes nothing. Where its protocol does not tell tracks apart, `both` comes to it mixed. A fork that is slow
   * loses audio, one that breaks ends alone; the call notices neither. Ends with the session at the latest. Rejects with `AgentFailure`, and
   * with `MediaError`: `too_many_forks`, `closed`, `engine_gone`.
   */
  fork(target: AgentTarget, tracks: AudioTracks, signal: AbortSignal): Promise<Fork>;
  /**
   * Hands audio to whoever has the other end of the port, on any thread: it reads `TapMessage`s, and posts `'taken'` for each chunk. The port
   * belongs to the session from now on. Throws `MediaError` `bad_options`.
   */
  tap(port: MessagePort, options: TapOptions): Tap;
  /**
   * Whether a person or a machine has answered, by what is heard of the phone from now on; at most 30 s. `untilMessageEnd`: of a machine it is
   * told when its greeting is over. Nothing waits for it. Never rejects: `call_ended` when `signal` or the session was faster.
   */
  detectMachine(options: { untilMessageEnd: boolean }, signal: AbortSignal): Promise<MachineVerdict>;
  /**
   * DTMF to the phone; digits `0-9A-D*#`, `w` is a pause of 500 ms. `event`, the default: as RFC 4733 events, rejects `no_telephone_event`
   * when the phone agreed to none. `tone`: as the tones themselves, in the place of audio. Resolves when sent.
   */
  sendDtmf(digits: string, as?: KeyForm): Promise<void>;
  onEvent(listener: (event: MediaEvent) => void): () => void;
  /** Resolves when the session cannot go on. Never rejects. */
  lost: Promise<'rtp-timeout' | 'engine-gone'>;
  stats(): Promise<MediaStats>;
  /** Closes sockets and agents of the session; resolves with the last statistics. Idempotent, always settles. */
  close(): Promise<MediaStats>;
}

/** G.711 μ-law, 8 kHz, mono, in memory that all threads and calls share. `clipFromWav` of `media/audio/clip.ts` makes one. */
export type Clip = SharedArrayBuffer;

/** One part of a tone; no frequencies: silence. */
export interface ToneSegment {
  /** Up to four at once, under 4000 Hz. */
  frequenciesHz: number[];
  durationMs: number;
}

/** `repeat`: how many times, 1 when absent; 0 is without end. */
export type AudioSource =
  | { kind: 'clip'; clip: Clip; repeat?: number }
  /** At most 60 s before it repeats. `peak`: of a full 32767; 8000 when absent. */
  | { kind: 'tone'; segments: ToneSegment[]; repeat?: number; peak?: number }
  /**
   * Audio as it comes: the other end of the port posts `StreamMessage`s and reads `StreamDemand`s. The port belongs to the session from now
   * on and is closed when the play ends. A port that is closed without `end` ends the play too, after what came.
   */
  | { kind: 'stream'; port: MessagePort; format: AudioFormat };

/** Audio in the format of the source, whole samples. */
export type StreamMessage = Uint8Array | 'end';
/** Water marks: `pause` above 2 s in the queue, `resume` below 0.5 s. More than 10 minutes is discarded. */
export type StreamDemand = 'pause' | 'resume';

export interface PlayEnd {
  by: 'finished' | 'cancelled' | 'replaced' | 'closed';
  /** How much of it was sent to the phone. */
  playedMs: number;
}

export interface RecordOptions {
  /** Absolute path of the file; its folder is made when it is missing. The file must not exist. */
  path: string;
  /** Ends by itself after so long; absent: with the session. */
  maxMs?: number;
  /** `both` directions, when absent; or the phone alone. */
  tracks?: 'both' | 'phone';
  /**
   * Ends by itself when the phone says nothing from the beginning (`beforeMs`), or no more (`afterMs`). The event `words` tells when its
   * first words begin.
   */
  silence?: { beforeMs: number; afterMs: number };
  /** Only with `silence`: what lies before the first words and behind the last is left out; without words the file is empty. */
  trim?: boolean;
}

export interface Recording {
  /** What passes while it is paused is silence in the file. */
  pause(paused: boolean): void;
  /** Resolves when the file is complete and closed, and with `error` when the disk refused. Never rejects. */
  ended: Promise<RecordingEnd>;
  /** Idempotent; the same as `ended`. */
  stop(): Promise<RecordingEnd>;
}

/** 16 bit PCM, 8 kHz, or 16 kHz when it begins with a wideband codec; stereo with the phone left and what it hears right, or mono. */
export interface RecordingEnd {
  by: 'stopped' | 'silence' | 'limit' | 'closed' | 'failed';
  /** With an `error`: what the file has. */
  durationMs: number;
  /** 0: there is no file. */
  bytes: number;
  /** One sentence when audio is missing; what was written until then is a valid file, and none is left without any audio. */
  error: string | null;
}

export interface Fork {
  /** Resolves once. */
  ended: Promise<AgentEnd>;
  /** Transcripts and warnings; the rest of what it asks for is told too, and up to the listener. */
  onEvent(listener: (event: AgentEvent) => void): () => void;
  close(reason: string): Promise<void>;
}

export interface TapOptions {
  tracks: AudioTracks;
  /** 20–1000, a multiple of 20. */
  chunkMs: number;
  sampleRateHz: 8000 | 16000;
}

/** `'end'`: nothing more comes, and the port is closed. */
export type TapMessage = TapChunk | 'end';

/** What was lost on the way, or not sent, is silence in it. */
export interface TapChunk {
  track: AudioTrack;
  /** Of the first sample, from `open`. */
  startMs: number;
  /** Linear. The last chunk of a tap may be shorter. */
  samples: Int16Array;
  /** Left out just before this chunk, because too much waited to be taken (10 s). */
  droppedMs: number;
}

export interface Tap {
  /** Never rejects. */
  ended: Promise<TapEnd>;
  /** Idempotent; the same as `ended`. */
  stop(): Promise<TapEnd>;
}

export interface TapEnd {
  /** `closed`: with the session, or the reader closed its port. */
  by: 'stopped' | 'closed';
  droppedMs: number;
}

/** All times are milliseconds from the question. */
export interface MachineVerdict {
  result: 'human' | 'machine' | 'fax' | 'unknown';
  reason: 'short_greeting' | 'long_greeting' | 'beep' | 'fax_tone' | 'silence' | 'timeout' | 'call_ended';
  /** When person or machine was certain. */
  decidedMs: number;
  /** How long the greeting was, as far as it was heard by then; null: nothing was said. */
  greetingMs: number | null;
  /** Only of machines whose end was waited for, or that beeped. */
  messageEnd: 'beep' | 'silence' | 'timeout' | null;
  messageEndMs: number | null;
  beepHz: number | null;
}

/** A key as RTP events (RFC 4733), or as tones in the audio. */
export type KeyForm = 'event' | 'tone';

export interface BridgeOptions {
  /**
   * `packets`: each packet goes on as it comes, untouched where both sides have the same codec. `frames`: through the playout queue, which
   * takes out jitter and fills gaps, for a few milliseconds more.
   */
  relay: 'packets' | 'frames';
  /**
   * Keys of one phone: to the other, or told as events only. Tones of a phone without events become events for a phone that has them; the
   * other way round they are not passed on: the listener of the event decides.
   */
  dtmf: 'pass' | 'block';
  /** This session's phone is the caller and the other one its agent: turns and barge-ins are told as for an agent that is attached. */
  turns?: boolean;
}

export interface Bridge {
  /** Never rejects. */
  ended: Promise<BridgeEnd>;
  /** Idempotent; the same as `ended`. */
  stop(): Promise<BridgeEnd>;
}

export interface BridgeEnd {
  by: 'stopped' | 'replaced' | 'closed';
  /** Packets that went on, or frames. */
  forwarded: { toThis: number; toOther: number };
}

export type MediaEvent =
  /** First RTP packet of the far side. All `atMs` are counted from `open`. */
  | { type: 'started'; atMs: number }
  /**
   * A key of the phone, once per press; `tone` only from phones that agreed to no events. `passedOn`: a bridge has told the other phone, in
   * a form that it takes.
   */
  | { type: 'dtmf'; digit: string; durationMs: number; form: KeyForm; passedOn: boolean }
  /** The far side does not listen: the agent hears silence, and what it says meanwhile is not kept for later. `sends`: it plays something. */
  | { type: 'held'; sends: boolean }
  | { type: 'resumed' }
  /** The first frame of the attached agent was sent to the phone; once per attach. */
  | { type: 'agentAudio'; atMs: number }
  /** The phone says its first words since a recording with `silence` began. */
  | { type: 'words' }
  /** The agent's audio was cleared: heard of what was playing, dropped of all, and both of each item (null: the agent names none). */
  | {
      type: 'cleared';
      heardMs: number;
      droppedMs: number;
      items: { itemId: string | null; heardMs: number; droppedMs: number }[];
    }
  | { type: 'mark'; name: string; cleared: boolean }
  /**
   * The call is answered and for 2.5 s nothing came from the far side: at first, or later when it cannot be a pause (DTX), because the phone
   * sent its silence as packets before, or reports that it goes on sending. Again after RTP came back and stopped.
   */
  | { type: 'oneWay'; direction: 'received' }
  /**
   * One side said something and the other began, or the call ended. `responseMs`: from the end of the other's words to the first of these;
   * null for the first turn, and when it began over the other's words (`talkOver`). Only while an agent is attached.
   */
  | {
      type: 'turn';
      speaker: 'caller' | 'agent';
      /** From `open`. */
      startedMs: number;
      /** From its beginning until this event. */
      agoMs: number;
      durationMs: number;
      responseMs: number | null;
      talkOver: boolean;
    }
  /** The caller spoke over the agent. `silenceMs`: until the agent was silent; null when it talked on for 5 s. */
  | { type: 'bargeIn'; atMs: number; silenceMs: number | null }
  /** Every 5 s. */
  | { type: 'quality'; sample: MediaStats };

/** Statistics of one direction (RFC 3550). Absent figures are null: never a made-up zero. */
export interface StreamStats {
  packets: number;
  bytes: number;
  /** Percent, 0–100. null when no packet was expected. */
  lossPercent: number | null;
  lost: number | null;
  /** The last value, which forgets what was before (RFC 3550 A.8). */
  jitterMs: number | null;
  /** Of the whole call: the mean of the differences in transit time, and the largest value of `jitterMs`; of the reports, where they tell it. */
  jitterMeanMs: number | null;
  jitterMaxMs: number | null;
  /** E-model of `quality.ts`, 1–4.5; null under 100 packets of audio. */
  mos: number | null;
}

export interface MediaStats {
  codec: PhoneCodec | null;
  ptimeMs: number | null;
  /** From the far side to us; measured by us. */
  received: StreamStats & {
    duplicates: number;
    reordered: number;
    late: number;
    /** Lost, but heard: the next packet of Opus had a copy. */
    recovered: number;
    foreign: number;
    malformed: number;
    ssrcChanges: number;
  };
  /** From us to the far side; loss and jitter as its RTCP reports say, else null. */
  sent: StreamStats;
  rttMs: number | null;
  /** Agent side. `underruns`: holes within a sentence; `skippedMs`: our own thread stood still. */
  agent: { framesSent: number; bytesReceived: number; underruns: number; skippedMs: number; garbage: number };
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
