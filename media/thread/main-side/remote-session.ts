/** A session as seen by the main thread: sends questions and orders to its thread; its promises settle even if the thread dies. */
import { MessageChannel, type MessagePort, type TransferListItem } from 'node:worker_threads';
import { AgentFailure, type AgentTarget, type AudioTracks } from '../../agents/agent.js';
import {
  type AgentLink,
  type AudioSource,
  type Bridge,
  type BridgeEnd,
  type BridgeOptions,
  type Fork,
  type KeyForm,
  type MachineVerdict,
  type MediaDirection,
  MediaError,
  type MediaEvent,
  type MediaSession,
  type MediaStats,
  type PlayEnd,
  type Recording,
  type RecordingEnd,
  type RecordOptions,
  type RedactedMedia,
  type Tap,
  type TapOptions,
} from '../../engine.js';
import type { Notice, ThreadRequestName, ThreadRequests } from '../channel.js';
import { unknownStats } from '../session/session-stats.js';
import { Listeners, RemoteAgent } from './remote-agent.js';
import type { MediaWorker } from './worker.js';

const answerLimitMs = 5000;
/** Longer than the agents' own time limit for closing. */
const closeLimitMs = 10_000;
const perDigitLimitMs = 1000;

/** The thread or the session ended before there was a verdict. */
const unknownVerdict: MachineVerdict = {
  ...{ result: 'unknown', reason: 'call_ended', decidedMs: 0, greetingMs: null },
  ...{ messageEnd: null, messageEndMs: null, beepHz: null },
};

export class RemoteSession implements MediaSession {
  localSdp = '';
  held: MediaSession['held'] = null;
  readonly lost: Promise<'rtp-timeout' | 'engine-gone'>;
  private tellLost!: (why: 'rtp-timeout' | 'engine-gone') => void;
  private readonly events: Listeners<MediaEvent>;
  private readonly agents = new Map<number, RemoteAgent>();
  private nextAgent = 1;
  private nextActivity = 1;
  private lastStats: MediaStats = unknownStats();
  private closing: Promise<MediaStats> | null = null;

  constructor(
    readonly id: number,
    readonly worker: MediaWorker,
    /** Called before the thread is asked to close, while `alive` tells whether it can drain the port; the result is called afterwards. */
    private readonly onClose: () => () => void,
    /** Makes sure that the thread has a port to the disk thread. */
    private readonly connectDisk: () => void,
    /** Receives exceptions of listeners. */
    readonly fault: (error: unknown) => void,
  ) {
    this.events = new Listeners(fault);
    this.lost = new Promise((resolve) => {
      this.tellLost = resolve;
    });
  }

  async offer(direction?: MediaDirection): Promise<string> {
    this.localSdp = await this.ask('offer', { session: this.id, ...(direction && { direction }) });
    return this.localSdp;
  }

  async accept(sdp: string, options: { provisional: boolean; signalledFrom?: string }): Promise<void> {
    await this.ask('accept', { session: this.id, sdp, ...options });
  }

  async answer(offer: string, signalledFrom?: string): Promise<string> {
    this.localSdp = await this.ask('answer', { session: this.id, offer, ...(signalledFrom && { signalledFrom }) });
    return this.localSdp;
  }

  prepareAgent(target: AgentTarget, signal: AbortSignal): Promise<AgentLink> {
    return this.openAgent('prepareAgent', { target }, signal);
  }

  fork(target: AgentTarget, tracks: AudioTracks, signal: AbortSignal): Promise<Fork> {
    return this.openAgent('fork', { target, tracks }, signal);
  }

  tap(port: MessagePort, options: TapOptions): Tap {
    const { chunkMs } = options;
    if (!(chunkMs >= 20 && chunkMs <= 1000 && chunkMs % 20 === 0))
      throw new MediaError('bad_options', 'A chunk of a tap has 20 to 1000 ms, in steps of 20.');
    const activity = this.nextActivity++;
    const ended = this.ask('tap', { session: this.id, activity, port, options }, null, [port]).catch(() => {
      port.close();
      return { by: 'closed' as const, droppedMs: 0 };
    });
    return { ended, stop: () => this.stopActivity(activity, ended) };
  }

  attach(owner: AgentLink | null): void {
    const agent = owner instanceof RemoteAgent && owner.session === this ? owner.id : null;
    this.worker.post({ kind: 'attach', session: this.id, agent });
  }

  async play(source: AudioSource, signal: AbortSignal): Promise<PlayEnd> {
    if (signal.aborted) {
      if (source.kind === 'stream') source.port.close();
      return { by: 'cancelled', playedMs: 0 };
    }
    const activity = this.nextActivity++;
    const cancel = () => this.endActivity(activity);
    signal.addEventListener('abort', cancel, { once: true });
    try {
      const transfer = source.kind === 'stream' ? [source.port] : [];
      return await this.ask('play', { session: this.id, activity, source }, null, transfer);
    } finally {
      signal.removeEventListener('abort', cancel);
    }
  }

  record(options: RecordOptions): Recording {
    this.connectDisk();
    const activity = this.nextActivity++;
    const ended = this.ask('record', { session: this.id, activity, options }, null).catch(failedRecording);
    return {
      ended,
      pause: (paused) => this.worker.post({ kind: 'pauseRecording', session: this.id, activity, paused }),
      stop: () => this.stopActivity(activity, ended),
    };
  }

  redact(what: RedactedMedia): void {
    this.worker.post({ kind: 'redact', session: this.id, what });
  }

  bridge(other: MediaSession, options: BridgeOptions): Bridge {
    if (!(other instanceof RemoteSession) || other === this) {
      throw new MediaError('not_together', 'A session can be bridged to another one of this engine only.');
    }
    const activity = this.nextActivity++;
    const ended =
      other.worker === this.worker
        ? this.ask('bridge', { session: this.id, activity, other: other.id, options }, null).catch(bridgeClosed)
        : this.bridgeAcross(activity, other, options);
    return { ended, stop: () => this.stopActivity(activity, ended) };
  }

  confer(room: SharedArrayBuffer, seat: number): { ended: Promise<PlayEnd['by']>; stop(): Promise<PlayEnd['by']> } {
    const activity = this.nextActivity++;
    const ended = this.ask('confer', { session: this.id, activity, room, seat }, null).catch(() => 'closed' as const);
    return { ended, stop: () => this.stopActivity(activity, ended) };
  }

  async detectMachine(
    options: { untilMessageEnd: boolean; early?: boolean },
    signal: AbortSignal,
  ): Promise<MachineVerdict> {
    if (signal.aborted) return unknownVerdict;
    const activity = this.nextActivity++;
    const stop = () => this.endActivity(activity);
    signal.addEventListener('abort', stop, { once: true });
    try {
      const { untilMessageEnd, early = false } = options;
      return await this.ask('detectMachine', { session: this.id, activity, untilMessageEnd, early }, null);
    } catch {
      return unknownVerdict;
    } finally {
      signal.removeEventListener('abort', stop);
    }
  }

  async sendDtmf(digits: string, form: KeyForm = 'event'): Promise<void> {
    const limitMs = answerLimitMs + digits.length * perDigitLimitMs;
    await this.ask('sendDtmf', { session: this.id, digits, form }, limitMs);
  }

  onEvent(listener: (event: MediaEvent) => void): () => void {
    return this.events.add(listener);
  }

  async stats(): Promise<MediaStats> {
    if (this.closing) return this.closing;
    this.lastStats = await this.ask('stats', { session: this.id });
    return this.lastStats;
  }

  close(): Promise<MediaStats> {
    this.closing ??= this.closeNow();
    return this.closing;
  }

  async closeAgent(agent: RemoteAgent, reason: string): Promise<void> {
    try {
      // A closing session also closes its agents, and still delivers their last events.
      if (this.closing) await this.closing;
      else await this.ask('closeAgent', { session: this.id, agent: agent.id, reason }, closeLimitMs);
    } catch {
      // The thread is gone or stuck, and the agent's socket with it.
    }
    agent.end({ by: 'local', detail: reason });
    this.agents.delete(agent.id);
  }

  /** A notice from the thread about this session. */
  notice(notice: Notice & { session: number }): void {
    if (notice.kind === 'event') {
      const { event } = notice;
      if (event.type === 'quality') this.lastStats = event.sample;
      else if (event.type === 'held') this.held = { sends: event.sends };
      else if (event.type === 'resumed') this.held = null;
      this.events.tell(event);
    } else if (notice.kind === 'lost') this.tellLost(notice.why);
    else if (notice.kind === 'agentEvent') this.agents.get(notice.agent)?.events.tell(notice.event);
    else if (notice.kind === 'agentEnded') this.agents.get(notice.agent)?.end(notice.end);
  }

  /** The thread died: settles everything that waits for it. */
  threadDied(): void {
    this.tellLost('engine-gone');
    for (const agent of this.agents.values()) agent.end({ by: 'failed', detail: 'The media thread is gone.' });
  }

  /** Each thread has one side of the bridge and a port to the other; the end of one side ends both. */
  private async bridgeAcross(activity: number, other: RemoteSession, options: BridgeOptions): Promise<BridgeEnd> {
    const { port1, port2 } = new MessageChannel();
    const side = (session: RemoteSession, number: number, port: MessagePort) =>
      session.ask('bridgeAcross', { session: session.id, activity: number, port, options }, null, [port]).catch(() => {
        port.close();
        return bridgeClosed();
      });
    const [near, far] = await Promise.all([side(this, activity, port1), side(other, other.nextActivity++, port2)]);
    return { by: near.by, forwarded: { toThis: near.forwarded.toThis, toOther: far.forwarded.toThis } };
  }

  private async openAgent<N extends 'prepareAgent' | 'fork'>(
    name: N,
    wanted: Omit<ThreadRequests[N]['in'], 'session' | 'agent'>,
    signal: AbortSignal,
  ): Promise<RemoteAgent> {
    if (signal.aborted) throw new AgentFailure('aborted', 'Connecting to the agent was aborted.', false);
    const agent = new RemoteAgent(this.nextAgent++, this);
    this.agents.set(agent.id, agent);
    const abort = () => this.worker.post({ kind: 'abortAgent', session: this.id, agent: agent.id });
    signal.addEventListener('abort', abort, { once: true });
    try {
      const question = { session: this.id, agent: agent.id, ...wanted } as ThreadRequests[N]['in'];
      await this.ask(name, question, wanted.target.connectTimeoutMs + answerLimitMs);
    } catch (error) {
      this.agents.delete(agent.id);
      throw error;
    } finally {
      signal.removeEventListener('abort', abort);
    }
    if (!signal.aborted) return agent;
    // The agent became ready while the abort was on its way.
    await agent.close('aborted');
    throw new AgentFailure('aborted', 'Connecting to the agent was aborted.', false);
  }

  private async closeNow(): Promise<MediaStats> {
    const closed = this.onClose();
    try {
      this.lastStats = await this.worker.threadClient.ask('close', { session: this.id }, closeLimitMs);
    } catch {
      // The last known statistics must do.
    }
    closed();
    for (const agent of this.agents.values()) agent.end({ by: 'local', detail: 'The session was closed.' });
    this.agents.clear();
    this.events.clear();
    return this.lastStats;
  }

  private ask<N extends ThreadRequestName>(
    name: N,
    question: ThreadRequests[N]['in'],
    limitMs: number | null = answerLimitMs,
    transfer: readonly TransferListItem[] = [],
  ): Promise<ThreadRequests[N]['out']> {
    if (this.closing) return Promise.reject(new MediaError('closed', 'The session is closed.'));
    return this.worker.threadClient.ask(name, question, limitMs, transfer);
  }

  private endActivity(activity: number): void {
    this.worker.post({ kind: 'endActivity', session: this.id, activity });
  }

  private stopActivity<E>(activity: number, ended: Promise<E>): Promise<E> {
    this.endActivity(activity);
    return ended;
  }
}

export function failedRecording(error: unknown): RecordingEnd {
  const message = error instanceof Error ? error.message : 'The recording ended with an unknown error.';
  return { by: 'failed', durationMs: 0, bytes: 0, error: message };
}

function bridgeClosed(): BridgeEnd {
  return { by: 'closed', forwarded: { toThis: 0, toOther: 0 } };
}
