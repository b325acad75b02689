import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ulawToLinear } from '../../media/audio/g711.js';
import { createSafeHttp } from '../../net/http.js';
import { Clips, type SpeechServer } from '../../src/speech/clips.js';
import { SpeechThread } from '../../src/speech/speech-thread.js';
import { startReceiver } from '../support/receiver.js';

const thread = new SpeechThread();
let folder: string;
const closing: (() => unknown)[] = [() => thread.close()];
const http = createSafeHttp({ allowPrivate: true });

beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'trunkline-audio-'));
  closing.push(() => rmSync(folder, { recursive: true }));
});
afterAll(async () => {
  for (const close of closing) await close();
});

const clipsWith = (options: { speechServer?: SpeechServer; now?: () => number } = {}) =>
  new Clips({ thread, http, operatorHttp: http, speechServer: null, ...options });

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
    const clip = await thread.make({ kind: 'decode', bytes: new Uint8Array(tone(format, rateHz)) });
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
    const clip = await thread.make({ kind: 'decode', bytes: new Uint8Array(readFileSync(file)) });
    expect(clip.byteLength).toBeGreaterThan(7900);
    expect(clip.byteLength).toBeLessThan(9000);
    const { purity, rms } = analyse(clip);
    expect(purity).toBeGreaterThan(0.95);
    expect(rms).toBeGreaterThan(0.32);
    expect(rms).toBeLessThan(0.38);
  });

  test('that are none, and cut ones, are refused or give what is in them; the thread lives on', async () => {
    const bytes = tone('flac');
    await expect(thread.make({ kind: 'decode', bytes: new TextEncoder().encode('<html>') })).rejects.toThrow();
    await expect(thread.make({ kind: 'decode', bytes: new Uint8Array(0) })).rejects.toThrow();
    await thread.make({ kind: 'decode', bytes: new Uint8Array(bytes.subarray(0, 3000)) }).catch(() => {});
    expect((await thread.make({ kind: 'decode', bytes: new Uint8Array(bytes) })).byteLength).toBeGreaterThan(7900);
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

  test('that cannot be had are told in one sentence, and tried again the next time', async () => {
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

describe('texts', () => {
  test('are spoken offline, once for all who say the same', async () => {
    const clips = clipsWith();
    const clip = await clips.say('Welcome. Press one for sales, two for support.', null, null);
    expect(clip.byteLength).toBeGreaterThan(8000);
    expect(clip.byteLength).toBeLessThan(8 * 8000);
    const rms = analyse(clip).rms;
    expect(rms).toBeGreaterThan(0.01);
    expect(await clips.say('Welcome. Press one for sales, two for support.', null, null)).toBe(clip);
    expect(await clips.say('Welcome. Press one for sales, two for support.', 'rms', null)).not.toBe(clip);
  });

  test('are spoken by the speech server of the settings', async () => {
    const wav = tone('wav', 8000);
    const server = await startReceiver((_request, response) => response.writeHead(200).end(wav));
    closing.push(() => server.close());
    const clips = clipsWith({ speechServer: { url: server.url, key: 'secret', model: 'tts-1' } });
    const clip = await clips.say('Hello', 'nova', null);
    expect(analyse(clip).purity).toBeGreaterThan(0.99);
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
