/** All sessions of one media thread; handles the questions and orders of the main thread. */
import type { MessagePort } from 'node:worker_threads';
import type { Time } from '../../audio/playout/playout-clock.js';
import { PlayoutClock } from '../../audio/playout/playout-clock.js';
import { MediaError, type RecordingEnd, type RecordOptions } from '../../engine.js';
import { DiskConnection } from '../../recording/disk-connection.js';
import { Drain } from '../../rtp/drain.js';
import { RtpSocketPair } from '../../rtp/socket.js';
import {
  type FromThread,
  type Handlers,
  type Order,
  serveRequests,
  type ThreadRequests,
  type ToThread,
} from '../channel.js';
import { RoomRecording } from '../conference/room-recording.js';
import { guarded } from '../fault-isolation.js';
import { type CoreTime, Lateness } from '../lateness.js';
import { NoticeQueue } from '../notice-queue.js';
import { WakeupBatching } from '../wakeup-batching.js';
import { PhoneSession } from './session.js';
import { type OpenAgent, sessionClosed } from './session-agent.js';
import { SessionCoders } from './session-coders.js';

const loadEveryMs = 1000;

export interface ThreadParts {
  post(message: FromThread): void;
  openAgent: OpenAgent;
  time: Time;
  /** Blocks the thread. */
  sleep(ms: number): void;
  /** The thread's time on a core and waiting for one; null where it is unknown. */
  coreTime(): CoreTime | null;
  /** How long a port must be quiet before it is free again. */
  quietMs: number;
}

/** Runs a media thread; `receive` takes the main thread's messages. */
export class ThreadSessions {
  private readonly sessions = new Map<number, PhoneSession>();
  private readonly clock: PlayoutClock;
  private readonly notices: NoticeQueue;
  readonly lateness: Lateness;
  private readonly batching: WakeupBatching;
  private readonly drain: Drain;
  private readonly loadTimer: NodeJS.Timeout;
  private loadDueMs: number;
  private readonly answer: ReturnType<typeof serveRequests>;
  private faults = 0;
  /** Totals of closed sessions. */
  private foreignBefore = 0;
  private malformedBefore = 0;
  private disk: DiskConnection | null = null;
  private readonly roomRecordings = new Set<RoomRecording>();
  private closing: Promise<void> | null = null;

  constructor(private readonly parts: ThreadParts) {
    this.notices = new NoticeQueue(parts.post, parts.time);
    const { post } = this.notices;
    this.lateness = new Lateness({
      now: parts.time.now,
      coreTime: parts.coreTime,
      after: (ms, fn) => void parts.time.setTimer(fn, ms),
    });
    this.clock = new PlayoutClock(parts.time, this.lateness);
    this.batching = new WakeupBatching({
      now: parts.time.now,
      sleep: parts.sleep,
      sessions: () => this.sessions.size,
      dueMs: () => this.clock.dueMs,
      woke: () => this.clock.look(),
    });
    this.drain = new Drain(parts.quietMs, parts.time, (rtpPort, lateSender) =>
      post({ kind: 'portFree', rtpPort, lateSender }),
    );
    this.answer = serveRequests(this.handlers(), post);
    this.loadDueMs = parts.time.now() + loadEveryMs;
    this.loadTimer = setInterval(() => this.tellLoad(), loadEveryMs);
    post({ kind: 'ready' });
  }

  private readonly packetCame = (): void => this.batching.packetCame();

  receive(message: ToThread): void {
    if (message.kind === 'question') this.answer(message);
    else if (message.kind === 'shutdown') void this.close();
    else if (message.kind === 'disk') {
      void this.disk?.end();
      this.disk = new DiskConnection(message.port);
    } else
      guarded(
        (error) => this.noteFault(message.session, 'media', error),
        () => this.obey(message),
      )();
  }

  private obey(order: Exclude<Order, { kind: 'shutdown' | 'disk' }>): void {
    const session = this.sessions.get(order.session);
    if (order.kind === 'attach') session?.attach(order.agent);
    else if (order.kind === 'startAgent') session?.startAgent(order.agent);
    else if (order.kind === 'abortAgent') session?.abortAgent(order.agent);
    else if (order.kind === 'endActivity') session?.endActivity(order.activity);
    else if (order.kind === 'redact') session?.redact(order.what);
    else if (order.kind === 'pauseRecording') session?.pauseRecording(order.activity, order.paused);
    else session?.agents.command(order.agent, order.command);
  }

  /** Ends everything on this thread; nothing is left that keeps it alive. Idempotent. */
  close(): Promise<void> {
    this.closing ??= (async () => {
      clearInterval(this.loadTimer);
      await Promise.all([...this.sessions.keys()].map((id) => this.closeSession(id)));
      this.drain.close();
      for (const recording of this.roomRecordings) recording.close();
      await this.disk?.end();
      this.notices.close();
    })();
    return this.closing;
  }

  private handlers(): Handlers {
    return {
      open: (question) => this.open(question),
      offer: async ({ session, direction }) => this.find(session).offer(direction),
      accept: async ({ session, sdp, provisional, signalledFrom }) => {
        await this.find(session).prepare(sdp);
        this.find(session).accept(sdp, provisional, signalledFrom);
        return null;
      },
      answer: async ({ session, offer, signalledFrom }) => {
        await this.find(session).prepare(offer);
        return this.find(session).answer(offer, signalledFrom);
      },
      prepareAgent: async ({ session, agent, target }) => {
        const found = this.sessions.get(session);
        if (!found) throw sessionClosed();
        await found.agents.prepare(agent, target);
        return null;
      },
      fork: async ({ session, agent, target, tracks }) => {
        await this.find(session).fork(agent, target, tracks);
        return null;
      },
      closeAgent: async ({ session, agent, reason }) => {
        await this.sessions.get(session)?.closeAgent(agent, reason);
        return null;
      },
      sendDtmf: async ({ session, digits, form }) => {
        await this.find(session).sendDtmf(digits, form);
        return null;
      },
      play: async ({ session, activity, source }) => this.find(session).play(activity, source),
      record: async ({ session, activity, options }) => {
        if (!this.disk) throw new MediaError('engine_gone', 'The media thread is not connected to the disk thread.');
        return this.find(session).record(activity, options, this.disk);
      },
      detectMachine: async ({ session, activity, untilMessageEnd, early }) =>
        this.find(session).detectMachine(activity, untilMessageEnd, early),
      bridge: async ({ session, activity, other, options }) =>
        this.find(session).bridge(activity, this.find(other), options),
      bridgeAcross: ({ session, activity, port, options }) =>
        closingOnRefusal(port, async () => this.find(session).bridgeAcross(activity, port, options)),
      confer: async ({ session, activity, room, seat }) => this.find(session).confer(activity, room, seat),
      recordRoom: ({ room, options }) => this.recordRoom(room, options),
      tap: ({ session, activity, port, options }) =>
        closingOnRefusal(port, async () => this.find(session).tap(activity, port, options)),
      stats: async ({ session }) => this.find(session).stats(),
      close: async ({ session }) => {
        this.find(session);
        return this.closeSession(session);
      },
    };
  }

  private async open({
    session: id,
    rtpPort,
    lateSender,
    options,
  }: ThreadRequests['open']['in']): Promise<ThreadRequests['open']['out']> {
    const { openAgent, time } = this.parts;
    const { post } = this.notices;
    const address = options.bindAddress ?? options.localAddress;
    const pair = await RtpSocketPair.bind(address, rtpPort).catch((error: NodeJS.ErrnoException) => {
      throw new MediaError('no_ports', `RTP sockets cannot be opened on ${address} (${error.code ?? error.message}).`);
    });
    if (!pair) return 'port_taken';
    const coders = new SessionCoders();
    try {
      if (options.offer !== null) await coders.prepare(options.offer, options.policy.codecs);
      if (this.closing) throw new MediaError('engine_gone', 'The media thread is closing.');
      const session = new PhoneSession(options, pair, {
        clock: this.clock,
        lateness: this.lateness,
        coders,
        now: time.now,
        packetCame: this.packetCame,
        openAgent,
        event: (event) => this.notices.event(id, event),
        lost: (why) => post({ kind: 'lost', session: id, why }),
        agentEvent: (agent, event) => post({ kind: 'agentEvent', session: id, agent, event }),
        agentEnded: (agent, end) => post({ kind: 'agentEnded', session: id, agent, end }),
        fault: (place, error) => this.noteFault(id, place, error),
      });
      if (lateSender) session.inward.source.shun(lateSender);
      this.sessions.set(id, session);
      return { localSdp: session.localSdp };
    } catch (error) {
      coders.free();
      pair.close();
      throw error;
    }
  }

  private async closeSession(id: number) {
    const session = this.find(id);
    const agentsClosed = session.stop();
    this.drain.add(session.pair);
    await agentsClosed;
    const stats = session.stats();
    if (this.sessions.delete(id)) {
      this.foreignBefore += session.inward.foreign;
      this.malformedBefore += session.inward.malformed;
    }
    return stats;
  }

  private async recordRoom(room: SharedArrayBuffer, options: RecordOptions): Promise<RecordingEnd> {
    if (!this.disk || this.closing)
      throw new MediaError('engine_gone', 'The media thread is not connected to the disk thread.');
    const recording = new RoomRecording(room, options, this.disk, this.clock, this.parts.time.now);
    this.roomRecordings.add(recording);
    return recording.ended.finally(() => this.roomRecordings.delete(recording));
  }

  private find(id: number): PhoneSession {
    const session = this.sessions.get(id);
    if (!session) throw new MediaError('closed', 'The session is closed.');
    return session;
  }

  private noteFault(session: number, place: string, error: unknown): void {
    this.faults += 1;
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    this.notices.post({ kind: 'fault', session, place, text: text.slice(0, 2000) });
  }

  private tellLoad(): void {
    this.lateness.onTime(this.parts.time.now());
    let foreignPackets = this.foreignBefore;
    let malformedPackets = this.malformedBefore;
    for (const { inward } of this.sessions.values()) {
      foreignPackets += inward.foreign;
      malformedPackets += inward.malformed;
    }
    // How late the sessions' turns were; without sessions, how late this timer is.
    const nowMs = this.parts.time.now();
    const lagMs = Math.max(this.clock.takeWorstMs(), nowMs - this.loadDueMs, 0);
    this.loadDueMs = nowMs + loadEveryMs;
    this.notices.post({
      kind: 'load',
      load: {
        sessions: this.sessions.size,
        eventLoopLagMs: Math.round(lagMs * 10) / 10,
        faults: this.faults,
        foreignPackets,
        malformedPackets,
        late: this.lateness.causes,
      },
    });
  }
}

/** Closes the port when the request fails, so that its other end learns of it. */
async function closingOnRefusal<T>(port: MessagePort, take: () => Promise<T>): Promise<T> {
  try {
    return await take();
  } catch (error) {
    port.close();
    throw error;
  }
}
