import { afterEach, describe, expect, it } from 'vitest';
import { TranscriptionError } from '../../src/transcription/engine.js';
import { type OfflineEngine, offlineEngine } from '../../src/transcription/offline/offline-engine.js';
import { RecognitionBusy, RecognitionPool } from '../../src/transcription/offline/recognition-pool.js';
import { collectGarbage } from '../support/collect-garbage.js';

const module = new URL('../fixtures/recognition-worker.mjs', import.meta.url);
const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});

function poolOf(options: { mostWaiting?: number; runLimitMs?: number; threads?: number } = {}): RecognitionPool {
  const common = { folder: '/nowhere', engine: 'native' as const, module };
  const pool = new RecognitionPool({ ...common, threads: 1, mostWaiting: 8, runLimitMs: 30_000, ...options });
  open.push(pool);
  return pool;
}

const never = new AbortController().signal;
const textOf = (pool: RecognitionPool, path: string, signal = never) =>
  pool.recognize({ path, format: 'wav' }, signal).then(
    ({ text }) => text,
    (error: Error) => error.message,
  );

describe('a pool of threads that recognize speech', () => {
  it('recognizes in the order of arrival, and a file that fails fails alone', async () => {
    const pool = poolOf({ runLimitMs: 2000 });
    const texts = await Promise.all(['a', 'bad', 'die', 'b', 'hang', 'c'].map((path) => textOf(pool, path)));
    expect(texts).toEqual([
      'a wav native',
      'The audio file cannot be decoded.',
      'The offline recognition failed; `trunkline setup speech --status` checks its files.',
      'b wav native',
      'The offline recognition did not finish in time.',
      'c wav native',
    ]);
  });

  it('refuses at once what more would wait than it may, and works again afterwards', async () => {
    const pool = poolOf({ mostWaiting: 1 });
    const stop = new AbortController();
    const running = textOf(pool, 'until cancelled', stop.signal);
    const waiting = textOf(pool, 'waiting');
    await expect(pool.recognize({ path: 'much', format: 'wav' }, never)).rejects.toThrow(RecognitionBusy);
    stop.abort(new Error('gone'));
    expect([await running, await waiting]).toEqual(['gone', 'waiting wav native']);
    expect(await textOf(pool, 'later')).toBe('later wav native');
  });

  it('forgets what was cancelled before its turn, although the garbage is collected meanwhile', async () => {
    const pool = poolOf();
    const [first, second] = [new AbortController(), new AbortController()];
    const running = textOf(pool, 'until cancelled', first.signal);
    const waiting = textOf(pool, 'die', second.signal);
    await collectGarbage();
    second.abort(new Error('hung up'));
    first.abort(new Error('gone'));
    expect([await waiting, await running, await textOf(pool, 'a')]).toEqual(['hung up', 'gone', 'a wav native']);
    expect(await textOf(pool, 'a', AbortSignal.abort(new Error('before')))).toBe('before');
  });

  it('lets what yields wait for all others, with a limit of its own, and leaves one of several threads idle', async () => {
    const yielding = (pool: RecognitionPool, path: string, signal = never) =>
      pool.recognize({ path, format: 'wav' }, signal, true).then(
        ({ text }) => text,
        (error: Error) => error.message,
      );
    const one = poolOf({ mostWaiting: 1 });
    const stop = new AbortController();
    const running = textOf(one, 'until cancelled', stop.signal);
    const order: string[] = [];
    const all = [yielding(one, 'yields'), textOf(one, 'does not')].map((text) => text.then((said) => order.push(said)));
    expect(await yielding(one, 'too much')).toBe('Too much speech waits to be recognized.');
    stop.abort(new Error('gone'));
    await Promise.all([running, ...all]);
    expect(order).toEqual(['does not wav native', 'yields wav native']);

    const two = poolOf({ threads: 2 });
    const first = new AbortController();
    const held = yielding(two, 'until cancelled', first.signal);
    const second = yielding(two, 'second');
    expect(await textOf(two, 'a caller')).toBe('a caller wav native');
    first.abort(new Error('enough'));
    expect([await held, await second]).toEqual(['enough', 'second wav native']);
  });

  it('ends what runs and what waits when it closes', async () => {
    const pool = poolOf();
    const texts = [textOf(pool, 'hang'), textOf(pool, 'waiting')];
    await pool.close();
    expect(await Promise.all(texts)).toEqual(['The server is stopping.', 'The server is stopping.']);
    expect(await textOf(pool, 'late')).toBe('The server is stopping.');
  });
});

describe('the offline engine', () => {
  const installed = { engine: 'wasm' as const, model: 'tiny', packages: [], files: [] };
  const engineOf = (): OfflineEngine => {
    const engine = offlineEngine('/nowhere', installed, { cores: 2, module });
    open.push(engine);
    return engine;
  };
  const file = (path: string) => ({ path, format: 'wav' });

  it('answers the text and the name of its model', async () => {
    expect(await engineOf().transcribe(file('a'), never, { language: 'en-GB', hints: 'x' })).toEqual({
      ...{ text: 'a wav wasm', model: 'tiny' },
    });
  });

  it('starts its threads when a caller is about to speak', async () => {
    const common = {
      folder: '/nowhere',
      engine: 'native' as const,
      module,
      threads: 1,
      mostWaiting: 8,
      runLimitMs: 30_000,
    };
    const [prepared, later] = [new RecognitionPool(common), new RecognitionPool(common)];
    open.push(prepared, later);
    prepared.start();
    const threadOf = async (pool: RecognitionPool) => (await pool.recognize(file('a'), never)).audioMs;
    expect(await threadOf(later)).toBeGreaterThan(await threadOf(prepared)); // threads are numbered as they start
  });

  it('hears callers while a long file is being recognized', async () => {
    const engine = engineOf();
    const stop = new AbortController();
    const long = engine.transcribe(file('until cancelled'), stop.signal).catch((error: Error) => error.message);
    expect((await engine.transcribe(file('caller'), never, { use: 'dialogue' })).text).toBe('caller wav wasm');
    stop.abort(new Error('enough'));
    expect(await long).toBe('enough');
  });

  it('says that it understands English only, what is wrong with a file, and when it has too much to do', async () => {
    const engine = engineOf();
    await expect(engine.transcribe(file('a'), never, { language: 'de-AT' })).rejects.toThrow(
      /English only, not "de-AT": set TRUNKLINE_TRANSCRIPTION_URL/,
    );
    await expect(engine.transcribe(file('bad'), never)).rejects.toThrow('The audio file cannot be decoded.');
    const stop = new AbortController();
    const all = Array.from({ length: 9 }, () => engine.transcribe(file('until cancelled'), stop.signal));
    const settled = Promise.allSettled(all);
    const refused = await engine.transcribe(file('more'), never).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(TranscriptionError);
    expect(refused).toMatchObject({ isBusy: true, message: 'Too much speech waits to be recognized.' });
    stop.abort();
    await settled;
  });
});
