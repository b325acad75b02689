/** An utterance while it goes on: its length and its words until then. */
import type { MessagePort } from 'node:worker_threads';
import { describe, expect, it, vi } from 'vitest';
import { tone } from '../../media/audio/dsp/tone.js';
import type { TapMessage } from '../../media/engine.js';
import { isBackchannel } from '../../src/call/script/relay/backchannel.js';
import type { TranscriptionEngine } from '../../src/transcription/engine.js';
import { OngoingSpeech } from '../../src/transcription/ongoing-speech.js';

function tapped() {
  let port: MessagePort | null = null;
  let atMs = 0;
  let stops = 0;
  let sent = 0;
  let taken = 0;
  const tap = (given: MessagePort) => {
    port = given;
    port.on('message', () => {
      taken += 1;
    });
    const stop = async () => {
      stops += 1;
      port?.postMessage('end' satisfies TapMessage);
      port?.close();
    };
    return { stop };
  };
  const hear = (samples: Int16Array) => {
    for (let at = 0; at < samples.length; at += 1600, atMs += 100, sent++)
      port?.postMessage({
        ...{ track: 'caller', startMs: atMs, samples: samples.slice(at, at + 1600), droppedMs: 0 },
      } satisfies TapMessage);
  };
  const allTaken = () => vi.waitFor(() => expect(taken).toBe(sent));
  const sound = (durationMs: number) => tone({ frequencyHz: 500, durationMs, sampleRateHz: 16_000 });
  const silence = (durationMs: number) => new Int16Array(durationMs * 16);
  return { tap, hear, sound, silence, stops: () => stops, allTaken };
}

describe('an utterance that goes on', () => {
  it('is recognized again and again from its first word, one recognition at a time, until it ends', async () => {
    const { tap, hear, sound, silence, stops, allTaken } = tapped();
    const asked: { seconds: number; answer: (text: string) => void; signal: AbortSignal }[] = [];
    const engine = {
      transcribe: (file, signal) =>
        new Promise((resolve) => {
          const seconds = 'bytes' in file ? file.bytes.length / 32_000 : 0;
          asked.push({ seconds, signal, answer: (text) => resolve({ text, model: 'm' }) });
        }),
    } satisfies TranscriptionEngine as TranscriptionEngine;
    const words: string[] = [];
    const spoken: number[] = [];
    const ongoing = new OngoingSpeech(tap, engine, {}, { spoke: (ms) => spoken.push(ms), words: (w) => words.push(w) });
    hear(silence(2000));
    hear(sound(300));
    await allTaken();
    expect(spoken).toEqual([]); // nobody said that an utterance has begun
    ongoing.begin();
    hear(sound(700));
    await vi.waitFor(() => expect(asked).toHaveLength(1));
    // the whole utterance, with a little before it, and not the two seconds of silence
    expect(asked[0]?.seconds).toBeGreaterThan(0.6);
    expect(asked[0]?.seconds).toBeLessThan(1.7);
    expect(spoken.at(-1)).toBeGreaterThanOrEqual(600);
    hear(sound(1500));
    await allTaken();
    expect(spoken.at(-1)).toBeGreaterThan(2000);
    expect(asked).toHaveLength(1);
    asked[0]?.answer('a table');
    await vi.waitFor(() => expect(words).toEqual(['a table']));
    hear(sound(100));
    await vi.waitFor(() => expect(asked).toHaveLength(2));
    asked[1]?.answer('a table'); // nothing new
    await new Promise((resolve) => setImmediate(resolve));
    hear(sound(700));
    await vi.waitFor(() => expect(asked).toHaveLength(3));
    ongoing.end();
    expect(asked[2]?.signal.aborted).toBe(true);
    asked[2]?.answer('a table for two');
    hear(sound(1000));
    await allTaken();
    expect(words).toEqual(['a table']);
    expect(asked).toHaveLength(3);
    ongoing.close();
    expect(stops()).toBe(1);
  });
});

describe('an acknowledgement', () => {
  it.each(['Yeah.', 'Uh-huh', 'mm-hmm', 'Okay, right.', 'I see.', 'Got it', 'Ja, genau.', 'Hm'])('%s', (text) => {
    expect(isBackchannel(text)).toBe(true);
  });
  it.each(['', 'Yes, please.', 'No.', 'Stop', 'Okay, but I want two', 'two', 'right right right right'])(
    'is not: %s',
    (text) => {
      expect(isBackchannel(text)).toBe(false);
    },
  );
});
