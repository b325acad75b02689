import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ulawToLinear } from '../../media/audio/codec/g711.js';
import { createSafeHttp } from '../../net/http.js';
import { Clips, type SpeechRequest } from '../../src/speech/clips.js';
import { fliteVoices } from '../../src/speech/flite.js';
import { activeLevelDb, spokenLevelDb } from '../../src/speech/loudness.js';
import { openSpeechPools } from '../../src/speech/speech-pool.js';
import type { SpeechServerSettings } from '../../src/speech/speech-server.js';
import { SpeechStream } from '../../src/speech/speech-stream.js';
import { startReceiver } from '../support/receiver.js';

const pools = openSpeechPools();
const decode = (bytes: Uint8Array) => pools.files.make({ kind: 'file', bytes }, 0).made.then(({ clip }) => clip!);
let folder: string;
const closing: (() => unknown)[] = [() => pools.speech.close(), () => pools.files.close()];
const http = createSafeHttp({ allowPrivate: true });

beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'trunkline-audio-'));
  closing.push(() => rmSync(folder, { recursive: true }));
});
afterAll(async () => {
  for (const close of closing) await close();
});

const clipsWith = (options: { speechServer?: SpeechServerSettings; now?: () => number } = {}) =>
  new Clips({ ...pools, http, operatorHttp: http, speechServer: null, ...options });

/** A second of a 440 Hz tone in stereo, made by sox. */
function tone(format: string, rateHz = 22_050): Buffer {
  const file = path.join(folder, `tone-${rateHz}.${format}`);
  try {
    execFileSync('sox', ['-n', '-r', String(rateHz), '-c', '2', file, 'synth', '1', 'sine', '440', 'vol', '0.5']);
  } catch (error) {
    throw new Error('This test needs sox (apt-get install sox).', { cause: error });
  }
  return readFileSync(file);
}

/** How much of the energy lies at 440 Hz, 0 to 1, and how loud it is against full scale. */
function analyse(clip: SharedArrayBuffer) {
  const samples = Array.from(new Uint8Array(clip), (code) => ulawToLinear[code] ?? 0).slice(400, 7600);
  const energy = samples.reduce((sum, sample) => sum + sample * sample, 0);
  const along = (phase: (x: number) => number) =>
    samples.reduce((sum, sample, i) => sum + sample * phase((2 * Math.PI * 440 * i) / 8000), 0);
  const purity = (along(Math.sin) ** 2 + along(Math.cos) ** 2) / ((energy * samples.length) / 2);
  return { purity, rms: Math.sqrt(energy / samples.length) / 32_768 };
}

describe('files', () => {
  test.each([
    ['wav', 8000],
    ['wav', 44_100],
    ['wav', 48_000],
    ['ogg', 22_050],
    ['flac', 22_050],
  ])('%s of %i Hz become a clip of the same sound', async (format, rateHz) => {
    const clip = await decode(new Uint8Array(tone(format, rateHz)));
    expect(clip.byteLength).toBeGreaterThan(7900);
    expect(clip.byteLength).toBeLessThan(8500);
    const { purity, rms } = analyse(clip);
    expect(purity).toBeGreaterThan(0.99);
    expect(rms).toBeGreaterThan(0.33);
    expect(rms).toBeLessThan(0.37);
  });

  // Made of the same tone by lame and opusenc, which no test needs to have.
  test.each(['mp3', 'opus'])('%s become a clip of the same sound', async (format) => {
    const file = path.join(import.meta.dirname, `../fixtures/audio/tone-440.${format}`);
    const clip = await decode(new Uint8Array(readFileSync(file)));
    expect(clip.byteLength).toBeGreaterThan(7900);
    expect(clip.byteLength).toBeLessThan(9000);
    const { purity, rms } = analyse(clip);
    expect(purity).toBeGreaterThan(0.95);
    expect(rms).toBeGreaterThan(0.32);
    expect(rms).toBeLessThan(0.38);
  });

  test('that are none, and cut ones, are refused or give what is in them; the thread lives on', async () => {
    const bytes = tone('flac');
    await expect(decode(new TextEncoder().encode('<html>'))).rejects.toThrow();
    await expect(decode(new Uint8Array(0))).rejects.toThrow();
    await decode(new Uint8Array(bytes.subarray(0, 3000))).catch(() => {});
    expect((await decode(new Uint8Array(bytes))).byteLength).toBeGreaterThan(7900);
  });

  test('are fetched once for all who want them, and again when they are old', async () => {
    let nowMs = 0;
    const wav = tone('wav', 8000);
    const server = await startReceiver((_request, response) => response.writeHead(200).end(wav));
    closing.push(() => server.close());
    const clips = clipsWith({ now: () => nowMs });
    const [one, two] = await Promise.all([clips.fetch(`${server.url}/a.wav`), clips.fetch(`${server.url}/a.wav`)]);
    expect(one).toBe(two);
    nowMs = 59_000;
    expect(await clips.fetch(`${server.url}/a.wav`)).toBe(one);
    expect(server.requests).toHaveLength(1);
    nowMs = 61_000;
    await clips.fetch(`${server.url}/a.wav`);
    expect(server.requests).toHaveLength(2);
  });

  test('that cannot be fetched are reported in one sentence, and tried again the next time', async () => {
    let status = 404;
    const server = await startReceiver((_request, response) => response.writeHead(status).end(tone('wav', 8000)));
    closing.push(() => server.close());
    const clips = clipsWith();
    await expect(clips.fetch(server.url)).rejects.toThrow("The audio file's server answered 404.");
    await expect(clips.fetch('http://127.0.0.1:1/x.wav')).rejects.toThrow('No connection (ECONNREFUSED).');
    status = 200;
    expect((await clips.fetch(server.url)).byteLength).toBeGreaterThan(7900);
  });
});

/** The clip of a text; of a stream when it has become one. */
async function clipOf(clips: Clips, speech: SpeechRequest) {
  const { clip, ...spoken } = await clips.say(speech);
  if (!(clip instanceof SpeechStream)) return { ...spoken, clip };
  expect(await clip.ended).toBeNull();
  const kept = () => clips.say(speech).then((again) => again.clip as SharedArrayBuffer);
  await expect.poll(kept).toBeInstanceOf(SharedArrayBuffer);
  return { ...spoken, clip: await kept() };
}

const saying = (text: string, more: Partial<SpeechRequest> = {}): SpeechRequest => ({
  ...{ text, voice: null, language: null, dueAtMs: performance.now() },
  ...more,
});

describe('texts', () => {
  test('are spoken offline, once for all who say the same', async () => {
    const clips = clipsWith();
    const text = 'Welcome. Press one for sales, two for support.';
    const { clip, warnings } = await clipOf(clips, saying(text));
    expect(clip!.byteLength).toBeGreaterThan(8000);
    expect(clip!.byteLength).toBeLessThan(8 * 8000);
    expect(warnings).toEqual([]);
    expect((await clipOf(clips, saying(text))).clip).toBe(clip);
    expect((await clipOf(clips, saying(text, { voice: 'rms' }))).clip).not.toBe(clip);
  });

  test('sound the same at any time, although the voice keeps its memory', async () => {
    const text = 'Press one for sales.';
    const first = Buffer.from((await clipOf(clipsWith(), saying(text))).clip!);
    await clipsWith().say(saying('Something else, and longer, in another voice.', { voice: 'awb' }));
    expect(Buffer.from((await clipOf(clipsWith(), saying(text))).clip!).equals(first)).toBe(true);
  });

  test.each(fliteVoices)('of the voice %s are as loud as those of the others', async (voice) => {
    const text = 'Thank you for calling the front desk of Example Airways.';
    const { clip } = await clipOf(clipsWith(), saying(text, { voice }));
    const samples = Int16Array.from(new Uint8Array(clip!), (code) => ulawToLinear[code] ?? 0);
    expect(Math.abs(activeLevelDb(samples, 8000) - spokenLevelDb)).toBeLessThan(1);
    expect(samples.reduce((peak, sample) => Math.max(peak, Math.abs(sample)), 0)).toBeLessThan(0.95 * 32_768);
  });

  test('are spoken by the speech server of the settings', async () => {
    const wav = tone('wav', 8000);
    const server = await startReceiver((_request, response) => response.writeHead(200).end(wav));
    closing.push(() => server.close());
    const clips = clipsWith({ speechServer: { url: server.url, key: 'secret', model: 'tts-1' } });
    const { clip, warnings } = await clipOf(clips, saying('Hello', { voice: 'nova' }));
    expect(analyse(clip!).purity).toBeGreaterThan(0.99);
    expect(warnings).toEqual([]);
    const [request] = server.requests;
    expect(request?.path).toBe('/v1/audio/speech');
    expect(request?.headers.authorization).toBe('Bearer secret');
    expect(JSON.parse(request?.body ?? '')).toEqual({
      model: 'tts-1',
      input: 'Hello',
      voice: 'nova',
      response_format: 'wav',
    });
  });
});

describe('a speech server that fails', () => {
  type Failing = Parameters<typeof startReceiver>[0];
  const withServer = async (answer: Failing, now?: () => number) => {
    const server = await startReceiver(answer);
    closing.push(() => server.close());
    return {
      server,
      clips: clipsWith({ speechServer: { url: server.url, key: null, model: 'm' }, ...(now && { now }) }),
    };
  };
  const wav = () => tone('wav', 8000);

  test.each<[string, Failing, string]>([
    ['answers 500', (_request, response) => response.writeHead(500).end(), 'The speech server answered 500.'],
    ['refuses the voice', (_request, response) => response.writeHead(400).end(), 'The speech server answered 400.'],
    [
      'answers garbage',
      (_request, response) => response.writeHead(200).end('<html>'),
      'The speech server answered no usable audio.',
    ],
    [
      'closes in the middle of its answer',
      (_request, response) => {
        response.writeHead(200, { 'content-length': 100_000 });
        response.write(wav().subarray(0, 500), () => response.destroy()); // less than is played at once
      },
      'The speech server failed: The request failed',
    ],
    ['never answers', () => {}, 'The speech server failed: No complete answer within 4000 ms.'],
  ])('%s: the offline voice speaks, and a warning says so', async (_, answer, why) => {
    const { clips } = await withServer(answer);
    const startedMs = performance.now();
    const { clip, warnings } = await clipOf(clips, saying('Thank you for calling.', { voice: 'nova' }));
    expect(clip!.byteLength).toBeGreaterThan(4000);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]?.code).toBe('speech_server_failed');
    expect(warnings[0]?.message).toContain(why);
    expect(warnings[0]?.message).toMatch(/The offline voice spoke instead\.$/);
    expect(performance.now() - startedMs).toBeLessThan(8000);
  });

  test('three times in a row is not asked for a while; then a text that nobody waits for tries it', async () => {
    let nowMs = 0;
    let status = 500;
    const { server, clips } = await withServer(
      (_request, response) => (status === 200 ? response.writeHead(200).end(wav()) : response.writeHead(status).end()),
      () => nowMs,
    );
    for (const n of [1, 2, 3, 4, 5]) await clips.say(saying(`Text ${n}.`));
    expect(server.requests).toHaveLength(3);
    nowMs = 14_000;
    await clips.say(saying('Text 6.'));
    expect(server.requests).toHaveLength(3);
    [nowMs, status] = [15_001, 200];
    const trying = await clips.say(saying('Text 7.'));
    expect(trying.warnings[0]?.message).toMatch(/not asked, for it failed 3 times in a row/);
    await expect.poll(() => server.requests.length).toBe(4);
    await expect.poll(async () => (await clips.say(saying(`Text ${performance.now()}.`))).warnings.length).toBe(0);
  });

  test('lets all go who wait for it when it is found dead', async () => {
    const { server, clips } = await withServer((request, response) => {
      const { input } = JSON.parse(request.body) as { input: string };
      if (input.startsWith('Bad')) response.writeHead(500).end();
    });
    const startedMs = performance.now();
    const waiting = clips.say(saying('Somebody waits.'));
    await expect.poll(() => server.requests.length).toBe(1);
    for (const n of [1, 2, 3]) await clips.say(saying(`Bad ${n}.`));
    expect(((await waiting).clip as SharedArrayBuffer).byteLength).toBeGreaterThan(4000);
    expect(performance.now() - startedMs).toBeLessThan(3500);
  });

  test('refusals of single texts do not count', async () => {
    const { server, clips } = await withServer((_request, response) => response.writeHead(400).end());
    for (const n of [1, 2, 3, 4, 5]) await clips.say(saying(`Text ${n}.`));
    expect(server.requests).toHaveLength(5);
  });
});
