/** What `trunkline call` does wrong when told to, option by option: seen from a far end that is not ours, and as its report says. */
import { afterEach, describe, expect, it } from 'vitest';
import { runCli } from '../../src/cli/program.js';
import type { CallReport } from '../../src/simulator/report.js';
import { EchoPeer, type EchoPeerOptions } from '../support/echo-peer.js';

let peer: EchoPeer | null = null;
afterEach(() => {
  peer?.close();
  peer = null;
});

async function run(words: string, options: EchoPeerOptions = {}) {
  const far = await EchoPeer.open(options);
  peer = far;
  const out: string[] = [];
  const context = { env: {}, out: (line: string) => out.push(line), err: (line: string) => out.push(line) };
  const args = ['call', '+15550100', '--to-host', `127.0.0.1:${far.port}`, '--no-markers', ...words.split(' ')];
  const code = await runCli([...args, '--json'], context);
  return { code, report: JSON.parse(out.join('\n')) as CallReport, far };
}

/** Sequence numbers that never came. */
const missing = ({ arrived }: EchoPeer) => {
  const numbers = new Set(arrived.map(({ sequence }) => sequence));
  const first = Math.min(...numbers);
  return Array.from({ length: Math.max(...numbers) - first + 1 }, (_, i) => first + i).filter((n) => !numbers.has(n));
};
/** How many of them lie next to one another, on average. */
const runLength = (lost: readonly number[]) => lost.length / lost.filter((number) => !lost.includes(number - 1)).length;

describe('the network', () => {
  it('--loss, the same packets for the same --seed', async () => {
    const first = await run('--loss 20% --seed 9 --duration 2s', { mute: true });
    const lost = missing(first.far).map((number) => number - first.far.arrived[0]!.sequence);
    expect(first.report.sent.dropped).toBeGreaterThan(10);
    expect(Math.abs(lost.length - first.report.sent.dropped)).toBeLessThanOrEqual(2); // at either end it is not seen
    first.far.close();
    const again = await run('--loss 20% --seed 9 --duration 2s', { mute: true });
    const lostAgain = missing(again.far).map((number) => number - again.far.arrived[0]!.sequence);
    const both = Math.min(lost.length, lostAgain.length);
    expect(lostAgain.slice(0, both)).toEqual(lost.slice(0, both));
  });

  it('--loss-burst', async () => {
    const { far, report } = await run('--loss 30% --loss-burst 6 --seed 3 --duration 3s', { mute: true });
    expect(runLength(missing(far))).toBeGreaterThan(3);
    expect(report.sent.dropped).toBeGreaterThan(15);
  });

  it('--reorder and --duplicate', async () => {
    const { far, report } = await run('--reorder 10% --duplicate 10% --duration 2s', { mute: true });
    const distinct = new Set(far.arrived.map(({ sequence }) => sequence)).size;
    expect(report.sent.duplicated).toBeGreaterThan(2);
    expect(Math.abs(far.arrived.length - distinct - report.sent.duplicated)).toBeLessThanOrEqual(2);
    expect(report.sent.reordered).toBeGreaterThan(2);
    const overtaken = far.arrived.filter(({ sequence }, i) => i > 0 && sequence < far.arrived[i - 1]!.sequence);
    expect(overtaken.length).toBeGreaterThan(1);
  });

  it('--jitter, which the caller measures in what comes back', async () => {
    const { report } = await run('--jitter 40ms --duration 3s');
    expect(report.received.jitterMs).toBeGreaterThan(4);
    expect(report.received.reordered).toBe(0);
  });

  it('--clock-skew', async () => {
    const { far } = await run('--clock-skew 20000 --duration 3s', { mute: true });
    const [first, last] = [far.arrived[0]!, far.arrived.at(-1)!];
    expect(((last.timestamp - first.timestamp) | 0) / 8 - (last.atMs - first.atMs)).toBeGreaterThan(25);
  });
});

describe('the audio', () => {
  it('--one-way in: sends none, and hears', async () => {
    const { far, report } = await run('--one-way in --duration 500ms');
    expect(far.arrived).toHaveLength(0);
    expect(report.sent.packets).toBe(0);
  });

  it('--one-way out: sends, and hears none', async () => {
    const { far, report, code } = await run('--one-way out --duration 500ms');
    expect(far.sent).toBeGreaterThan(15);
    expect(report.received.packets).toBe(0);
    expect({ code, ok: report.ok }).toEqual({ code: 0, ok: true });
  });

  it('--silence', async () => {
    const { far, report } = await run('--silence --duration 500ms');
    expect(far.arrived.length).toBeGreaterThan(15);
    expect(far.arrived.every(({ payload }) => payload.every((byte) => byte === 0xff))).toBe(true);
    expect(report.heard.levelDbfs).toBeNull();
  });

  it('--early: speaks before the answer', async () => {
    const { far, report } = await run('--early --duration 500ms', { early: true, ringMs: 400 });
    expect(far.arrived.filter(({ atMs }) => atMs < far.answeredMs).length).toBeGreaterThan(5);
    expect(report.answerToFirstPacketMs).toBeLessThan(0);
  });

  it('--tone, --codec and --ptime, as it hears them again', async () => {
    const { far, report } = await run('--tone 1000 --codec PCMU --ptime 40 --duration 1500ms');
    expect(new Set(far.arrived.map(({ payloadType, payload }) => `${payloadType} ${payload.length}`))).toEqual(
      new Set(['0 320']),
    );
    expect(report).toMatchObject({ codec: 'PCMU', ptimeMs: 40, ok: true });
    expect(Math.abs(report.heard.frequencyHz! - 1000)).toBeLessThan(3);
  });

  it('--reoffer after --reoffer-after', async () => {
    const { far, report } = await run('--reoffer PCMA --reoffer-after 300ms --duration 900ms');
    expect(report).toMatchObject({ reoffered: 200, codec: 'PCMA', received: { codecs: ['PCMU', 'PCMA'] } });
    expect([far.arrived[0]!.payloadType, far.arrived.at(-1)!.payloadType]).toEqual([0, 8]);
  });
});

describe('the signalling', () => {
  it('--bye 400ms: late', async () => {
    const { far, report } = await run('--bye 400ms --duration 300ms');
    expect(far.byeMs - far.arrived.at(-1)!.atMs).toBeGreaterThan(380);
    expect(report).toMatchObject({ endedBy: 'us' });
    expect(report.noticedMs).toBeGreaterThan(390);
  });

  it('--bye lost: never', async () => {
    const { far, report } = await run('--bye lost --duration 300ms', { hangUpAfterMs: 900 });
    expect(far.methods).toEqual(['INVITE', 'ACK']);
    expect(report).toMatchObject({ endedBy: 'far side', ok: true });
  });

  it('--no-ack: the far side gives up', async () => {
    const { far, report } = await run('--no-ack --duration 5s', { repeatMs: 100 });
    expect(far.methods).not.toContain('ACK');
    expect(report).toMatchObject({ answered: true, endedBy: 'far side' });
  });

  it('a refusal: exit code 1, and why', async () => {
    const { code, report } = await run('--duration 300ms', { refuse: 486 });
    expect(code).toBe(1);
    expect(report).toMatchObject({ answered: false, sipStatus: 486, ok: false });
  });
});
