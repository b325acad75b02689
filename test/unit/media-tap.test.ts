import { MessageChannel } from 'node:worker_threads';
import { expect, it } from 'vitest';
import { linearToUlaw, ulawToLinear } from '../../media/audio/codec/g711.js';
import { Mixer } from '../../media/audio/dsp/mixer.js';
import type { TapEnd, TapMessage } from '../../media/engine.js';
import { AudioTap } from '../../media/thread/listeners/tap.js';

const frame = (byte: number) => new Uint8Array(160).fill(byte);

it('a reader that takes nothing has ten seconds waiting, and learns how much was dropped', async () => {
  const { port1, port2 } = new MessageChannel();
  let end: TapEnd | null = null;
  const tap = new AudioTap(port2, { tracks: 'caller', chunkMs: 200, sampleRateHz: 8000 }, (told) => {
    end = told;
  });
  const messages: TapMessage[] = [];
  const ended = new Promise<void>((resolve) => {
    port1.on('message', (message: TapMessage) => {
      messages.push(message);
      if (message === 'end') resolve();
    });
  });
  for (let atMs = 0; atMs < 13_000; atMs += 20) tap.hear('caller', frame(1), 'PCMU', atMs);
  port1.postMessage('taken');
  // The taking is read before anything else can be posted to this port.
  await new Promise((resolve) => port2.once('message', resolve));
  for (let atMs = 13_000; atMs < 13_200; atMs += 20) tap.hear('caller', frame(1), 'PCMU', atMs);
  tap.end('stopped');
  await ended;
  const chunks = messages.filter((message) => message !== 'end');
  expect(chunks).toHaveLength(51);
  expect(chunks.map((chunk) => chunk.startMs)).toEqual([...Array.from({ length: 50 }, (_, i) => i * 200), 13_000]);
  expect(chunks.map((chunk) => chunk.droppedMs)).toEqual([...Array(50).fill(0), 3000]);
  expect(end).toEqual({ by: 'stopped', droppedMs: 3000 });
  port1.close();
});

it('two tracks mixed wait for each other, and one that is missing is silence', () => {
  const mixed: number[] = [];
  const mixer = new Mixer((bytes) => mixed.push(bytes[0]!));
  const [a, b] = [0xce, 0xcf];
  const sum = linearToUlaw[ulawToLinear[a]! + ulawToLinear[b]!]!;
  for (let i = 0; i < 5; i++) mixer.push('caller', frame(a), 'PCMU', 0);
  expect(mixed).toEqual([]);
  for (let i = 0; i < 5; i++) mixer.push('agent', frame(b), 'PCMU', 0);
  expect(new Set(mixed)).toEqual(new Set([sum]));
  expect(mixed).toHaveLength(5);
  for (let i = 0; i < 30; i++) mixer.push('caller', frame(a), 'PCMU', 0);
  expect(mixed.slice(5)).toEqual(Array(20).fill(a));
  for (let i = 0; i < 10; i++) mixer.push('agent', frame(b), 'PCMU', 0);
  expect(mixed.slice(25)).toEqual(Array(10).fill(sum));
  mixer.push('caller', frame(0x80), 'PCMU', 0);
  mixer.push('agent', frame(0x80), 'PCMU', 0);
  expect(mixed.at(-1)).toBe(0x80);
});
