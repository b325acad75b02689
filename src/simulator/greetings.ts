/** Greetings of simulated people and answering machines: not words, but the rhythm of words. */
import { tone } from '../../media/audio/dsp/tone.js';
import { sampleRateHz } from './phone/marker.js';
import type { CallerSound } from './phone/voice.js';

/** A "Hello?", then silence. */
export function person(): CallerSound {
  return after(400, babble(600));
}

/** About five seconds of greeting, then a beep. */
export function voicemail(): CallerSound {
  return after(
    500,
    babble(2800),
    silence(400),
    babble(1400),
    silence(300),
    tone({ frequencyHz: 1000, durationMs: 400 }),
  );
}

/** A talking caller: for two minutes, two seconds of speech alternate with three of silence. */
export function questioner(): CallerSound {
  const rounds = Array.from({ length: 24 }, () => [babble(2000), silence(3000)]).flat();
  return after(800, ...rounds);
}

/** Street noise of about -36 dBFS without speech, for two minutes, the same every time. */
export function noise(): CallerSound {
  const samples = silence(120_000);
  let state = 0x2545f491;
  let low = 0;
  for (let i = 0; i < samples.length; i++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
    low += (state / 2 ** 31 - low) * 0.2; // attenuates high frequencies, like traffic
    samples[i] = Math.round(low * 1600);
  }
  return { kind: 'samples', samples };
}

function after(ms: number, ...parts: Int16Array[]): CallerSound {
  return { kind: 'samples', samples: Int16Array.from([silence(ms), ...parts].flatMap((part) => [...part])) };
}

function silence(ms: number): Int16Array {
  return new Int16Array((ms * sampleRateHz) / 1000);
}

/** Harmonics of a gliding pitch, in syllables. */
function babble(durationMs: number): Int16Array {
  const samples = silence(durationMs);
  let phase = 0;
  for (let i = 0; i < samples.length; i++) {
    const ms = (i * 1000) / sampleRateHz;
    phase += (130 + 40 * Math.sin(ms / 170)) / sampleRateHz;
    let sample = 0;
    for (let harmonic = 1; harmonic <= 12; harmonic++)
      sample += Math.sin(2 * Math.PI * harmonic * phase) / (1 + Math.abs(harmonic - 4));
    const gap = ms % 260 > 200 && durationMs - ms > 90;
    samples[i] = gap ? 0 : Math.round(2200 * sample * (0.55 + 0.45 * Math.sin(ms / 28)));
  }
  return samples;
}
