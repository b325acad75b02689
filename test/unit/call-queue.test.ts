import { describe, expect, test } from 'vitest';
import type { CallParty } from '../../src/call/party/party.js';
import { CallQueues } from '../../src/call/queue/call-queues.js';

const scope = { organizationId: 'one', mode: 'live' } as const;
const party = () => ({}) as CallParty;

function queueOf(size?: number) {
  const queue = new CallQueues().open(scope, 'q', size);
  if (queue === null) throw new Error('There is no queue.');
  return queue;
}

describe('a queue of calls', () => {
  test('gives the call that has waited longest to the one who has asked first', async () => {
    const queue = queueOf();
    const { signal } = new AbortController();
    const [a, b] = [queue.enter(party(), 9), queue.enter(party(), 9)];
    if (a === null || b === null) throw new Error('The queue is full.');
    expect([queue.positionOf(a), queue.positionOf(b)]).toEqual([1, 2]);
    expect(await queue.next(signal)).toBe(a);
    expect([queue.positionOf(a), queue.positionOf(b)]).toEqual([0, 1]);
    queue.reenter(a); // the connection did not come about
    expect(queue.members).toEqual([a, b]);
    expect(await Promise.all([queue.next(signal), queue.next(signal)])).toEqual([a, b]);
    const [first, second] = [queue.next(signal), queue.next(signal)];
    expect(queue.isIdle).toBe(false);
    const [c, d] = [queue.enter(party(), 9), queue.enter(party(), 9)];
    expect([await first, await second]).toEqual([c, d]);
    expect(queue.isIdle).toBe(true);
  });

  test('has the size of the queue, or the smaller one of the action', () => {
    const queue = queueOf(2);
    expect(queue.enter(party(), 9)).not.toBeNull();
    expect(queue.enter(party(), 1)).toBeNull();
    expect(queue.enter(party(), 9)).not.toBeNull();
    expect(queue.enter(party(), 9)).toBeNull();
  });

  test('gives nothing to the one who has given up', async () => {
    const queue = queueOf();
    const tired = new AbortController();
    const wanted = queue.next(tired.signal);
    tired.abort(new Error('too late'));
    await expect(wanted).rejects.toThrow('too late');
    await expect(queue.next(tired.signal)).rejects.toThrow('too late');
    const member = queue.enter(party(), 9);
    expect(queue.members).toEqual([member]);
  });
});

describe('the queues', () => {
  test('are those of an organization and a mode', () => {
    const queues = new CallQueues();
    const own = queues.open(scope, 'q');
    expect(queues.open(scope, 'q')).toBe(own);
    for (const other of [{ organizationId: 'on', mode: 'live' } as const, { ...scope, mode: 'test' } as const]) {
      expect(queues.open(other, 'q')).not.toBe(own);
      expect(queues.find(other, own?.id ?? '')).toBeUndefined();
    }
    expect(queues.list(scope)).toEqual([own]);
  });

  test('that nobody uses make room for others; those that the API made stay', () => {
    const queues = new CallQueues();
    const kept = queues.create(scope, 'kept', 5);
    const busy = queues.open(scope, 'busy');
    busy?.enter(party(), 9);
    for (let i = 0; i < 1500; i++) expect(queues.open(scope, `q${i}`)).not.toBeNull();
    const all = queues.list(scope);
    expect(all).toHaveLength(1000);
    expect(all).toEqual(expect.arrayContaining([kept, busy]));
    expect(queues.create(scope, 'kept', 5)).toBeNull();
    expect(busy && queues.delete(busy)).toBe(false);
    expect(kept && queues.delete(kept)).toBe(true);
    expect(queues.find(scope, kept?.id ?? '')).toBeUndefined();
  });
});
