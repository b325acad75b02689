/** The embedded engine on the main thread: the media threads, the placement of sessions and groups, and the RTP ports. */
import {
  type EngineLoad,
  type EngineLog,
  type MediaEngine,
  MediaError,
  type MediaRoom,
  type MediaSession,
  type OpenSession,
} from '../../engine.js';
import { type RtpPortRange, RtpPorts } from '../../ports.js';
import { Disk } from '../../recording/disk.js';
import type { LateSender } from '../../rtp/source.js';
import type { Notice } from '../channel.js';
import { addCauses, noLateCauses } from '../lateness.js';
import { RemoteRoom } from './remote-room.js';
import { RemoteSession } from './remote-session.js';
import { MediaWorker } from './worker.js';

const openLimitMs = 5000;
/** Delays the restart, so that a thread that keeps dying is not restarted in a tight loop. */
const restartDelayMs = 250;

export interface EmbeddedEngineOptions {
  threads: number;
  rtpPorts: RtpPortRange;
  bindAddress?: string;
  quarantineMs: number;
  /** A port that another program holds is tried again after this. */
  takenPortRetryMs: number;
  log: EngineLog;
}

interface Placed {
  session: RemoteSession;
  rtpPort: number;
}

/** A place for a thread; the thread in it may be replaced. */
interface Slot {
  worker: MediaWorker;
  sessions: Map<number, Placed>;
  /** Sessions that are closing; their last notices are still delivered. */
  closing: Map<number, RemoteSession>;
  /** Ports whose sockets are on this thread, including those that it drains. */
  ports: Set<number>;
}

export class EmbeddedEngine implements MediaEngine {
  private readonly ports: RtpPorts;
  /** Old peers that still send, by RTP port. */
  private readonly lateSenders = new Map<number, LateSender>();
  private readonly slots: Slot[] = [];
  private readonly groups = new Map<string, { slot: Slot; worker: MediaWorker; sessions: number }>();
  private readonly restarts = new Set<NodeJS.Timeout>();
  private nextSession = 1;
  private threadsReplaced = 0;
  /** Counts of threads that have ended. */
  private readonly past = { faults: 0, foreignPackets: 0, malformedPackets: 0 };
  private readonly pastLate = noLateCauses();
  private disk: Disk | null = null;
  /** Threads with a port to the current disk thread. */
  private readonly onDisk = new Set<MediaWorker>();
  private closing: Promise<void> | null = null;

  constructor(private readonly options: EmbeddedEngineOptions) {
    this.ports = new RtpPorts(options.rtpPorts);
    for (let i = 0; i < options.threads; i++) {
      const slot = { sessions: new Map(), closing: new Map(), ports: new Set() } as unknown as Slot;
      slot.worker = this.startWorker(slot, i);
      this.slots.push(slot);
    }
  }

  get ready(): Promise<unknown> {
    return Promise.all(this.slots.map((slot) => slot.worker.ready));
  }

  async open(options: OpenSession): Promise<MediaSession> {
    if (this.closing) throw new MediaError('engine_gone', 'The media engine is closed.');
    const slot = this.slotFor(options.group);
    const { worker } = slot;
    const leave = this.join(options.group, slot);
    const id = this.nextSession++;
    try {
      for (;;) {
        const rtpPort = this.ports.take();
        if (rtpPort === null) throw new MediaError('no_ports', 'All RTP ports are in use or in quarantine.');
        const session = new RemoteSession(
          id,
          worker,
          () => this.closed(slot, id, leave),
          () => this.connectDisk(worker),
          (error) => this.options.log.error({ session: id, err: error }, 'a listener of media events failed'),
        );
        slot.sessions.set(id, { session, rtpPort });
        slot.ports.add(rtpPort);
        const opened = await this.openOn(slot, worker, id, rtpPort, options);
        if (opened === 'port_taken') continue;
        session.localSdp = opened.localSdp;
        return session;
      }
    } catch (error) {
      slot.sessions.delete(id);
      leave();
      throw error;
    }
  }

  room(seats: number): MediaRoom {
    return new RemoteRoom(seats, () => {
      const { worker } = this.emptiestSlot();
      this.connectDisk(worker);
      return worker;
    });
  }

  /** Ends a thread as a crash would; for tests and failure drills. */
  async crash(thread: number): Promise<void> {
    await this.slots[thread]?.worker.crash();
  }

  load(): EngineLoad {
    const load: EngineLoad = {
      sessions: 0,
      threads: [],
      ports: this.ports.count(),
      threadsReplaced: this.threadsReplaced,
      ...this.past,
      late: { ...this.pastLate },
    };
    for (const { worker, sessions } of this.slots) {
      load.sessions += sessions.size;
      load.threads.push({
        sessions: sessions.size,
        eventLoopLagMs: worker.load.eventLoopLagMs,
        alive: worker.alive,
      });
      if (!worker.alive) continue;
      load.faults += worker.load.faults;
      load.foreignPackets += worker.load.foreignPackets;
      load.malformedPackets += worker.load.malformedPackets;
      addCauses(load.late, worker.load.late);
    }
    return load;
  }

  close(): Promise<void> {
    this.closing ??= (async () => {
      for (const timer of this.restarts) clearTimeout(timer);
      const sessions = this.slots.flatMap((slot) => [...slot.sessions.values()]);
      await Promise.all(sessions.map(({ session }) => session.close()));
      await Promise.all(this.slots.map((slot) => slot.worker.stop()));
      await this.disk?.stop();
      this.ports.close();
    })();
    return this.closing;
  }

  private async openOn(slot: Slot, worker: MediaWorker, id: number, rtpPort: number, options: OpenSession) {
    const bindAddress = options.bindAddress ?? this.options.bindAddress;
    try {
      const lateSender = this.lateSenders.get(rtpPort);
      const bound = bindAddress ? { ...options, bindAddress } : options;
      const question = { session: id, rtpPort, options: bound, ...(lateSender && { lateSender }) };
      const opened = await worker.threadClient.ask('open', question, openLimitMs);
      if (opened === 'port_taken') {
        this.ports.rest(rtpPort, this.options.takenPortRetryMs);
        slot.ports.delete(rtpPort);
      }
      return opened;
    } catch (error) {
      // A living thread that refuses has released the port; otherwise the state of the port is unknown.
      if (worker.alive && error instanceof MediaError && error.code !== 'engine_gone') {
        this.ports.giveBack(rtpPort);
        slot.ports.delete(rtpPort);
      } else if (slot.ports.delete(rtpPort)) this.ports.rest(rtpPort, this.options.quarantineMs);
      throw error;
    }
  }

  /** The group's thread, or the thread with the fewest sessions. */
  private slotFor(group: string): Slot {
    const joined = this.groups.get(group);
    return joined?.worker.alive ? joined.slot : this.emptiestSlot();
  }

  private emptiestSlot(): Slot {
    const alive = this.slots.filter((slot) => slot.worker.alive);
    const first = alive[0];
    if (!first) throw new MediaError('engine_gone', 'No media thread is alive.');
    return alive.reduce((least, slot) => (slot.sessions.size < least.sessions.size ? slot : least), first);
  }

  private join(group: string, slot: Slot): () => void {
    let entry = this.groups.get(group);
    if (entry?.worker !== slot.worker) {
      entry = { slot, worker: slot.worker, sessions: 0 };
      this.groups.set(group, entry);
    }
    const joined = entry;
    joined.sessions += 1;
    return () => {
      joined.sessions -= 1;
      if (joined.sessions === 0 && this.groups.get(group) === joined) this.groups.delete(group);
    };
  }

  /** Marks the session as closing; the returned function is called when it is closed. */
  private closed(slot: Slot, id: number, leave: () => void): () => void {
    const placed = slot.sessions.get(id);
    if (!placed) return () => {};
    slot.sessions.delete(id);
    leave();
    // The ports of a dead thread are already at rest.
    if (placed.session.worker.alive) this.ports.restUntilQuiet(placed.rtpPort);
    slot.closing.set(id, placed.session);
    return () => slot.closing.delete(id);
  }

  private connectDisk(worker: MediaWorker): void {
    if (this.closing || !worker.alive) return;
    if (!this.disk?.alive) {
      this.onDisk.clear();
      this.disk = new Disk((detail) => this.options.log.error({ error: detail }, 'disk thread died'));
    }
    if (this.onDisk.has(worker)) return;
    this.onDisk.add(worker);
    const port = this.disk.connect();
    worker.post({ kind: 'disk', port }, [port]);
  }

  private startWorker(slot: Slot, index: number): MediaWorker {
    const worker: MediaWorker = new MediaWorker(
      `media-${index + 1}`,
      { quietMs: this.options.quarantineMs },
      {
        notice: (notice) => this.notice(slot, notice),
        died: (detail) => this.died(slot, index, detail),
      },
    );
    return worker;
  }

  private notice(slot: Slot, notice: Notice): void {
    if (notice.kind === 'portFree') {
      if (notice.lateSender) this.lateSenders.set(notice.rtpPort, notice.lateSender);
      else this.lateSenders.delete(notice.rtpPort);
      if (slot.ports.delete(notice.rtpPort)) this.ports.restOver(notice.rtpPort);
    } else if (notice.kind === 'fault') {
      const { session, place, text } = notice;
      this.options.log.error({ session, place, error: text }, 'media fault');
    } else if (notice.kind === 'events') {
      for (const each of notice.events) this.notice(slot, { kind: 'event', ...each });
    } else if ('session' in notice) {
      const session = slot.sessions.get(notice.session)?.session ?? slot.closing.get(notice.session);
      session?.notice(notice);
    }
  }

  private died(slot: Slot, index: number, detail: string): void {
    const { faults, foreignPackets, malformedPackets, late } = slot.worker.load;
    addCauses(this.pastLate, late);
    this.onDisk.delete(slot.worker);
    this.past.faults += faults;
    this.past.foreignPackets += foreignPackets;
    this.past.malformedPackets += malformedPackets;
    this.options.log.error({ thread: index + 1, sessions: slot.sessions.size, error: detail }, 'media thread died');
    for (const rtpPort of slot.ports) this.ports.rest(rtpPort, this.options.quarantineMs);
    slot.ports.clear();
    for (const { session } of slot.sessions.values()) session.threadDied();
    if (this.closing) return;
    const timer = setTimeout(() => {
      this.restarts.delete(timer);
      this.threadsReplaced += 1;
      slot.worker = this.startWorker(slot, index);
    }, restartDelayMs);
    this.restarts.add(timer);
  }
}
