import { expect, it } from 'vitest';
import { PlayedAudio } from '../../media/audio/playout/played-audio.js';

it('gives the newest audio, oldest byte first, wherever the ring begins', () => {
  const played = new PlayedAudio(1280);
  const all: number[] = [];
  for (let n = 0; n < 60; n++) {
    const count = [160, 80, 160, 37, 1280, 1][n % 6]!;
    const from = Uint8Array.from({ length: count + 12 }, (_, i) => (n * 13 + i) & 0xff);
    played.add(from, 12, count);
    all.push(...from.subarray(12));
    expect(played.length).toBe(Math.min(1280, all.length));
    expect(played.isFull).toBe(all.length >= 1280);
    for (const wanted of [1, 160, played.length])
      if (wanted <= played.length) expect([...played.last(wanted)]).toEqual(all.slice(-wanted));
  }
});
