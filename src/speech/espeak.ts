import { spawnSync } from 'node:child_process';

/**
 * espeak-ng, if it is on the PATH: it speaks the languages that the offline voice lacks. Blocks its thread: for
 * workers. The text goes to its standard input, the language is one of its own list, and no shell is used.
 */
const program = 'espeak-ng';
const limitMs = 4000;
const maxFileBytes = 22_050 * 2 * 300;
/** espeak-ng's names of languages whose BCP 47 names differ. */
const otherNames: Readonly<Record<string, string>> = {
  zh: 'cmn',
  'zh-cn': 'cmn',
  'zh-tw': 'cmn',
  'zh-hk': 'yue',
  no: 'nb',
};

let languages: ReadonlySet<string> | null = null;

/** espeak-ng's name for a BCP 47 language such as `de-AT`; null: it lacks the language, or is not installed. */
export function espeakLanguage(language: string): string | null {
  languages ??= languagesOf(run(['--voices']));
  const tag = language.toLowerCase();
  const base = tag.split('-')[0] ?? tag;
  const candidates = [otherNames[tag], tag, otherNames[base], base];
  return candidates.find((name) => name !== undefined && languages?.has(name)) ?? null;
}

/** A WAV file of the spoken text. `language` as `espeakLanguage` returns it. Throws when there is no audio. */
export function speakWithEspeak(text: string, language: string): Uint8Array {
  const file = run(['-v', language, '--stdin', '--stdout'], text);
  if (file === null) throw new Error(`${program} did not speak.`);
  return new Uint8Array(file);
}

/** Its standard output; null: it is not installed, failed, or took too long. */
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

/** The second column of its table of voices, and the names in parentheses of the last one: `(fr 5)(fr-be 8)`. */
function languagesOf(table: Buffer | null): ReadonlySet<string> {
  const rows = table?.toString('utf8').split('\n').slice(1) ?? [];
  const names = rows.flatMap((row) => [
    row.trim().split(/\s+/)[1],
    ...[...row.matchAll(/\(([\w-]+)/g)].map(([, name]) => name),
  ]);
  return new Set(names.filter((name) => name !== undefined && /^[a-z]/.test(name)) as string[]);
}
