/** Records a whole conference on a media thread's clock. It belongs to no session and ends when the room's memory says so. */

import { MixMinus, Room, roomFrame } from '../../audio/playout/conference-mixer.js';
import type { PlayoutClock } from '../../audio/playout/playout-clock.js';
import type { RecordingEnd, RecordOptions } from '../../engine.js';
import type { DiskConnection } from '../../recording/disk-connection.js';
import { SessionRecordings } from '../session/session-recordings.js';

const frameMs = 20;
/** After a stall of the thread, at most this many missed frames are made up at once. */
const mostLate = 10;

export class RoomRecording {
  readonly ended: Promise<RecordingEnd>;
  /** Ends the recording; the file keeps what was recorded. */
  readonly close: () => void;

  constructor(
    memory: SharedArrayBuffer,
    options: RecordOptions,
    disk: DiskConnection,
    clock: PlayoutClock,
    now: () => number,
  ) {
    const room = new Room(memory);
    const ear = new MixMinus(room, -1, 'PCMU');
    const frame = new Uint8Array(roomFrame);
    const recordings = new SessionRecordings();
    const whole = { ...options, tracks: 'phone' as const };
    let finish = () => {};
    const stopped = new Promise<RecordingEnd>((resolve) => {
      finish = recordings.begin(1, whole, disk, now, 'PCMU', () => {}, resolve);
    });
    let timestamp = 0;
    let dueMs = now() + frameMs;
    let redacted = 0;
    const entry = clock.add((nowMs) => {
      if (nowMs - dueMs > mostLate * frameMs) dueMs = nowMs;
      while (dueMs <= nowMs + 0.5) {
        ear.take(frame, 0, roomFrame);
        recordings.pause(1, room.recording === 'pause');
        if (redacted !== room.redactedWord) {
          redacted = room.redactedWord;
          recordings.redact(room.redacted, nowMs);
        }
        recordings.fromPhone(timestamp, frame, 'PCMU', nowMs);
        timestamp = (timestamp + roomFrame) >>> 0;
        dueMs += frameMs;
      }
      if (room.recording === 'stop') finish();
      recordings.tick(nowMs);
      return dueMs;
    }, dueMs);
    this.close = () => recordings.close();
    this.ended = stopped.finally(() => clock.remove(entry));
  }
}
