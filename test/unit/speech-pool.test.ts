import { afterEach, describe, expect, it } from 'vitest';
import { createSafeHttp } from '../../net/http.js';
import { Clips } from '../../src/speech/clips.js';
import { openSpeechPools, SpeechPool } from '../../src/speech/speech-pool.js';

const module = new URL('../fixtures/speech-worker.mjs', import.meta.url);
const open: SpeechPool[] = [];
afterEach(async () => {
  for (const pool of open.splice(0)) await pool.close();
});

function poolOf(limits: { waitLimitMs?: number; runLimitMs?: number } = {}, threads = 1): SpeechPool {
  const pool = new SpeechPool({ threads, waitLimitMs: 10_000, runLimitMs: 10_000, module, ...limits });
  open.push(pool);
  return pool;
}

const say = (pool: SpeechPool, text: string, dueInMs = 0) =>
  pool.make({ kind: 'say', text, voice: 'slt', language: null, hurried: false }, performance.now() + dueInMs);
const textOf = (pool: SpeechPool, text: string, dueInMs = 0) =>
  say(pool, text, dueInMs).made.then(
    ({ clip }) => Buffer.from(clip as SharedArrayBuffer).toString(),
    (error: Error) => error.message,
  );

describe('a pool of threads that speak', () => {
  it('makes what is due first before what was asked for first, and what is hurried before both', async () => {
    const pool = poolOf();
    const done: string[] = [];
    const note = (text: string, dueInMs: number) => {
      const job = say(pool, text, dueInMs);
      return { job, noted: job.made.then(() => done.push(text)) };
    };
    const all = [note('first 100', 0), note('later', 3000), note('sooner', 1000), note('hurried', 2000)];
    pool.hurry(all[3]!.job, performance.now());
    await Promise.all(all.map(({ noted }) => noted));
    expect(done).toEqual(['first 100', 'hurried', 'sooner', 'later']);
  });

  it('loses only the job that hangs: its thread is replaced', async () => {
    const pool = poolOf({ runLimitMs: 300 });
    const texts = ['hang', 'a', 'b', 'die', 'c'].map((text) => textOf(pool, text));
    expect(await Promise.all(texts)).toEqual([
      'The audio could not be prepared in time.',
      'a',
      'b',
      'The audio could not be prepared.',
      'c',
    ]);
  });

  it('gives up only the job that waits too long, from when its caller began to wait', async () => {
    const pool = poolOf({ waitLimitMs: 300 });
    const texts = [textOf(pool, 'first 700'), textOf(pool, 'now', 0), textOf(pool, 'later', 1000)];
    expect(await Promise.all(texts)).toEqual(['first 700', 'The audio could not be prepared within 0.3 s.', 'later']);
  });

  it('takes the quick voice for what has waited long', async () => {
    const pool = poolOf();
    const jobs = [say(pool, 'first 1000'), say(pool, 'late'), say(pool, 'in time', 60_000)];
    const warned = await Promise.all(jobs.map(async ({ made }) => (await made).warning?.code ?? null));
    expect(warned).toEqual([null, 'speech_hurried', null]);
  });

  it('takes the quick voice while more callers wait than the slow one can serve in time, and not for texts due later', async () => {
    const quick = async (dueInMs: number) => {
      const pool = poolOf();
      const jobs = Array.from({ length: 20 }, (_, n) => say(pool, `${n}`, n === 0 ? 0 : dueInMs));
      const warned = await Promise.all(jobs.map(async ({ made }) => (await made).warning?.code));
      return warned.filter((code) => code === 'speech_hurried').length;
    };
    expect(await quick(0)).toBeGreaterThan(5);
    expect(await quick(60_000)).toBe(0);
  });

  it('ends what waits and what runs when it is closed', async () => {
    const pool = poolOf();
    const texts = [textOf(pool, 'hang'), textOf(pool, 'a')];
    await pool.close();
    expect(await Promise.all([...texts, textOf(pool, 'b')])).toEqual(Array(3).fill('The server is stopping.'));
  });
});

it('sixty callers at 40 a second with greetings of their own all hear them', async () => {
  const { speech, files } = openSpeechPools(2);
  open.push(speech, files);
  const http = createSafeHttp({ allowPrivate: true });
  const clips = new Clips({ speech, files, http, operatorHttp: http, speechServer: null });
  await clips.say({ text: 'The thread has started.', voice: null, language: null, dueAtMs: performance.now() });
  await Promise.all(
    Array.from({ length: 60 }, async (_, n) => {
      await new Promise((resolve) => setTimeout(resolve, n * 25));
      const dueAtMs = performance.now();
      const text = `Good morning number ${n}, thank you for calling.`;
      const { clip } = await clips.say({ text, voice: null, language: null, dueAtMs });
      expect((clip as SharedArrayBuffer | null)?.byteLength).toBeGreaterThan(8000);
    }),
  );
}, 30_000);
