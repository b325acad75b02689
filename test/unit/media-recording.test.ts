/** A disk that has no room: every recording fails once or completes once, and files say what they hold. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { MediaSession, RecordingEnd } from '../../media/engine.js';
import { WavFile } from '../../media/recording/wav-file.js';
import type { Call } from '../../src/call/core/call.js';
import { Recordings } from '../../src/call/recording/call-recording.js';
import { PartialRecordings } from '../../src/call/recording/recordings.js';
import { closeLostRecordings } from '../../src/call/recovery/lost-recordings.js';

/** Bytes of a file that the disk takes; what is beyond is refused, as the kernel does: what fits first, then ENOSPC. */
const disk = vi.hoisted(() => ({ room: Number.POSITIVE_INFINITY, open: new Set<number>() }));

vi.mock('node:fs', async (original) => {
  const fs = await original<typeof import('node:fs')>();
  const openSync = (...args: Parameters<typeof fs.openSync>) => {
    const fd = fs.openSync(...args);
    disk.open.add(fd);
    return fd;
  };
  const closeSync = (fd: number) => {
    fs.closeSync(fd);
    disk.open.delete(fd);
  };
  const writeSync = (fd: number, bytes: Uint8Array, offset: number, length: number, position: number) => {
    const fits = Math.min(length, disk.room - position);
    if (fits <= 0) throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
    return fs.writeSync(fd, bytes, offset, fits, position);
  };
  return { ...fs, openSync, closeSync, writeSync };
});

let folder: string;
const form = { channels: 2, sampleRateHz: 8000 } as const;
const second = (value: number) => new Int16Array(16_000).fill(value);
/** What the header says of the samples. */
const counted = (file: string) => readFileSync(file).readUInt32LE(40);
const fileIn = (name: string) => path.join(folder, name);

beforeEach(() => {
  disk.open.clear();
  folder = mkdtempSync(path.join(tmpdir(), 'recording-'));
});

afterEach(() => {
  disk.room = Number.POSITIVE_INFINITY;
  rmSync(folder, { recursive: true });
  expect(disk.open.size, 'descriptors that were not closed').toBe(0);
});

describe('a WAV file on a full disk', () => {
  it.each([0, 1, 43])('leaves neither file nor descriptor when %d bytes of its header fit', (room) => {
    disk.room = room;
    expect(() => new WavFile(fileIn('a.wav'), form)).toThrow('ENOSPC');
    expect(readdirSync(folder)).toEqual([]);
  });

  it.each([1, 4, 7000, 31_999])('is as long as its header says when %d bytes of a second fit', (more) => {
    const file = new WavFile(fileIn('a.wav'), form);
    file.write(0, second(1));
    disk.room = 44 + 32_000 + more;
    expect(() => file.write(1, second(2))).toThrow('ENOSPC');
    file.close();
    const bytes = readFileSync(fileIn('a.wav'));
    expect(bytes.length).toBe(44 + 32_000);
    expect(counted(fileIn('a.wav'))).toBe(32_000);
    expect(bytes.readUInt32LE(4)).toBe(36 + 32_000);
    expect([file.bytes, file.durationMs, file.isEmpty]).toEqual([44 + 32_000, 1000, false]);
  });

  it('is as long as its header says when the header is refused', () => {
    const file = new WavFile(fileIn('a.wav'), form);
    file.write(0, second(1));
    const refuse = vi.spyOn(Buffer, 'alloc').mockImplementationOnce(() => {
      throw new Error('no header');
    });
    expect(() => file.write(1, second(2))).toThrow('no header');
    refuse.mockRestore();
    file.close();
    expect(readFileSync(fileIn('a.wav')).length).toBe(44 + 32_000);
    expect(counted(fileIn('a.wav'))).toBe(32_000);
  });

  it('that had room for all is what was written', () => {
    const file = new WavFile(fileIn('a.wav'), form);
    file.write(0, second(1));
    file.write(2, second(3));
    file.keep({ from: 12_000, to: 20_000 });
    file.close();
    const bytes = readFileSync(fileIn('a.wav'));
    expect(counted(fileIn('a.wav'))).toBe(32_000);
    // The second that never came is silence.
    const values = [0, 7999, 8000, 15_999].map((sample) => bytes.readInt16LE(44 + sample * 2));
    expect(values).toEqual([0, 0, 3, 3]);
  });
});

/** A session whose recording ends when the test says so. */
function recordable(file: (path: string) => void = () => {}) {
  let settle!: (end: RecordingEnd) => void;
  const record = vi.fn(({ path: at }: { path: string }) => {
    file(at);
    const ended = new Promise<RecordingEnd>((resolve) => {
      settle = resolve;
    });
    return { ended, pause: () => {}, stop: () => ended };
  });
  return { session: { record } as unknown as MediaSession, record, end: (end: RecordingEnd) => settle(end) };
}

function recordedCall() {
  const events: [type: string, data: unknown][] = [];
  const event = (type: string, data?: unknown) => void events.push([type, data]);
  const call = { id: 'a-call', event, recording: null } as unknown as Call;
  const urls: string[] = [];
  const records = {
    event: (_id: string, ...rest: [string, unknown]) => event(...rest),
    recorded: (_id: string, url: string) => urls.push(url),
  };
  return { call, events, urls, records: records as never };
}

describe('the record of a call', () => {
  const failed: RecordingEnd = {
    by: 'failed',
    durationMs: 0,
    bytes: 0,
    error: 'The recording could not be written (ENOSPC).',
  };

  it('has one end of its recording, also when another agent takes over after it failed', async () => {
    const { call, events, urls, records } = recordedCall();
    const recordings = new Recordings(folder, records);
    const { session, record, end } = recordable();
    recordings.begin(call, session);
    end(failed);
    await recordings.settled();
    recordings.begin(call, session);
    expect(record).toHaveBeenCalledTimes(1);
    expect(events).toEqual([
      ['recording.started', undefined],
      ['recording.failed', { message: failed.error, bytes: 0, duration_ms: 0 }],
    ]);
    expect(urls).toEqual([]);
  });

  it('says how much a recording has that failed on the way', async () => {
    const { call, events, urls, records } = recordedCall();
    const recordings = new Recordings(folder, records);
    const { session, end } = recordable();
    recordings.begin(call, session);
    end({ ...failed, bytes: 64_044, durationMs: 2000 });
    await recordings.settled();
    expect(events.at(-1)).toEqual(['recording.failed', { message: failed.error, bytes: 64_044, duration_ms: 2000 }]);
    expect(urls).toHaveLength(1);
  });

  it('knows every file of a recording by the way, complete or not; others are removed', async () => {
    const { call, events } = recordedCall();
    const rows: { bytes: number }[] = [];
    const records = { add: (row: { bytes: number }) => rows.push(row) } as never;
    const takes = new PartialRecordings({ folder, records, log: console as never, publicUrl: () => 'http://here' });
    const files: string[] = [];
    const write = (at: string) => {
      files.push(at);
      writeFileSync(fileIn(path.basename(at)), 'x');
    };
    for (const end of [failed, { ...failed, bytes: 64_044, durationMs: 2000 }]) {
      const recording = recordable(write);
      const take = takes.begin(call, recording.session, 'record', {});
      recording.end(end);
      expect(await take.made).toMatchObject({ error: failed.error, durationMs: 0, by: 'failed' });
    }
    expect(rows).toMatchObject([{ bytes: 64_044, durationMs: 2000 }]);
    const ends = events.filter(([type]) => type === 'recording.failed').map(([, data]) => data);
    expect(ends).toMatchObject([
      { bytes: 0 },
      { bytes: 64_044, recording_url: expect.stringContaining('http://here') },
    ]);
    expect(ends[0]).not.toHaveProperty('recording_url');
  });
});

describe('recordings of a process that died', () => {
  const dialogs: never[] = [];
  const orphan = { id: 'a-call', sipCallId: null, organizationId: 'o', dialogs };

  function leaveFile(seconds: number): string {
    const file = path.join(folder, '2026-01-01', 'a-call.wav');
    const wav = new WavFile(file, form);
    for (let at = 0; at < seconds; at++) wav.write(at, second(5));
    wav.close();
    return file;
  }

  it.each([
    ['completes', false, 2, [['recording.completed', { bytes: 64_044, duration_ms: 2000 }]]],
    ['is not told again when it had ended', true, 2, []],
    ['fails without any audio', false, 0, [['recording.failed', { bytes: 0, message: expect.any(String) }]]],
  ])('%s', async (_name, recordingEnded, seconds, expected) => {
    const file = leaveFile(seconds);
    const { events, records } = recordedCall();
    await closeLostRecordings(folder, [{ ...orphan, recordingEnded }], records, { warn: () => {} } as never);
    expect(events).toEqual(expected);
    expect(existsSync(file)).toBe(seconds > 0);
  });
});
