import { describe, expect, it } from 'vitest';
import { Sources } from '../../sip/server/sources.js';

const limits = { strangerPerSec: 10, offences: 3, forgiveMs: 1000, silenceMs: 60_000 };

function open(trusted: string[] = []) {
  let nowMs = 0;
  const sources = new Sources(() => nowMs, limits, trusted);
  return {
    sources,
    pass: (ms: number) => {
      nowMs += ms;
    },
  };
}
const burst = (sources: Sources, address: string, count: number) =>
  Array.from({ length: count }, () => sources.mayBeRead(address)).filter(Boolean).length;

describe('an address', () => {
  it('that nobody knows may send a burst of two seconds, then its rate', () => {
    const { sources, pass } = open();
    expect(burst(sources, '192.0.2.1', 100)).toBe(20);
    pass(500);
    expect(burst(sources, '192.0.2.1', 100)).toBe(5);
    expect(sources.limited).toBe(175);
    expect(burst(sources, '192.0.2.2', 10)).toBe(10);
  });

  it('that a call was accepted from, or of a trusted network, is not counted', () => {
    const { sources } = open(['198.51.100.0/24', '2001:db8::/32', 'nonsense']);
    expect(burst(sources, '198.51.100.7', 1000)).toBe(1000);
    expect(burst(sources, '2001:db8::7', 1000)).toBe(1000);
    sources.mayBeRead('192.0.2.1');
    sources.acquainted('192.0.2.1');
    for (let i = 0; i < 50; i++) sources.refused('192.0.2.1', 403);
    expect(burst(sources, '192.0.2.1', 1000)).toBe(1000);
    sources.trust([]);
    expect(burst(sources, '198.51.100.7', 1000)).toBe(20);
  });

  it('that is only ever refused hears nothing for a while', () => {
    const { sources, pass } = open();
    for (let i = 0; i < 4; i++) {
      expect(sources.mayBeRead('192.0.2.1')).toBe(true);
      sources.refused('192.0.2.1', 403);
    }
    expect(sources.mayBeRead('192.0.2.1')).toBe(false);
    expect([sources.silenced, sources.offenders]).toEqual([1, 1]);
    pass(60_001);
    expect(sources.mayBeRead('192.0.2.1')).toBe(true);
  });

  it('that was silenced as a stranger is heard at once when a trunk names its network', () => {
    const { sources } = open();
    burst(sources, '192.0.2.1', 100);
    for (let i = 0; i < 4; i++) sources.refused('192.0.2.1', 403);
    sources.trust(['192.0.2.0/24']);
    expect(burst(sources, '192.0.2.1', 1000)).toBe(1000);
  });

  it('is forgiven with time, and busy lines and wrong numbers are no offence', () => {
    const { sources, pass } = open();
    for (let i = 0; i < 20; i++) {
      sources.mayBeRead('192.0.2.1');
      sources.refused('192.0.2.1', i % 2 ? 404 : 486);
      sources.refused('192.0.2.1', 403);
      pass(1100);
    }
    expect(sources.mayBeRead('192.0.2.1')).toBe(true);
    expect(sources.offenders).toBe(0);
  });

  it('out of very many, each made up, costs bounded memory', () => {
    const { sources } = open();
    for (let i = 0; i < 200_000; i++) sources.mayBeRead(`10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`);
    const { strangers } = sources as unknown as { strangers: { size: number } };
    expect(strangers.size).toBeLessThanOrEqual(20_000);
  });
});
