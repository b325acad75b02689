/** What phones hear of prompts, by codec: content above 4 kHz where the codec carries it. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { tone } from '../../media/audio/dsp/tone.js';
import { writeWav } from '../../media/audio/wav.js';
import type { MediaEngine, PhoneCodec } from '../../media/engine.js';
import { createSafeHttp } from '../../net/http.js';
import { PromptPlayer } from '../../src/call/prompts/prompt-player.js';
import { Clips } from '../../src/speech/clips.js';
import { openSpeechPools } from '../../src/speech/speech-pool.js';
import type { PlayAction, Say } from '../../src/webhook/actions.js';
import { CodedPhone } from '../support/coded-phone.js';
import { startTestEngine } from '../support/media-engine.js';
import { type Receiver, startReceiver } from '../support/receiver.js';
import { millisecondsOfTone } from '../support/tone-probe.js';

let engine: MediaEngine;
let server: Receiver;
const pools = openSpeechPools(2);
const http = createSafeHttp({ allowPrivate: true });

beforeAll(async () => {
  engine = await startTestEngine();
  const file = writeWav({
    sampleRateHz: 48_000,
    channels: [tone({ frequencyHz: 6000, durationMs: 1000, sampleRateHz: 48_000 })],
  });
  server = await startReceiver((_request, response) => void response.writeHead(200).end(file));
});
afterAll(async () => {
  await Promise.all([pools.speech.close(), pools.files.close(), engine.close(), server.close()]);
});

async function heardOf(codec: PhoneCodec, prompt: Say | PlayAction, speechServer: string | null = null) {
  const settings = speechServer === null ? null : { url: speechServer, key: null, model: 'm' };
  const player = new PromptPlayer(new Clips({ ...pools, http, operatorHttp: http, speechServer: settings }));
  const phone = await CodedPhone.open(codec);
  const session = await phone.call(engine);
  try {
    const warnings: string[] = [];
    const warn = ({ code }: { code: string }) => void warnings.push(code);
    await player.speak(session, prompt, new AbortController().signal, warn);
    return { samples: phone.heard, rateHz: phone.rateHz, warnings };
  } finally {
    await session.close();
    phone.close();
  }
}

/** Of the loudest tenths of a second, that of the energy which lies above this frequency. */
function shareAbove(samples: Int16Array, rateHz: number, frequencyHz: number): number {
  const length = 512;
  const shares: number[] = [];
  for (let at = 0; at + length <= samples.length; at += length) {
    let [low, high] = [0, 0];
    for (let bin = 1; bin < length / 2; bin++) {
      let [real, imaginary] = [0, 0];
      for (let i = 0; i < length; i++) {
        const angle = (2 * Math.PI * bin * i) / length;
        const sample = (samples[at + i] as number) * (0.5 - 0.5 * Math.cos((2 * Math.PI * i) / length));
        real += sample * Math.cos(angle);
        imaginary += sample * Math.sin(angle);
      }
      const energy = real ** 2 + imaginary ** 2;
      if ((bin * rateHz) / length > frequencyHz) high += energy;
      else low += energy;
    }
    if (low + high > length * 1e6) shares.push(high / (low + high));
  }
  return Math.max(...shares);
}

const file = () => ({ action: 'play', url: `${server.url}/six.wav`, loop: 2 }) as const;
/** With many sounds of high frequencies. */
const text = {
  action: 'say',
  text: 'She sells six sea shells, so she says.',
  voice: null,
  language: null,
  loop: 1,
} as const;

describe.each(['G722', 'OPUS'] as const)('a phone with %s', (codec) => {
  it('hears of a file what lies above 4 kHz, as often as it should', async () => {
    const { samples, rateHz } = await heardOf(codec, file());
    expect(millisecondsOfTone(samples, 6000, rateHz)).toBeGreaterThan(1500);
    expect(millisecondsOfTone(samples, 6000, rateHz)).toBeLessThanOrEqual(2100);
  });

  it('hears the whole of a voice', async () => {
    const { samples, rateHz, warnings } = await heardOf(codec, text);
    expect(warnings).toEqual([]);
    expect(shareAbove(samples, rateHz, 4000)).toBeGreaterThan(0.3);
  });

  it('hears the whole of a speech server, while it speaks and from memory', async () => {
    const { samples, rateHz } = await heardOf(codec, { ...text, loop: 2 }, server.url);
    expect(millisecondsOfTone(samples, 6000, rateHz)).toBeGreaterThan(1500);
  });
});

describe('a phone with G.711', () => {
  it('hears nothing of what its codec cannot carry, and no alias of it', async () => {
    const { samples, rateHz } = await heardOf('PCMU', file());
    expect(millisecondsOfTone(samples, 2000, rateHz)).toBe(0);
    const rms = Math.sqrt(samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length);
    expect(rms).toBeLessThan(100); // the tone has 5657; its two clicks are left
  });
});
