/** The disk thread: a slow or full disk affects nothing else. Each media thread has one port to it. */
import { type MessagePort, parentPort } from 'node:worker_threads';
import type { FromDisk, ToDisk } from './disk-messages.js';
import { WavFile } from './wav-file.js';

const parent = parentPort;
if (!parent) throw new Error('media/recording/disk-entry.ts runs as a worker only.');
const ports = new Set<MessagePort>();

/** A message is a port to serve; null closes all files and ends the thread. */
parent.on('message', (port: MessagePort | null) => {
  if (port) serve(port);
  else {
    for (const each of ports) each.close();
    parent.close();
  }
});

function serve(port: MessagePort): void {
  const files = new Map<number, WavFile>();
  const tell = (message: FromDisk) => port.postMessage(message);
  const end = (id: number, error: string | null): void => {
    const file = files.get(id);
    files.delete(id);
    let problem = error;
    try {
      file?.close();
    } catch (closing) {
      problem ??= sentence(closing);
    }
    const made = file === undefined || (problem !== null && file.isEmpty) ? null : file;
    if (made === null) {
      try {
        file?.remove();
      } catch {
        // If the file system refuses this too, an empty file is left.
      }
    }
    tell({ kind: 'closed', id, bytes: made?.bytes ?? 0, durationMs: made?.durationMs ?? 0, error: problem });
  };
  ports.add(port);
  port.on('message', (message: ToDisk) => {
    const { id } = message;
    try {
      if (message.kind === 'open') files.set(id, new WavFile(message.path, message.form));
      else if (message.kind === 'close') {
        if (message.keep) files.get(id)?.keep(message.keep);
        if (files.has(id)) end(id, null);
      } else {
        files.get(id)?.write(message.index, message.samples);
        tell({ kind: 'written', id });
      }
    } catch (error) {
      end(id, sentence(error));
    }
  });
  port.on('close', () => {
    ports.delete(port);
    for (const id of [...files.keys()]) end(id, null);
  });
}

function sentence(error: unknown): string {
  const code = error instanceof Error ? ((error as NodeJS.ErrnoException).code ?? error.message) : String(error);
  return `The recording could not be written (${code}).`;
}
