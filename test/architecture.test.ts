import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';

/** Who may import whom: the rules of ARCHITECTURE.md, as a table. The first row whose `from` matches a file decides. */
const root = path.resolve(import.meta.dirname, '..');
const layers: { from: string; may: string[] }[] = [
  { from: 'src/main.ts', may: ['src', 'sip', 'media', 'net', 'config', 'examples'] },
  { from: 'src/app.ts', may: ['src', 'sip/leg', 'sip/server/protocol', 'media/engine'] },
  { from: 'src/metrics.ts', may: ['src/call', 'src/histograms', 'sip/leg', 'media/engine'] },
  { from: 'src/tracing/', may: ['src/tracing', 'src/call/core/ended-call', 'src/log', 'net'] },
  { from: 'src/redis/', may: ['src/redis', 'sip/registrar/locations'] },
  { from: 'src/histograms.ts', may: ['src/call'] },
  {
    from: 'src/api/',
    may: [
      'src/api',
      'src/redis',
      'src/store',
      'src/call',
      'src/billing',
      'src/transcription',
      'src/webhook',
      'src/log',
      'sip/cause',
      'media/agents/check',
      'media/agents/config-schema',
      'media/agents/providers/registry',
      'media/agents/variables',
      'net',
      'config',
    ],
  },
  {
    from: 'src/call/',
    may: [
      'src/call',
      'src/redis',
      'src/billing',
      'src/webhook',
      'src/speech',
      'src/transcription',
      'src/store',
      'src/log',
      'net',
      'sip/leg',
      'sip/cause',
      'media/engine',
      'media/stats',
      'media/agents/agent',
      'media/agents/check',
      'media/agents/descriptor',
      'media/agents/variables',
      'media/agents/providers/registry',
      'media/audio/clip',
      'config',
    ],
  },
  {
    from: 'src/webhook/',
    may: [
      'src/webhook',
      'src/store',
      'src/log',
      'sip/leg',
      'sip/cause',
      'media/engine',
      'media/agents/agent',
      'media/audio/clip',
      'net',
      'config',
    ],
  },
  { from: 'src/speech/', may: ['src/speech', 'media/audio', 'net', 'config'] },
  { from: 'src/store/', may: ['src/store', 'src/billing', 'src/log', 'sip/cause', 'sip/leg', 'net', 'config'] },
  { from: 'src/billing/', may: ['src/billing'] },
  {
    from: 'src/transcription/',
    may: ['src/transcription', 'src/speech/clip', 'src/speech/job-thread', 'media/audio', 'net', 'config'],
  },
  { from: 'src/simulator/', may: ['src/simulator', 'sip', 'media', 'config', 'examples/tone-agent'] },
  { from: 'src/cli/', may: ['src', 'net', 'config'] },
  { from: 'src/connection-tests.ts', may: ['src', 'media/agents', 'net', 'config'] },
  { from: 'src/', may: ['src', 'config', 'examples'] },
  { from: 'dashboard/', may: ['dashboard'] },
  { from: 'sip/server/', may: ['sip/server', 'config'] },
  { from: 'sip/', may: ['sip', 'net', 'config'] },
  { from: 'media/', may: ['media', 'net', 'config'] },
  { from: 'net/', may: ['net'] },
  { from: 'config/', may: ['config'] },
  { from: 'examples/', may: ['examples'] },
];

/** Where a package may be imported; what is not listed may be imported anywhere. */
const packages: Record<string, string[]> = {
  ioredis: ['src/redis/'],
  'drachtio-srf': ['sip/'],
  'drachtio-fsmrf': ['media/freeswitch/'],
  'libopus-wasm': ['media/audio/'],
  ws: ['media/', 'net/', 'sip/server/transport/', 'examples/', 'src/simulator/providers/'],
  'node-fetch': ['net/'],
  fastify: ['src/api/'],
  kysely: ['src/store/'],
  preact: ['dashboard/'],
  uplot: ['dashboard/'],
  'wavesurfer.js': ['dashboard/'],
  'openapi-fetch': ['dashboard/'],
  'better-sqlite3': ['src/store/'],
  '@photostructure/sqlite': ['src/store/'],
  commander: ['src/cli/'],
};

const folders = ['src', 'sip', 'media', 'net', 'config', 'examples', 'dashboard'];
const files = folders.flatMap((folder) =>
  readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.tsx?$/.test(name))
    .map((name) => `${folder}/${name.split(path.sep).join('/')}`),
);

interface Import {
  from: string;
  specifier: string;
  /** Repository path of a relative import, without ending. */
  target: string | null;
}

const statement =
  /(?:^|\n)\s*(?:import|export)\b[^'";]*?from\s+'([^']+)'|\bimport\(\s*'([^']+)'|(?:^|\n)import\s+'([^']+)'/g;

const imports: Import[] = files.flatMap((file) => {
  const text = readFileSync(path.join(root, file), 'utf8');
  return [...text.matchAll(statement)].map((match) => {
    const specifier = match[1] ?? match[2] ?? match[3] ?? '';
    const target = specifier.startsWith('.')
      ? path.posix.join(path.posix.dirname(file), specifier).replace(/\.(js|ts|json)$/, '')
      : null;
    return { from: file, specifier, target };
  });
});

describe('architecture', () => {
  it('reads the imports of every folder', () => {
    for (const folder of ['src/', 'sip/', 'media/', 'config/'])
      expect(imports.some((i) => i.from.startsWith(folder) && i.target !== null)).toBe(true);
  });

  it('imports go down the layers only', () => {
    const wrong = imports.filter(({ from, target }) => {
      if (target === null) return false;
      const layer = layers.find((l) => from.startsWith(l.from));
      return !layer?.may.some((may) => target === may || target.startsWith(`${may}/`) || target === `${may}/index`);
    });
    expect(wrong.map((i) => `${i.from} imports ${i.specifier}`)).toEqual([]);
  });

  it('packages stay where they belong', () => {
    const wrong = imports.filter(({ from, specifier, target }) => {
      if (target !== null) return false;
      const name = specifier
        .split('/')
        .slice(0, specifier.startsWith('@') ? 2 : 1)
        .join('/');
      const allowed = packages[name];
      return allowed !== undefined && !allowed.some((folder) => from.startsWith(folder));
    });
    expect(wrong.map((i) => `${i.from} imports ${i.specifier}`)).toEqual([]);
  });

  it('has no cycles, of types neither', () => {
    const edges = new Map<string, string[]>();
    for (const { from, target } of imports) {
      if (target === null) continue;
      const key = from.replace(/\.tsx?$/, '');
      edges.set(key, [...(edges.get(key) ?? []), target]);
    }
    // files that import each other, found by taking away what imports nothing, or is imported by nothing, that is left
    const left = new Set([...edges.keys(), ...[...edges.values()].flat()]);
    for (let before = -1; before !== left.size; ) {
      before = left.size;
      const imported = new Set(
        [...left].flatMap((file) => (edges.get(file) ?? []).filter((target) => left.has(target))),
      );
      for (const file of left)
        if (!imported.has(file) || !(edges.get(file) ?? []).some((target) => left.has(target))) left.delete(file);
    }
    const cycles = [...left].sort();
    expect(cycles).toEqual([]);
  });

  it('gives every exported type a name of its own', () => {
    const homes = new Map<string, string[]>();
    for (const file of files) {
      if (/^(examples|dashboard)\//.test(file)) continue; // programs of their own
      const text = readFileSync(path.join(root, file), 'utf8');
      for (const [, name = ''] of text.matchAll(/^export (?:interface|type|(?:abstract )?class|enum) (\w+)/gm))
        homes.set(name, [...(homes.get(name) ?? []), file]);
    }
    expect([...homes].filter(([, where]) => where.length > 1)).toEqual([]);
  });

  it('keeps folders small enough to be read at once', () => {
    const sizes = new Map<string, number>();
    for (const file of files) sizes.set(path.posix.dirname(file), (sizes.get(path.posix.dirname(file)) ?? 0) + 1);
    expect([...sizes].filter(([, size]) => size > 17)).toEqual([]);
  });

  it('limits every wait by net/deadline.ts: a garbage collection may take the timer of an AbortSignal.timeout away', () => {
    const using = files.filter((file) =>
      /\bAbortSignal\s*\.\s*timeout\s*\(/.test(readFileSync(path.join(root, file), 'utf8')),
    );
    expect(using).toEqual([]);
  });

  it('speaks of the product alone', () => {
    const tracked = folders.concat('test', 'bench', 'docs', 'bin').flatMap((folder) =>
      readdirSync(path.join(root, folder), { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => path.join(entry.parentPath, entry.name)),
    );
    const hints = new RegExp(`(^|[^\\w.])/${'work'}/|\\.\\./${'shared'}`);
    expect(tracked.filter((file) => hints.test(readFileSync(file, 'utf8')))).toEqual([]);
  });
});

describe('ARCHITECTURE.md', () => {
  const text = readFileSync(path.join(root, 'ARCHITECTURE.md'), 'utf8');
  const walks = [...text.matchAll(/\n## Walk: (.+)\n([\s\S]*?)(?=\n## )/g)].map(([, title = '', body = '']) => ({
    title,
    files: [...body.matchAll(/^\d+\. `([^`]+)`/gm)].map((match) => match[1]!),
  }));

  it('names files and folders that exist', () => {
    const named = [
      ...text.matchAll(/`((?:bench|config|docs|examples|media|net|sip|src|test)\/[\w./-]*)`|\]\(([\w./-]+\.md)/g),
    ];
    const paths = named.map((match) => match[1] ?? match[2] ?? '');
    expect(paths.length).toBeGreaterThan(100);
    expect(paths.filter((each) => !existsSync(path.join(root, each)))).toEqual([]);
  });

  it('has a row for every folder that holds sources of SIP, media or calls', () => {
    const rows = text.split('\n').filter((line) => line.startsWith('| `'));
    const listed = new Set(
      rows.flatMap((row) => [...row.split('|')[1]!.matchAll(/`([^`]+)`/g)].map((match) => match[1])),
    );
    const rooms = new Set(
      files.map((file) => `${path.posix.dirname(file)}/`).filter((room) => /^(sip|media|src\/call)\//.test(room)),
    );
    expect([...rooms].filter((room) => !listed.has(room) && room !== 'media/audio/')).toEqual([]);
  });

  it('walks an INVITE in 25 files and a frame each way in 12, each once', () => {
    expect(walks.map((walk) => walk.files.length)).toEqual([25, 12, 12]);
    for (const walk of walks) expect(new Set(walk.files).size, walk.title).toBe(walk.files.length);
  });

  it('walks along imports: every file of a walk imports another one of it, or is imported by one', () => {
    for (const walk of walks) {
      const names = new Set(walk.files.map((file) => file.replace(/\.ts$/, '')));
      const linked = new Set(
        imports.flatMap(({ from, target }) => {
          const name = from.replace(/\.ts$/, '');
          return target !== null && names.has(name) && names.has(target) ? [name, target] : [];
        }),
      );
      expect(
        [...names].filter((name) => !linked.has(name)),
        walk.title,
      ).toEqual([]);
    }
  });

  it('names the file of every thread', () => {
    const starting = files.filter((file) => /= new Worker\(/.test(readFileSync(path.join(root, file), 'utf8')));
    const threads = /\n## Threads\n([\s\S]*?)\n## /.exec(text)?.[1] ?? '';
    const named = [...threads.matchAll(/`((?:media|sip|src)\/[^`]+)`/g)].map((match) => match[1]!);
    expect(starting.length).toBeGreaterThan(5);
    expect(starting.filter((file) => !named.includes(file))).toEqual([]);
  });
});

/** Rooms of `src/call` and the rooms that each may import, types included. `root`: the files that tell a call from its start to its end. */
const callRooms: Record<string, string[]> = {
  redaction: [],
  core: ['redaction'],
  party: ['core'],
  prompts: ['core'],
  routing: ['core'],
  recording: ['core'],
  queue: ['core', 'party'],
  dial: ['core', 'party', 'prompts', 'routing', 'recording'],
  control: ['redaction', 'core', 'party', 'prompts', 'routing', 'recording', 'dial'],
  agent: ['core', 'party', 'prompts', 'routing', 'recording', 'dial', 'control'],
  conference: ['redaction', 'core', 'party', 'prompts', 'routing', 'recording', 'dial', 'control', 'agent'],
  script: ['core', 'party', 'prompts', 'routing', 'recording', 'queue', 'dial', 'control', 'agent', 'conference'],
  root: [
    'core',
    'party',
    'prompts',
    'routing',
    'recording',
    'queue',
    'dial',
    'control',
    'agent',
    'conference',
    'script',
    'answering',
  ],
  answering: ['core', 'party', 'control', 'script'],
  recovery: ['core'],
};

describe('media of a call', () => {
  it('are attached, bridged and joined by MediaControl alone; only the end of a party silences them itself', () => {
    const callers = files.filter(
      (file) =>
        file.startsWith('src/call/') &&
        /(?:session(?:\(\))?\??|room)\.(?:attach|bridge|join)\(/.test(readFileSync(path.join(root, file), 'utf8')),
    );
    expect(callers).toEqual(['src/call/party/media-control.ts', 'src/call/party/party.ts']);
  });
});

describe('rooms of src/call', () => {
  const roomOf = (file: string): string => /^src\/call\/([^/]+)\//.exec(file)?.[1] ?? 'root';
  const inside = imports.filter(({ from, target }) => from.startsWith('src/call/') && target?.startsWith('src/call/'));

  it('every folder is a room with a place in the order', () => {
    const own = files.filter((file) => file.startsWith('src/call/'));
    expect([...new Set(own.map(roomOf))].sort()).toEqual(Object.keys(callRooms).sort());
  });

  it('a room imports only itself and the rooms below it', () => {
    const wrong = inside.filter(({ from, target }) => {
      const [room, other] = [roomOf(from), roomOf(target ?? '')];
      return room !== other && !callRooms[room]?.includes(other);
    });
    expect(wrong.map((i) => `${i.from} imports ${i.specifier}`)).toEqual([]);
  });
});

describe('programs that a test starts as processes', () => {
  it('load files that exist', () => {
    const missing: string[] = [];
    for (const file of readdirSync(path.join(root, 'test'), { recursive: true, encoding: 'utf8' })) {
      if (!file.endsWith('.test.ts')) continue;
      const text = readFileSync(path.join(root, 'test', file), 'utf8');
      for (const [, built] of text.matchAll(/load\('(\/[^']+)\.js'\)/g))
        if (!existsSync(path.join(root, `${built}.ts`))) missing.push(`${file}: ${built}.js`);
    }
    expect(missing).toEqual([]);
  });
});
