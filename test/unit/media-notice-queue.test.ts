import { expect, test } from 'vitest';
import type { MediaEvent } from '../../media/engine.js';
import type { FromThread } from '../../media/thread/channel.js';
import { NoticeQueue } from '../../media/thread/notice-queue.js';
import { FakeTime } from '../support/fake-time.js';

function turn(startedMs: number, agoMs: number): MediaEvent {
  return { type: 'turn', speaker: 'caller', startedMs, durationMs: 500, responseMs: null, talkOver: false, agoMs };
}

function queue() {
  const time = new FakeTime();
  const sent: FromThread[] = [];
  return { time, sent, notices: new NoticeQueue((message) => sent.push(message), time) };
}

test('turns of many sessions are one message within a tenth of a second, and each knows how long it waited', () => {
  const { time, sent, notices } = queue();
  notices.event(1, turn(0, 700));
  time.advance(60);
  notices.event(2, turn(10, 500));
  expect(sent).toEqual([]);
  time.advance(39);
  expect(sent).toEqual([]);
  time.advance(2);
  expect(sent).toHaveLength(1);
  const [message] = sent;
  if (message?.kind !== 'events') throw new Error('no list of events');
  expect(message.events.map(({ session }) => session)).toEqual([1, 2]);
  const waited = message.events.map(({ event }) => event.type === 'turn' && event.agoMs);
  expect(waited[0]).toBeCloseTo(800, -1);
  expect(waited[1]).toBeCloseTo(540, -1);
});

test('any other message goes at once, behind the turns before it', () => {
  const { time, sent, notices } = queue();
  notices.event(1, turn(0, 0));
  notices.event(1, { type: 'oneWay', direction: 'received' });
  expect(sent.map(({ kind }) => kind)).toEqual(['events', 'event']);
  notices.event(1, turn(0, 0));
  notices.post({ kind: 'lost', session: 1, why: 'rtp-timeout' });
  expect(sent.map(({ kind }) => kind)).toEqual(['events', 'event', 'events', 'lost']);
  time.advance(200);
  expect(sent).toHaveLength(4);
});

test('closing sends what waits and leaves no timer', () => {
  const { time, sent, notices } = queue();
  notices.event(1, turn(0, 0));
  notices.close();
  expect(sent.map(({ kind }) => kind)).toEqual(['events']);
  time.advance(200);
  expect(sent).toHaveLength(1);
});
