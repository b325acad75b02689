import { constants } from 'node:fs';
import { type FileHandle, open, realpath, unlink } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** A recording that may be read; whoever has it closes the handle. */
export interface RecordingFile {
  handle: FileHandle;
  bytes: number;
  modifiedMs: number;
}

/** Recordings on disk, by what their records say. Nothing outside the folder is touched, whatever a record says. */
export class RecordingFiles {
  constructor(private readonly folder: string) {}

  /** null: it is not there. */
  async open(recordingUrl: string): Promise<RecordingFile | null> {
    const file = await this.inside(recordingUrl);
    if (file === null) return null;
    let handle: FileHandle;
    try {
      handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    } catch (error) {
      if (isAbsent(error)) return null;
      throw error;
    }
    const facts = await handle.stat();
    if (facts.isFile()) return { handle, bytes: facts.size, modifiedMs: Math.floor(facts.mtimeMs) };
    await handle.close();
    return null;
  }

  /** One that is not there is no error. */
  async remove(recordingUrl: string): Promise<void> {
    const file = await this.inside(recordingUrl);
    if (file === null) return;
    try {
      await unlink(file);
    } catch (error) {
      if (!isAbsent(error)) throw error;
    }
  }

  /** The path without links on the way to it; null when it leads out of the folder, or nowhere. */
  private async inside(recordingUrl: string): Promise<string | null> {
    try {
      const file = fileURLToPath(recordingUrl);
      const root = await realpath(this.folder);
      const folder = await realpath(path.dirname(file));
      const isInside = folder === root || folder.startsWith(root + path.sep);
      return isInside ? path.join(folder, path.basename(file)) : null;
    } catch (error) {
      if (isAbsent(error)) return null;
      throw error;
    }
  }
}

/** Not there, or a name that no file can have. */
function isAbsent(error: unknown): boolean {
  const { code = '' } = error as NodeJS.ErrnoException;
  return absences.has(code) || code.startsWith('ERR_INVALID');
}

const absences = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'EISDIR', 'ENXIO', 'ENAMETOOLONG']);
