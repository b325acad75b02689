import { constants } from 'node:fs';
import { type FileHandle, open, realpath, unlink } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** An open recording; its owner closes the handle. */
export interface RecordingFile {
  handle: FileHandle;
  bytes: number;
  modifiedMs: number;
}

/** Recordings on disk, by the location in their records. Files outside the folder are never accessed, whatever a record contains. */
export class RecordingFiles {
  constructor(private readonly folder: string) {}

  /** null if the file does not exist. */
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

  /** Removes the file if it exists. */
  async remove(recordingUrl: string): Promise<void> {
    const file = await this.inside(recordingUrl);
    if (file === null) return;
    try {
      await unlink(file);
    } catch (error) {
      if (!isAbsent(error)) throw error;
    }
  }

  /** The real path, with links resolved; null if it is outside the folder or does not exist. */
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

/** Whether the file does not exist or its name is invalid. */
function isAbsent(error: unknown): boolean {
  const { code = '' } = error as NodeJS.ErrnoException;
  return absences.has(code) || code.startsWith('ERR_INVALID');
}

const absences = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'EISDIR', 'ENXIO', 'ENAMETOOLONG']);
