/** A registry of npm with packages that a test makes up. */
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';

/** A tarball as npm makes it: the files are in the folder `package`. */
export function tarball(files: { [path: string]: string | Uint8Array }): Buffer {
  const blocks: Buffer[] = [];
  for (const [path, text] of Object.entries(files)) {
    const content = Buffer.from(text as Uint8Array);
    const header = Buffer.alloc(512);
    header.write(path.startsWith('/') ? path.slice(1) : `package/${path}`, 0);
    header.write('0000644\0', 100);
    header.write(`${content.length.toString(8).padStart(11, '0')}\0`, 124);
    header.write('0ustar\u000000', 156);
    blocks.push(header, content, Buffer.alloc((512 - (content.length % 512)) % 512));
  }
  return gzipSync(Buffer.concat([...blocks, Buffer.alloc(1024)]));
}

export const integrityOf = (file: Buffer): string => `sha512-${createHash('sha512').update(file).digest('base64')}`;

export interface TestRegistry {
  url: string;
  /** Each request: its path, and its `range`. */
  asked: string[];
  close(): Promise<void>;
}

/** `answer` may answer a request in its own way and return true. */
export async function startRegistry(
  files: Map<string, Buffer>,
  answer: (request: IncomingMessage, response: ServerResponse, asked: number) => boolean = () => false,
): Promise<TestRegistry> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const { range } = request.headers;
    asked.push(`${request.url}${range === undefined ? '' : ` ${range}`}`);
    if (answer(request, response, asked.length)) return;
    const file = files.get(request.url ?? '');
    if (file === undefined) return void response.writeHead(404).end();
    const from = Number(/^bytes=(\d+)-$/.exec(range ?? '')?.[1] ?? 0);
    if (from >= file.length) return void response.writeHead(416, { 'content-range': `bytes */${file.length}` }).end();
    const rest = file.subarray(from);
    const about = range === undefined ? {} : { 'content-range': `bytes ${from}-${file.length - 1}/${file.length}` };
    response.writeHead(range === undefined ? 200 : 206, { 'content-length': rest.length, ...about }).end(rest);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/npm/`,
    asked,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
