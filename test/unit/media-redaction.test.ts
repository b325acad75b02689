/** What recordings have of redacted passages and keys. */
import { describe, expect, it } from 'vitest';
import { linearToUlaw } from '../../media/audio/codec/g711.js';
import { writeKeyTone } from '../../media/audio/detect/dtmf-tones.js';
import { tone } from '../../media/audio/dsp/tone.js';
import { bytesOf } from '../../media/audio/sample-format.js';
import type { PhoneCodec, RecordOptions } from '../../media/engine.js';
import type { DiskConnection } from '../../media/recording/disk-connection.js';
import { SessionRecordings } from '../../media/thread/session/session-recordings.js';
import { probeTone } from '../support/tone-probe.js';

const nothing = { audio: false, streams: false, keys: false };
const passage = { ...nothing, audio: true };

/** A session's recordings over a disk in memory. `write` is every block that was ever handed to the disk. */
function scene() {
  let nowMs = 0;
  const written: { index: number; samples: Int16Array }[] = [];
  const disk = {
    open: () => 1,
    write: (_id: number, index: number, samples: Int16Array) => written.push({ index, samples }),
    close: () => {},
  } as unknown as DiskConnection;
  const recordings = new SessionRecordings();
  const begin = (codec: PhoneCodec = 'PCMU', options: Partial<RecordOptions> = {}) =>
    recordings.begin(
      1,
      { path: '/x', ...options },
      disk,
      () => nowMs,
      codec,
      () => {},
      () => {},
    );
  const channel = (which: 0 | 1) => {
    const blocks = written.toSorted((a, b) => a.index - b.index).map(({ samples }) => samples);
    return Int16Array.from(blocks.flatMap((block) => [...block.filter((_, i) => i % 2 === which)]));
  };
  return {
    recordings,
    begin,
    channel,
    /** Both sides sound until `untilMs`; `late`: the phone's packets arrive so much later. */
    sound(untilMs: number, frame: (atMs: number) => { phone: Uint8Array; heard: Uint8Array }, lateMs = 0) {
      for (; nowMs < untilMs; nowMs += 20) {
        const { phone, heard } = frame(nowMs);
        recordings.fromPhone(nowMs * 8, phone, 'PCMU', nowMs + 20 + lateMs);
        recordings.toPhone(nowMs * 8, heard, 'PCMU', nowMs);
        recordings.tick(nowMs);
      }
    },
    now: () => nowMs,
  };
}

const ulaw = (samples: Int16Array) => Uint8Array.from(samples, (sample) => linearToUlaw[sample & 0xffff]!);
const frameOf = (frequencyHz: number) => ulaw(tone({ frequencyHz, durationMs: 20, amplitude: 8000 }));
const voices = { phone: frameOf(500), heard: frameOf(1000) };
const silence = new Uint8Array(160).fill(0xff);
/** Of a tone, about seven of eight samples are not 0. */
const loudMs = (samples: Int16Array, fromMs: number, toMs: number) =>
  samples.subarray(fromMs * 8, toMs * 8).filter((sample) => sample !== 0).length / 7;

describe('a recording', () => {
  it('is silent on both channels for a redacted passage, to the millisecond', () => {
    const { recordings, begin, sound, channel, now } = scene();
    const stop = begin();
    sound(1500, () => voices);
    recordings.redact(passage, now());
    sound(2700, () => voices);
    recordings.redact(nothing, now());
    sound(4200, () => voices);
    stop();
    for (const which of [0, 1] as const) {
      const samples = channel(which);
      expect(loudMs(samples, 1500, 2900)).toBe(0);
      expect(loudMs(samples, 0, 1480)).toBeGreaterThan(1200);
      expect(loudMs(samples, 2920, 4180)).toBeGreaterThan(1000);
    }
  });

  it('leaves out what was said in the passage and arrives after it', () => {
    const { recordings, begin, sound, channel, now } = scene();
    const stop = begin();
    sound(500, () => voices);
    recordings.redact(passage, now());
    sound(1000, () => ({ ...voices, phone: silence }));
    recordings.redact(nothing, now());
    sound(1400, () => ({ phone: silence, heard: silence }));
    // A packet of the passage that the network held back for half a second.
    recordings.fromPhone(800 * 8, voices.phone, 'PCMU', now());
    stop();
    expect(loudMs(channel(0), 500, 1400)).toBe(0);
  });

  it('that begins within a passage begins silent', () => {
    const { recordings, begin, sound, channel, now } = scene();
    recordings.redact(passage, 0);
    const stop = begin();
    sound(600, () => voices);
    recordings.redact(nothing, now());
    sound(1200, () => voices);
    stop();
    expect(loudMs(channel(0), 0, 800)).toBe(0);
    expect(loudMs(channel(0), 820, 1200)).toBeGreaterThan(300);
  });

  it('does not change the audio that the agent gets, at the sampling rate of the recording', () => {
    const { recordings, begin } = scene();
    const stop = begin('G722');
    recordings.redact(passage, 0);
    const frame = bytesOf(tone({ frequencyHz: 500, durationMs: 20, sampleRateHz: 16_000 }));
    const before = frame.slice();
    recordings.fromPhone(0, frame, 'G722', 20);
    stop();
    expect(frame).toEqual(before);
  });

  const key = (digit: string, ms: number) => {
    const bytes = new Uint8Array(ms * 8);
    writeKeyTone(digit, 'PCMU', 0, bytes, 0, bytes.length);
    return bytes;
  };

  it.each(['phone', 'heard'] as const)(
    'has no tones of keys, wherever they sound (%s), and the speech around them',
    (side) => {
      const { recordings, begin, sound, channel } = scene();
      const stop = begin();
      recordings.redact({ ...nothing, keys: true }, 0);
      const tones = key('5', 100);
      sound(3000, (atMs) => {
        const into = atMs - 1000;
        return into >= 0 && into < 100 ? { ...voices, [side]: tones.subarray(into * 8, into * 8 + 160) } : voices;
      });
      stop();
      for (const which of [0, 1] as const) {
        const samples = channel(which);
        for (let atMs = 0; atMs + 20 <= 3000; atMs += 10) {
          const window = samples.subarray(atMs * 8, atMs * 8 + 160);
          expect(probeTone(window, 770).amplitude + probeTone(window, 1336).amplitude).toBeLessThan(6000);
        }
        expect(loudMs(samples, 1000, 1250)).toBe(0);
        expect(loudMs(samples, 0, 750)).toBeGreaterThan(600);
        expect(loudMs(samples, 1400, 3000)).toBeGreaterThan(1300);
      }
    },
  );

  it('is silent beside a key that comes as RTP event, and a little before it', () => {
    const { recordings, begin, sound, channel, now } = scene();
    const stop = begin();
    recordings.redact({ ...nothing, keys: true }, 0);
    sound(1000, () => voices);
    for (let i = 0; i < 6; i++) {
      recordings.keySounds(now());
      sound(now() + 20, () => voices);
    }
    sound(2500, () => voices);
    stop();
    expect(loudMs(channel(0), 760, 1300)).toBe(0);
    expect(loudMs(channel(0), 0, 740)).toBeGreaterThan(600);
    expect(loudMs(channel(0), 1340, 2500)).toBeGreaterThan(1000);
  });

  it('has everything when nothing is redacted', () => {
    const { recordings, begin, sound, channel } = scene();
    const stop = begin();
    recordings.keySounds(100);
    sound(1000, () => voices);
    stop();
    expect(loudMs(channel(0), 0, 1000)).toBeGreaterThan(900);
  });
});
