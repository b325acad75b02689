/** A conference as seen by the main thread: its memory, its free seats and its recording. */
import { Room } from '../../audio/playout/conference-mixer.js';
import {
  MediaError,
  type MediaRoom,
  type MediaSession,
  type PlayEnd,
  type Recording,
  type RedactedMedia,
  type RoomRecordOptions,
  type RoomSeat,
} from '../../engine.js';
import { failedRecording, RemoteSession } from './remote-session.js';
import type { MediaWorker } from './worker.js';

export class RemoteRoom implements MediaRoom {
  private readonly memory: SharedArrayBuffer;
  private readonly room: Room;
  private readonly free: number[] = [];

  constructor(
    private readonly seats: number,
    /** Returns a thread that is connected to the disk thread. Throws `MediaError`. */
    private readonly recordingWorker: () => MediaWorker,
  ) {
    this.memory = Room.memory(seats);
    this.room = new Room(this.memory);
  }

  join(session: MediaSession, { muted }: { muted: boolean }): RoomSeat | null {
    if (!(session instanceof RemoteSession)) throw new MediaError('not_together', 'The session is of another engine.');
    const { room, free } = this;
    const seat = free.pop() ?? room.seats;
    if (seat >= this.seats) return null;
    room.seats = Math.max(room.seats, seat + 1);
    room.mute(seat, muted);
    const place = session.confer(this.memory, seat);
    let over = false;
    const ended = place.ended.then((by): PlayEnd['by'] => {
      over = true;
      free.push(seat);
      return by;
    });
    return {
      ended,
      get speaks() {
        return !over && room.speaks(seat);
      },
      mute: (on) => {
        if (!over) room.mute(seat, on);
      },
      leave: () => {
        if (!over) void place.stop();
        return ended;
      },
    };
  }

  beep(kind: 'entered' | 'left'): void {
    this.room.beep(kind);
  }

  redact(what: RedactedMedia): void {
    this.room.redacted = what;
  }

  record(options: RoomRecordOptions): Recording {
    const { room, memory } = this;
    room.recording = 'go';
    const begin = async () => this.recordingWorker().threadClient.ask('recordRoom', { room: memory, options }, null);
    const ended = begin().catch(failedRecording);
    return {
      ended,
      pause: (paused) => {
        if (room.recording !== 'stop') room.recording = paused ? 'pause' : 'go';
      },
      stop: () => {
        room.recording = 'stop';
        return ended;
      },
    };
  }
}
