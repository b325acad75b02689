import { describe, expect, it } from 'vitest';
import { NodePasses } from '../../sip/auth/node-pass.js';

const secret = Buffer.alloc(32, 7);

function nodes() {
  let now = 1_700_000_000_000;
  const clock = () => now;
  return {
    one: new NodePasses(secret, clock),
    two: new NodePasses(secret, clock),
    pass: (ms: number) => {
      now += ms;
    },
  };
}

describe('the pass of a node', () => {
  it('is good for its purpose, subject and Call-ID', () => {
    const { one, two } = nodes();
    expect(two.check(one.issue('conference', 'a.b ü', 'call-1'), 'call-1')).toEqual({
      purpose: 'conference',
      subject: 'a.b ü',
    });
  });

  it('is good once at each node', () => {
    const { one, two, pass } = nodes();
    const value = one.issue('conference', 'a', 'call-1');
    expect(two.check(value, 'call-1')).not.toBeNull();
    expect(two.check(value, 'call-1')).toBeNull();
    pass(29_000);
    expect(two.check(value, 'call-1')).toBeNull();
    expect(one.check(value, 'call-1')).not.toBeNull();
  });

  it('is good for half a minute, also by a clock that is behind', () => {
    for (const [ms, isGood] of [
      [29_000, true],
      [31_000, false],
      [-29_000, true],
      [-31_000, false],
    ] as const) {
      const { one, two, pass } = nodes();
      const value = one.issue('conference', 'a', 'call-1');
      pass(ms);
      expect(two.check(value, 'call-1') !== null, String(ms)).toBe(isGood);
    }
  });

  it('is not good when anything of it is changed, for another call, or of another installation', () => {
    const { one, two } = nodes();
    const value = one.issue('conference', 'a', 'call-1');
    for (let at = 0; at < value.length; at++) {
      const other = value[at] === 'A' ? 'B' : 'A';
      expect(two.check(value.slice(0, at) + other + value.slice(at + 1), 'call-1')).toBeNull();
    }
    expect(two.check(value, 'call-2')).toBeNull();
    expect(new NodePasses(Buffer.alloc(32, 8)).check(value, 'call-1')).toBeNull();
    for (const bad of ['', '.', 'conference', `${value}.`, value.slice(0, -1)])
      expect(two.check(bad, 'call-1')).toBeNull();
    expect(two.check(value, 'call-1')).not.toBeNull();
  });
});
