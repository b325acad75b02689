import { spawnSync } from 'node:child_process';

/**
 * espeak-ng, where this machine has it on its PATH: it speaks the languages that the offline voice does not. Blocks its thread: for
 * workers. The text goes to its standard input, the language is one of its own list, and no shell is involved.
 */
const program = 'espeak-ng';
const limitMs = 4000;
const maxFileBytes = 22_050 * 2 * 300;
/** Its names for what BCP 47 calls otherwise. */
const otherNames: Readonly<Record<string, string>> = {
  zh: 'cmn',
  'zh-cn': 'cmn',
  'zh-tw': 'cmn',
  'zh-hk': 'yue',
  no: 'nb',
};

let languages: ReadonlySet<string> | null = null;

/** Its name for a BCP 47 language such as `de-AT`; null: it does not speak that, or is not there. */
export function espeakLanguage(language: string): string | null {
  languages ??= languagesOf(run(['--voices']));
  const tag = language.toLowerCase();
  const base = tag.split('-')[0] ?? tag;
  const candidates = [otherNames[tag], tag, otherNames[base], base];
  return candidates.find((name) => name !== undefined && languages?.has(name)) ?? null;
}

/** A WAV file of the spoken text. `language` as `espeakLanguage` answers it. Throws when nothing was spoken. */
export function speakWithEspeak(text: string, language: string): Uint8Array {
  const file = run(['-v', language, '--stdin', '--stdout'], text);
  if (file === null) throw new Error(`${program} did not speak.`);
  return new Uint8Array(file);
}

/** What it writes; null: it is not there, failed, or took too long. */
function run(args: readonly string[], input = ''): Buffer | null {
  const { status, stdout } = spawnSync(program, args, {
    input,
    timeout: limitMs,
    killSignal: 'SIGKILL',
    maxBuffer: maxFileBytes,
    stdio: ['pipe', 'pipe', 'ignore'],
    env: { PATH: process.env.PATH },
  });
  return status === 0 ? stdout : null;
}

/** The second column of its table of voices, and what the last one has in parentheses: `(fr 5)(fr-be 8)`. */
function languagesOf(table: Buffer | null): ReadonlySet<string> {
  const rows = table?.toString('utf8').split('\n').slice(1) ?? [];
  const names = rows.flatMap((row) => [
    row.trim().split(/\s+/)[1],
    ...[...row.matchAll(/\(([\w-]+)/g)].map(([, name]) => name),
  ]);
  return new Set(names.filter((name) => name !== undefined && /^[a-z]/.test(name)) as string[]);
}
