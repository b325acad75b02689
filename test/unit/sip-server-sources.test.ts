import { describe, expect, it } from 'vitest';
import { Sources } from '../../sip/server/overload/sources.js';

const limits = {
  ...{ strangerPerSec: 10, strangersPerSec: 100, acquaintancePerSec: 1000 },
  ...{ offences: 3, forgiveMs: 1000, silenceMs: 60_000 },
};

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

  it('of a trusted network is not counted; one that a call was accepted from has a rate of its own', () => {
    const { sources, pass } = open(['198.51.100.0/24', '2001:db8::/32', 'nonsense']);
    expect(burst(sources, '198.51.100.7', 1000)).toBe(1000);
    expect(burst(sources, '2001:db8::7', 1000)).toBe(1000);
    sources.mayBeRead('192.0.2.1');
    sources.acquainted('192.0.2.1');
    for (let i = 0; i < 50; i++) sources.refused('192.0.2.1', 403);
    expect(burst(sources, '192.0.2.1', 5000)).toBe(2000);
    pass(500);
    expect(burst(sources, '192.0.2.1', 5000)).toBe(500);
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
    const { sources, pass } = open();
    const table = sources as unknown as Record<'strangers' | 'acquaintances' | 'trustedSeen', { size: number }>;
    for (let i = 0; i < 200_000; i++) {
      pass(10); // one each 10 ms fits the budget of all, so each of them is met
      expect(sources.mayBeRead(`10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`)).toBe(true);
    }
    expect(table.strangers.size).toBeGreaterThan(5000);
    expect(table.strangers.size).toBeLessThanOrEqual(20_000);
    sources.trust(['11.0.0.0/8']);
    for (let i = 0; i < 100_000; i++) sources.mayBeRead(`11.${i >> 16}.${(i >> 8) & 255}.${i & 255}`);
    for (let i = 0; i < 100_000; i++) sources.acquainted(`12.${i >> 16}.${(i >> 8) & 255}.${i & 255}`);
    expect(table.trustedSeen.size).toBeLessThanOrEqual(20_000);
    expect(table.acquaintances.size).toBeLessThanOrEqual(50_000);
  });
});

describe('a thousand strangers, each slower than one may be', () => {
  /** `count` messages from a thousand addresses in turn, in that time. */
  const crowd = ({ sources, pass }: ReturnType<typeof open>, count: number, ms: number) => {
    let read = 0;
    for (let i = 0; i < count; i++) {
      if (sources.mayBeRead(`203.0.${113 + ((i % 1000) >> 8)}.${i & 255}`)) read++;
      pass(ms / count);
    }
    return read;
  };

  it('share one budget', () => {
    const us = open();
    expect(crowd(us, 5000, 1000)).toBeLessThanOrEqual(200); // a burst and a second
    expect(us.sources.crowded).toBeGreaterThanOrEqual(4800);
    expect(crowd(us, 20_000, 1000)).toBeLessThanOrEqual(101);
    us.pass(1000);
    expect(burst(us.sources, '192.0.2.1', 5), 'and when they are gone it is there again').toBe(5);
  });

  it('take nothing of a trunk, of a phone that registered, of a gateway that is called', () => {
    const us = open(['198.51.100.0/24']);
    us.sources.acquainted('192.0.2.1');
    crowd(us, 20_000, 1000);
    expect(burst(us.sources, '192.0.2.9', 1), 'a new stranger has to wait').toBe(0);
    expect(burst(us.sources, '198.51.100.7', 100)).toBe(100);
    expect(burst(us.sources, '192.0.2.1', 100)).toBe(100);
    us.sources.acquainted('192.0.2.9');
    expect(burst(us.sources, '192.0.2.9', 100)).toBe(100);
    us.sources.trust(['192.0.2.64/26']);
    expect(burst(us.sources, '192.0.2.65', 100)).toBe(100);
  });

  it('are known by nobody, whatever they send', () => {
    const { sources } = open(['198.51.100.0/24']);
    sources.mayBeRead('192.0.2.1');
    expect(sources.knows('192.0.2.1')).toBe(false);
    expect(sources.knows('192.0.2.2')).toBe(false);
    expect(sources.knows('198.51.100.1')).toBe(true);
    sources.acquainted('192.0.2.1');
    expect(sources.knows('192.0.2.1')).toBe(true);
  });
});
