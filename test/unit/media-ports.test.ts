import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { RtpPorts } from '../../media/ports.js';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe('RTP port pairs', () => {
  it.each([
    [{ from: 10_000, to: 10_005 }, [10_000, 10_002, 10_004]],
    [{ from: 10_001, to: 10_005 }, [10_002, 10_004]],
    [{ from: 10_000, to: 10_004 }, [10_000, 10_002]],
    [{ from: 10_000, to: 10_000 }, []],
  ])('%o has the even ports %o', (range, expected) => {
    const ports = new RtpPorts(range);
    const taken: number[] = [];
    for (let port = ports.take(); port !== null; port = ports.take()) taken.push(port);
    expect(taken).toEqual(expected);
    expect(ports.count()).toEqual({ used: expected.length, quarantined: 0, total: expected.length });
  });

  it('hands the least recently used pair out first', () => {
    const ports = new RtpPorts({ from: 100, to: 105 });
    const first = ports.take()!;
    ports.restUntilQuiet(first);
    ports.restOver(first);
    expect([ports.take(), ports.take(), ports.take(), ports.take()]).toEqual([102, 104, 100, null]);
  });

  it('rests a pair until its thread says it is quiet', () => {
    const ports = new RtpPorts({ from: 100, to: 101 });
    ports.take();
    ports.restUntilQuiet(100);
    expect(ports.count()).toEqual({ used: 0, quarantined: 1, total: 1 });
    vi.advanceTimersByTime(1e9);
    expect(ports.take()).toBeNull();
    ports.restOver(100);
    expect(ports.take()).toBe(100);
  });

  it('rests the pairs of a dead thread for a time, those in use and those that were drained', () => {
    const ports = new RtpPorts({ from: 100, to: 103 });
    ports.take();
    ports.take();
    ports.restUntilQuiet(102);
    ports.rest(100, 1000);
    ports.rest(102, 1000);
    expect(ports.count()).toEqual({ used: 0, quarantined: 2, total: 2 });
    vi.advanceTimersByTime(1000);
    expect(ports.count()).toEqual({ used: 0, quarantined: 0, total: 2 });
    expect(vi.getTimerCount()).toBe(0);
  });

  it('never hands one pair out twice, whatever is said of it', () => {
    const ports = new RtpPorts({ from: 100, to: 101 });
    ports.take();
    ports.giveBack(100);
    ports.giveBack(100);
    ports.restOver(100);
    ports.rest(100, 0);
    expect([ports.take(), ports.take()]).toEqual([100, null]);
  });

  it('leaves no timer behind', () => {
    const ports = new RtpPorts({ from: 100, to: 101 });
    ports.take();
    ports.rest(100, 1000);
    ports.close();
    expect(vi.getTimerCount()).toBe(0);
  });
});
