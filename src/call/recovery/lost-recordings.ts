/** Recordings of calls whose process died: adds the files that it left to the records of the calls. */
import { open, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Logger } from '../../log.js';
import type { Calls } from '../../store/calls/calls.js';
import type { OrphanedCall } from '../../store/nodes/orphans.js';

const headerBytes = 44;
/** Offset of the byte rate in the WAV header. */
const byteRateAt = 28;

/** Repairs the header of each file, and writes its location and length into the record of its call. Complete recordings are left as they are. */
export async function closeLostRecordings(
  folder: string,
  calls: readonly OrphanedCall[],
  records: Pick<Calls, 'recorded' | 'event'>,
  log: Logger,
): Promise<void> {
  const wanted = new Set(calls.filter((call) => !call.recordingEnded).map((call) => call.id));
  const days = (await readdir(folder, { withFileTypes: true }).catch(() => [])).filter((entry) => entry.isDirectory());
  for (const day of days) {
    for (const name of await readdir(path.join(folder, day.name)).catch(() => [])) {
      const id = name.replace(/\.wav$/, '');
      if (id === name || !wanted.has(id)) continue;
      const file = path.join(folder, day.name, name);
      try {
        const { dataBytes, bytesPerSec } = await repair(file);
        if (dataBytes === 0) {
          await rm(file);
          throw new Error('The file has no audio.');
        }
        records.recorded(id, pathToFileURL(file).href);
        const durationMs = Math.round((dataBytes / bytesPerSec) * 1000);
        records.event(id, 'recording.completed', { duration_ms: durationMs, bytes: headerBytes + dataBytes });
      } catch (error) {
        log.warn({ err: error, call_id: id }, 'the recording of a lost call could not be closed');
        records.event(id, 'recording.failed', { message: 'The process died while it was written.', bytes: 0 });
      }
    }
  }
}

/** The header is updated after the samples, so samples beyond its length count as well. Returns the number of bytes of samples. */
async function repair(file: string): Promise<{ dataBytes: number; bytesPerSec: number }> {
  const handle = await open(file, 'r+');
  try {
    const { size } = await handle.stat();
    if (size < headerBytes) throw new Error('The file has no header.');
    const dataBytes = (size - headerBytes) & ~3;
    const lengths = Buffer.alloc(4);
    await handle.read(lengths, 0, 4, byteRateAt);
    const bytesPerSec = lengths.readUInt32LE();
    if (bytesPerSec === 0) throw new Error('The file has no header.');
    lengths.writeUInt32LE(headerBytes - 8 + dataBytes);
    await handle.write(lengths, 0, 4, 4);
    lengths.writeUInt32LE(dataBytes);
    await handle.write(lengths, 0, 4, 40);
    await handle.truncate(headerBytes + dataBytes);
    await handle.datasync();
    return { dataBytes, bytesPerSec };
  } finally {
    await handle.close();
  }
}
