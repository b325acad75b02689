import { describe, expect, it } from 'vitest';
import type { Entry } from '../../src/store/journal/entries.js';
import { Journal } from '../../src/store/journal/journal.js';
import type { BatchAnswer } from '../../src/store/journal/writer-protocol.js';
import { FakeClock } from '../support/fake-clock.js';

const written: BatchAnswer = {
  ...{ admissions: [], closedElsewhere: [], settled: [], late: [], hasDeliveries: false, dropped: [], isFenced: false },
};
const begin = { kind: 'begin', callId: 'b' } as Entry;
const facts = { kind: 'facts', callId: 'f', set: {} } as Entry;

/** A journal whose writer takes `writeMs` for a batch; `sent` has what each batch was made of, and when. */
function journalOf(writeMs: number) {
  const clock = new FakeClock(Date.UTC(2026, 0, 15, 12));
  const startMs = clock.now();
  const sent: { atMs: number; kinds: string }[] = [];
  const journal = new Journal({
    clock,
    write: (_number, entries) => {
      sent.push({ atMs: clock.now() - startMs, kinds: entries.map(({ kind }) => kind).join(' ') });
      return writeMs === 0
        ? Promise.resolve(written)
        : new Promise((resolve) => clock.after(writeMs, () => resolve(written)));
    },
    onWritten: () => {},
    onFenced: () => {},
  });
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 1) {
      await settled();
      clock.advance(1);
    }
    await settled();
  };
  return { journal, sent, pass };
}

const settled = () => new Promise<void>((resolve) => setImmediate(() => setImmediate(resolve)));

describe('the journal', () => {
  it('writes at once when nothing was written lately', async () => {
    const { journal, sent, pass } = journalOf(1);
    journal.push(facts);
    await pass(1);
    expect(sent).toEqual([{ atMs: 0, kinds: 'facts' }]);
  });

  it('writes together what comes within 20 ms', async () => {
    const { journal, sent, pass } = journalOf(1);
    journal.push(facts);
    await pass(3);
    journal.push(facts);
    await pass(10);
    journal.push(facts);
    await pass(10);
    expect(sent).toEqual([
      { atMs: 0, kinds: 'facts' },
      { atMs: 20, kinds: 'facts facts' },
    ]);
  });

  it.each([
    { writeMs: 0, atMs: 4 },
    { writeMs: 1, atMs: 8 },
    { writeMs: 2, atMs: 16 },
    { writeMs: 3, atMs: 20 },
    { writeMs: 30, atMs: 30 },
  ])('lets a caller wait eight times as long as a write takes, which is $writeMs ms', async ({ writeMs, atMs }) => {
    const { journal, sent, pass } = journalOf(writeMs);
    journal.push(facts);
    await pass(1);
    journal.push(facts);
    await pass(1);
    journal.push(begin);
    await pass(40);
    expect(sent).toEqual([
      { atMs: 0, kinds: 'facts' },
      { atMs, kinds: 'facts begin' },
    ]);
  });

  it('lets a caller wait who came while a batch was on its way', async () => {
    const { journal, sent, pass } = journalOf(2);
    journal.push(facts);
    await pass(1);
    journal.push(begin);
    await pass(2);
    expect(sent).toHaveLength(1);
    await pass(20);
    expect(sent[1]).toEqual({ atMs: 16, kinds: 'begin' });
  });

  it('waits the whole window again once the begin is written', async () => {
    const { journal, sent, pass } = journalOf(1);
    journal.push(facts);
    await pass(1);
    journal.push(begin);
    await pass(9);
    journal.push(facts);
    await pass(30);
    expect(sent).toEqual([
      { atMs: 0, kinds: 'facts' },
      { atMs: 8, kinds: 'begin' },
      { atMs: 28, kinds: 'facts' },
    ]);
  });
});
