/** The offline recognition on disk: one folder beside the database, which is complete or absent. */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, readFile, rename, rm, statfs, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { type EngineKind, modelFiles, modelName, type SpeechPack } from './packages.js';
import {
  type NpmConfig,
  type Progress,
  registriesOf,
  SpeechSetupError,
  tarballOfFolder,
  tarballOfRegistry,
} from './registry.js';
import { filesOfTarball } from './tarball.js';

/** What is installed. */
export interface InstalledSpeech {
  engine: EngineKind;
  model: string;
  packages: { name: string; version: string; license: string }[];
  files: { path: string; bytes: number; sha256: string }[];
}

export interface SpeechSetup {
  dataDir: string;
  pack: SpeechPack;
  /** A folder with the tarballs; null: the npm registry. */
  from: string | null;
  env: NodeJS.ProcessEnv;
  progress: Progress;
  /** Default: asks npm. */
  npmConfig?: NpmConfig | undefined;
}

/** For the tarballs and the unpacked files at once. */
const neededBytes = 150 * 1024 * 1024;
const manifestName = 'installed.json';

export function speechFolder(dataDir: string): string {
  return path.resolve(dataDir, 'speech');
}

const downloadsFolder = (dataDir: string) => path.resolve(dataDir, 'speech-downloads');

/** What is installed, by its manifest; null: nothing. Reads one small file. */
export function installedSpeech(dataDir: string): InstalledSpeech | null {
  const file = path.join(speechFolder(dataDir), manifestName);
  if (!existsSync(file)) return null;
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as InstalledSpeech;
  } catch {
    return null;
  }
}

/** The files that are missing or differ from what was installed. */
export async function damagedFiles(dataDir: string, { files }: InstalledSpeech): Promise<string[]> {
  const folder = speechFolder(dataDir);
  const damaged: string[] = [];
  for (const file of files) {
    const content = await readFile(path.join(folder, file.path)).catch(() => null);
    if (content === null || sha256(content) !== file.sha256) damaged.push(file.path);
  }
  return damaged;
}

/** Fetches, checks and unpacks. The folder appears when all of it is there; an older one is replaced. Rejects with `SpeechSetupError`. */
export async function setUpSpeech(setup: SpeechSetup, signal: AbortSignal): Promise<InstalledSpeech> {
  const { dataDir, pack } = setup;
  const folder = speechFolder(dataDir);
  const growing = `${folder}.new`;
  try {
    await mkdir(dataDir, { recursive: true });
    await checkSpace(dataDir);
    await rm(growing, { recursive: true, force: true });
    const names = pack.packages.map(({ name }) => name);
    const registries =
      setup.from === null ? await registriesOf(names, setup.env, setup.npmConfig) : new Map<string, URL>();
    const installed: InstalledSpeech = { engine: pack.engine, model: modelName, packages: [], files: [] };
    for (const wanted of pack.packages) {
      const tarball = await tarballOf(setup, registries, wanted, signal);
      const content = unpacked(tarball, wanted.name);
      const files =
        wanted.files === 'all'
          ? [...content.keys()].map((from) => ({ from, to: `node_modules/${wanted.name}/${from}` }))
          : wanted.files;
      for (const file of files) {
        const bytes = content.get(file.from);
        const known = 'sha256' in file ? file.sha256 : undefined;
        if (bytes === undefined || (known !== undefined && known !== sha256(bytes)))
          throw new SpeechSetupError(
            'WRONG_CONTENT',
            `${file.from} of ${wanted.name} is not the file that Trunkline knows.`,
          );
        installed.files.push(await write(growing, file.to, bytes));
      }
      const { name, version, license } = wanted;
      installed.packages.push({ name, version, license });
    }
    const vocabulary = await readFile(path.join(growing, modelFiles.vocabulary), 'utf8');
    installed.files.push(await write(growing, modelFiles.tokens, Buffer.from(tokensOf(vocabulary))));
    await writeFile(path.join(growing, manifestName), JSON.stringify(installed, null, 2));
    await rm(folder, { recursive: true, force: true });
    await rename(growing, folder);
    await rm(downloadsFolder(dataDir), { recursive: true, force: true });
    return installed;
  } catch (error) {
    await rm(growing, { recursive: true, force: true }).catch(() => {});
    throw asSetupError(error, dataDir);
  }
}

/** Also removes unfinished downloads. False: nothing was there. */
export async function removeSpeech(dataDir: string): Promise<boolean> {
  const folders = [speechFolder(dataDir), `${speechFolder(dataDir)}.new`, downloadsFolder(dataDir)];
  const was = folders.some((folder) => existsSync(folder));
  for (const folder of folders) await rm(folder, { recursive: true, force: true });
  return was;
}

async function tarballOf(
  { dataDir, from, progress }: SpeechSetup,
  registries: ReadonlyMap<string, URL>,
  wanted: SpeechPack['packages'][number],
  signal: AbortSignal,
): Promise<Uint8Array> {
  if (from !== null) return tarballOfFolder(from, wanted);
  const registry = registries.get(wanted.name) as URL;
  return tarballOfRegistry(registry, wanted, downloadsFolder(dataDir), progress, signal);
}

function unpacked(tarball: Uint8Array, name: string): Map<string, Uint8Array> {
  try {
    return filesOfTarball(tarball);
  } catch (error) {
    throw new SpeechSetupError('WRONG_CONTENT', `The package ${name} cannot be unpacked: ${(error as Error).message}`);
  }
}

async function write(folder: string, to: string, content: Uint8Array): Promise<InstalledSpeech['files'][number]> {
  const file = path.join(folder, to);
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(file, content);
  return { path: to, bytes: content.length, sha256: sha256(content) };
}

/** One line for each piece of a word: its bytes in base64, and its number. */
function tokensOf(vocabulary: string): string {
  const encoded = /\bllama_vocab_base64\s*=\s*"([A-Za-z0-9+/=]+)"/.exec(vocabulary)?.[1];
  if (encoded === undefined)
    throw new SpeechSetupError('WRONG_CONTENT', 'The vocabulary of the model is not where it was expected.');
  const pieces = Buffer.from(encoded, 'base64').toString('utf8').split('\n');
  return pieces.map((piece, number) => `${Buffer.from(piece).toString('base64')} ${number}\n`).join('');
}

async function checkSpace(dataDir: string): Promise<void> {
  const { bavail, bsize } = await statfs(dataDir);
  if (bavail * bsize >= neededBytes) return;
  throw Object.assign(new Error('too little space'), { code: 'ENOSPC' });
}

function asSetupError(error: unknown, dataDir: string): unknown {
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new SpeechSetupError(
      'DISK_FULL',
      `The disk of ${dataDir} has too little space; the recognition needs 150 MB.`,
    );
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS')
    return new SpeechSetupError(
      'NOT_WRITABLE',
      `${dataDir} cannot be written (${code}): run the command as its owner.`,
    );
  return error;
}

function sha256(content: Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}
