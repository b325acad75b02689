import { describe, expect, it } from 'vitest';
import { linearToUlaw, ulawToLinear } from '../../media/audio/codec/g711.js';
import { tone } from '../../media/audio/dsp/tone.js';
import { MixMinus, Room } from '../../media/audio/playout/conference-mixer.js';
import { probeTone } from '../support/tone-probe.js';

const silence = new Uint8Array(160).fill(0xff);

/** 20 ms that sound on into themselves. */
function frameOf(frequencyHz: number, amplitude: number): Uint8Array {
  return Uint8Array.from(tone({ frequencyHz, durationMs: 20, amplitude }), (sample) => linearToUlaw[sample & 0xffff]!);
}

function linear(bytes: Uint8Array): Int16Array {
  return Int16Array.from(bytes, (byte) => ulawToLinear[byte]!);
}

function heardBy(ear: MixMinus): Int16Array {
  const frame = new Uint8Array(160);
  expect(ear.take(frame, 0, 160)).toBe(160);
  return linear(frame);
}

function roomOf(seats: number): Room {
  const room = new Room(Room.memory(seats));
  room.seats = seats;
  return room;
}

describe('what a seat hears', () => {
  it('is the sum of the others, which never clips', () => {
    const room = roomOf(6);
    const ear = new MixMinus(room, 0, 'PCMU');
    heardBy(ear);
    const speak = (seats: number, amplitude: number) => {
      for (let i = 0; i < 10; i++) {
        for (let seat = 0; seat < 6; seat++)
          room.write(seat, seat < seats ? frameOf(400 + 100 * seat, amplitude) : silence, 'PCMU');
        heardBy(ear);
      }
      for (let seat = 0; seat < 6; seat++)
        room.write(seat, seat < seats ? frameOf(400 + 100 * seat, amplitude) : silence, 'PCMU');
      return heardBy(ear);
    };
    const three = speak(3, 5000);
    expect(probeTone(three, 400).amplitude).toBeLessThan(60); // its own
    for (const hz of [500, 600]) expect(Math.abs(probeTone(three, hz).amplitude / 5000 - 1)).toBeLessThan(0.03);
    const all = speak(6, 20_000);
    const peak = Math.max(...all.map(Math.abs));
    expect(peak).toBeGreaterThan(24_000);
    expect(peak).toBeLessThan(32_767);
    expect(speak(1, 5000).every((sample) => sample === 0)).toBe(true);
  });

  it('has no holes when frames come two at a time, and learns to wait for those that come later', () => {
    const holesWith = (burst: number) => {
      const room = roomOf(2);
      const ear = new MixMinus(room, 0, 'PCMU');
      heardBy(ear);
      const frame = frameOf(500, 5000);
      const heard: boolean[] = [];
      for (let i = 0; i < 300; i++) {
        if (i % burst === 0) for (let n = 0; n < burst; n++) room.write(1, frame, 'PCMU');
        heard.push(heardBy(ear).some((sample) => sample !== 0));
      }
      return {
        holes: heard.slice(10).filter((each) => !each).length,
        late: heard.slice(100).filter((each) => !each).length,
      };
    };
    expect(holesWith(2)).toEqual({ holes: 0, late: 0 });
    expect(holesWith(6).late).toBe(0);
  });

  it.each([1.02, 0.98])('stays near to a phone whose clock runs at %f', (pace) => {
    const room = roomOf(2);
    const ear = new MixMinus(room, 0, 'PCMU');
    heardBy(ear);
    const frame = frameOf(500, 5000);
    let [written, holes] = [0, 0];
    for (let i = 0; i < 9000; i++) {
      for (; written < i * pace; written++) room.write(1, written % 40 === 39 ? silence : frame, 'PCMU');
      if (!heardBy(ear).some((sample) => sample !== 0)) holes += 1;
    }
    // A pause in forty, what a slow clock leaves open, and the waiting after each.
    expect(holes / 9000).toBeLessThan(pace > 1 ? 0.03 : 0.12);
    room.write(1, frameOf(1500, 5000), 'PCMU');
    let lateFrames = 0;
    for (let i = 0; i < 20 && probeTone(heardBy(ear), 1500).amplitude < 2000; i++) {
      room.write(1, frameOf(1500, 5000), 'PCMU');
      lateFrames += 1;
    }
    expect(lateFrames).toBeLessThanOrEqual(12);
  });
});
