/** Files of an npm package: a gzipped tar archive whose files are in one folder. */
import { gunzipSync } from 'node:zlib';

const blockBytes = 512;
/** An archive that grows beyond this is refused. */
const maxBytes = 256 * 1024 * 1024;

/**
 * The regular files, by their path without the first folder. Throws an `Error` of one sentence for a damaged archive and for a path that
 * leaves its folder.
 */
export function filesOfTarball(tarball: Uint8Array): Map<string, Uint8Array> {
  const archive = gunzipSync(tarball, { maxOutputLength: maxBytes });
  const files = new Map<string, Uint8Array>();
  let longPath: string | null = null;
  for (let at = 0; at + blockBytes <= archive.length; ) {
    const header = archive.subarray(at, at + blockBytes);
    if (header[0] === 0) break; // the end is a block of zeros
    const size = Number.parseInt(text(header, 124, 12), 8);
    const body = at + blockBytes;
    if (!Number.isInteger(size) || size < 0 || body + size > archive.length)
      throw new Error('The archive of a package is damaged.');
    const content = archive.subarray(body, body + size);
    const type = text(header, 156, 1);
    if (type === 'x') longPath = pathOf(content) ?? longPath;
    else {
      const prefix = text(header, 345, 155);
      const path = longPath ?? (prefix === '' ? '' : `${prefix}/`) + text(header, 0, 100);
      longPath = null;
      if (type === '0' || type === '') files.set(insidePath(path), content);
    }
    at = body + Math.ceil(size / blockBytes) * blockBytes;
  }
  if (files.size === 0) throw new Error('The archive of a package has no files.');
  return files;
}

function text(header: Uint8Array, from: number, length: number): string {
  const field = Buffer.from(header.subarray(from, from + length)).toString('utf8');
  const end = field.indexOf('\0');
  return (end < 0 ? field : field.slice(0, end)).trim();
}

/** A record of a pax header: its length, a space, `path=`, the path and a line feed. */
function pathOf(header: Uint8Array): string | undefined {
  return /^\d+ path=(.*)$/m.exec(Buffer.from(header).toString('utf8'))?.[1];
}

function insidePath(path: string): string {
  const parts = path.split('/').slice(1);
  if (parts.length === 0 || parts.some((part) => part === '..' || part === '' || part.includes('\\')))
    throw new Error(`The archive of a package has a file at a path that is not allowed: ${JSON.stringify(path)}.`);
  return parts.join('/');
}
