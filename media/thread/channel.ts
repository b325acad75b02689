/** The messages between the main thread and a media thread, and the matching of answers to questions. */

import type { MessagePort, TransferListItem } from 'node:worker_threads';
import {
  type AgentCommand,
  type AgentEnd,
  type AgentEvent,
  AgentFailure,
  type AgentTarget,
  type AudioTracks,
} from '../agents/agent.js';
import {
  type AudioSource,
  type BridgeEnd,
  type BridgeOptions,
  type KeyForm,
  type MachineVerdict,
  type MediaDirection,
  MediaError,
  type MediaEvent,
  type MediaStats,
  type OpenSession,
  type PlayEnd,
  type RecordingEnd,
  type RecordOptions,
  type RedactedMedia,
  type TapEnd,
  type TapOptions,
} from '../engine.js';
import type { LateSender } from '../rtp/source.js';
import type { LateCauses } from '../stats.js';

/** Requests to a media thread, each answered once. */
export interface ThreadRequests {
  /** `port_taken`: another process has the port pair; nothing was opened. */
  open: {
    in: { session: number; rtpPort: number; lateSender?: LateSender; options: OpenSession };
    out: { localSdp: string } | 'port_taken';
  };
  offer: { in: { session: number; direction?: MediaDirection }; out: string };
  accept: { in: { session: number; sdp: string; provisional: boolean; signalledFrom?: string }; out: null };
  answer: { in: { session: number; offer: string; signalledFrom?: string }; out: string };
  prepareAgent: { in: { session: number; agent: number; target: AgentTarget }; out: null };
  /** Forks and agents share one number range, and with it their notices and orders. */
  fork: { in: { session: number; agent: number; target: AgentTarget; tracks: AudioTracks }; out: null };
  closeAgent: { in: { session: number; agent: number; reason: string }; out: null };
  sendDtmf: { in: { session: number; digits: string; form: KeyForm }; out: null };
  /** An activity's question is answered when the activity is over; `endActivity` ends it. */
  play: { in: { session: number; activity: number; source: AudioSource }; out: PlayEnd };
  record: { in: { session: number; activity: number; options: RecordOptions }; out: RecordingEnd };
  detectMachine: {
    in: { session: number; activity: number; untilMessageEnd: boolean; early: boolean };
    out: MachineVerdict;
  };
  bridge: { in: { session: number; activity: number; other: number; options: BridgeOptions }; out: BridgeEnd };
  /** One side of a bridge; the other side is behind the port. */
  bridgeAcross: {
    in: { session: number; activity: number; port: MessagePort; options: BridgeOptions };
    out: BridgeEnd;
  };
  /** Connects a session to a seat of a conference, whose memory is shared. */
  confer: { in: { session: number; activity: number; room: SharedArrayBuffer; seat: number }; out: PlayEnd['by'] };
  /** Belongs to no session; the room's memory tells the recording when to end. */
  recordRoom: { in: { room: SharedArrayBuffer; options: RecordOptions }; out: RecordingEnd };
  tap: { in: { session: number; activity: number; port: MessagePort; options: TapOptions }; out: TapEnd };
  stats: { in: { session: number }; out: MediaStats };
  close: { in: { session: number }; out: MediaStats };
}
export type ThreadRequestName = keyof ThreadRequests;

/** A message to a media thread that needs no answer. */
export type Order =
  | { kind: 'attach'; session: number; agent: number | null }
  | { kind: 'startAgent'; session: number; agent: number }
  | { kind: 'abortAgent'; session: number; agent: number }
  | { kind: 'commandAgent'; session: number; agent: number; command: AgentCommand }
  | { kind: 'endActivity'; session: number; activity: number }
  | { kind: 'redact'; session: number; what: RedactedMedia }
  | { kind: 'pauseRecording'; session: number; activity: number; paused: boolean }
  /** The port to the disk thread; a later one replaces the first. */
  | { kind: 'disk'; port: MessagePort }
  | { kind: 'shutdown' };

/** A message from a media thread that answers no question. */
export type Notice =
  | { kind: 'ready' }
  | ({ kind: 'event' } & SessionEvent)
  /** Events of any sessions, in order. */
  | { kind: 'events'; events: SessionEvent[] }
  | { kind: 'lost'; session: number; why: 'rtp-timeout' | 'engine-gone' }
  | { kind: 'agentEvent'; session: number; agent: number; event: AgentEvent }
  | { kind: 'agentEnded'; session: number; agent: number; end: AgentEnd }
  | { kind: 'portFree'; rtpPort: number; lateSender: LateSender | null }
  /** An exception in our own code, for the log. */
  | { kind: 'fault'; session: number; place: string; text: string }
  /** Sent every second; also the sign of life. Counts are since the start of the thread. */
  | { kind: 'load'; load: ThreadLoad };

export interface SessionEvent {
  session: number;
  event: MediaEvent;
}

export interface ThreadLoad {
  sessions: number;
  eventLoopLagMs: number;
  late: LateCauses;
  faults: number;
  foreignPackets: number;
  malformedPackets: number;
}

export type ToThread = { kind: 'question'; id: number; name: ThreadRequestName; in: unknown } | Order;
export type FromThread = Answer | Notice;
type Answer = { kind: 'answer'; id: number; out: unknown } | { kind: 'refusal'; id: number; error: WireError };

/** Errors lose their class when they cross threads. */
type WireError =
  | { type: 'media'; code: MediaError['code']; message: string }
  | { type: 'agent'; reason: AgentFailure['reason']; message: string; retryable: boolean }
  | { type: 'fault'; message: string };

function toWire(error: unknown): WireError {
  if (error instanceof MediaError) return { type: 'media', code: error.code, message: error.message };
  if (error instanceof AgentFailure) {
    return { type: 'agent', reason: error.reason, message: error.message, retryable: error.retryable };
  }
  return { type: 'fault', message: error instanceof Error ? error.message : String(error) };
}

function fromWire(error: WireError): Error {
  if (error.type === 'media') return new MediaError(error.code, error.message);
  if (error.type === 'agent') return new AgentFailure(error.reason, error.message, error.retryable);
  return new MediaError('engine_gone', `The media thread failed: ${error.message}`);
}

/** The asking side: every question settles, by its answer, its time limit or the end of the thread. */
export class ThreadClient {
  private nextId = 1;
  private readonly open = new Map<number, { resolve(out: unknown): void; reject(error: Error): void }>();
  private gone: Error | null = null;

  constructor(private readonly post: (message: ToThread, transfer: readonly TransferListItem[]) => void) {}

  /** `limitMs` null: no time limit, for activities; the question still settles when the thread ends. */
  ask<N extends ThreadRequestName>(
    name: N,
    question: ThreadRequests[N]['in'],
    limitMs: number | null,
    transfer: readonly TransferListItem[] = [],
  ): Promise<ThreadRequests[N]['out']> {
    if (this.gone) return Promise.reject(this.gone);
    const id = this.nextId++;
    return new Promise((resolve, reject) => {
      const end = () => {
        if (timer) clearTimeout(timer);
        this.open.delete(id);
      };
      const giveUp = () => {
        end();
        reject(new MediaError('engine_gone', `The media thread did not answer "${name}" within ${limitMs} ms.`));
      };
      const timer = limitMs === null ? null : setTimeout(giveUp, limitMs);
      this.open.set(id, {
        resolve: (out) => {
          end();
          resolve(out as ThreadRequests[N]['out']);
        },
        reject: (error) => {
          end();
          reject(error);
        },
      });
      this.post({ kind: 'question', id, name, in: question }, transfer);
    });
  }

  settle(answer: Answer): void {
    const waiting = this.open.get(answer.id);
    if (answer.kind === 'answer') waiting?.resolve(answer.out);
    else waiting?.reject(fromWire(answer.error));
  }

  /** The thread is gone: rejects all open and all later questions. */
  fail(error: Error): void {
    this.gone = error;
    for (const waiting of [...this.open.values()]) waiting.reject(error);
  }
}

export type Handlers = {
  [N in ThreadRequestName]: (question: ThreadRequests[N]['in']) => Promise<ThreadRequests[N]['out']>;
};

/** The answering side. */
export function serveRequests(handlers: Handlers, post: (message: FromThread) => void) {
  return (message: { id: number; name: ThreadRequestName; in: unknown }): void => {
    const handle = handlers[message.name] as (question: unknown) => Promise<unknown>;
    handle(message.in).then(
      (out) => post({ kind: 'answer', id: message.id, out }),
      (error: unknown) => post({ kind: 'refusal', id: message.id, error: toWire(error) }),
    );
  };
}
