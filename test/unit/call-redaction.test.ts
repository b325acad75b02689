import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { RedactedMedia } from '../../media/engine.js';
import { blanked } from '../../sip/trace.js';
import { FarRedaction, type ToldRedaction } from '../../src/call/redaction/far-redaction.js';
import { defaultPassage, Redaction, withoutRecord } from '../../src/call/redaction/redaction.js';
import { withoutNumbers } from '../../src/call/redaction/spoken-numbers.js';

describe('numbers that were said', () => {
  it.each([
    ['my card is 4929 1234 5678 9012 thanks', 'my card is [redacted] thanks'],
    ['four nine two nine, one two three four', '[redacted]'],
    ['it expires oh three twenty-six', 'it expires [redacted]'],
    ['double seven for ate one', '[redacted]'],
    ['four nine um yes two nine', '[redacted]'], // misheard digits within the number
    ['I want to go for a walk', 'I want to go for a walk'],
    ['The answer is one', 'The answer is [redacted]'],
    ['Meine Nummer ist einundzwanzig fünfundvierzig bitte', 'Meine Nummer ist [redacted] bitte'],
    ['vier-zwei-eins', '[redacted]'],
    ['mi número es treinta y cuatro cero dos', 'mi número es [redacted]'],
    ['quatre-vingt-dix-sept, zéro deux', '[redacted]'],
    ['ventitré quarantuno', '[redacted]'],
    ['cartão meia dúzia sete', 'cartão [redacted]'],
    ['eenentwintig', '[redacted]'],
    ['девять пять два', '[redacted]'],
    ['dziewięćdziesiąt pięć', '[redacted]'],
    ['我的号码是四九二九，谢谢', '我的号码是[redacted]，谢谢'],
    ['رقمي ٤٩٢٩', 'رقمي [redacted]'],
    ['', ''],
  ])('%s', (said, kept) => {
    expect(withoutNumbers(said)).toBe(kept);
  });

  it('also in endless words, without trying every way to cut them', () => {
    expect(withoutNumbers('dezoito'.repeat(2000))).toBe('[redacted]');
    expect(withoutNumbers(`${'dezoito'.repeat(2000)}q`)).toBe(`${'dezoito'.repeat(2000)}q`);
  });
});

interface Scene {
  redaction: Redaction;
  events: [string, Record<string, unknown>][];
  media: RedactedMedia[];
}

let nowMs = 0;
beforeEach(() => {
  nowMs = 100_000;
  vi.useFakeTimers();
  return () => vi.useRealTimers();
});

function scene(): Scene {
  const events: Scene['events'] = [];
  const media: RedactedMedia[] = [];
  const redaction = new Redaction({
    event: (type, data) => events.push([type, data]),
    sinceAnswerMs: () => nowMs - 100_000,
    clockMs: () => nowMs,
  });
  redaction.cover({ redact: (what) => media.push(what) });
  return { redaction, events, media };
}

const numbers = { ...defaultPassage };
const silent = { audio: true, streams: false, keys: false };
const stored = { audio: false, streams: false, keys: false };

describe('a redacted passage', () => {
  it('is in the record with its begin and end, once for passages within each other', () => {
    const { redaction, events, media } = scene();
    nowMs += 1000;
    const outer = redaction.begin('gather');
    nowMs += 500;
    redaction.start('api', { ...numbers, streams: true });
    nowMs += 500;
    outer();
    expect(events).toEqual([['redaction.started', { source: 'gather' }]]);
    nowMs += 1000;
    redaction.stop();
    redaction.stop();
    expect(events[1]).toEqual(['redaction.ended', { reason: 'stopped', from_ms: 1000, to_ms: 3000 }]);
    expect(events.length).toBe(2);
    expect(media).toEqual([silent, { ...silent, streams: true }, { ...silent, streams: true }, stored]);
  });

  it('ends by itself at its limit; a second begin restarts it', () => {
    const { redaction, events } = scene();
    redaction.start('agent', { ...numbers, limitMs: 10_000 });
    vi.advanceTimersByTime(9000);
    redaction.start('agent', { ...numbers, limitMs: 10_000 });
    vi.advanceTimersByTime(9999);
    expect(redaction.isOpen).toBe(true);
    vi.advanceTimersByTime(1);
    expect(events.map(([type, { reason }]) => [type, reason])).toEqual([
      ['redaction.started', undefined],
      ['redaction.ended', 'limit'],
    ]);
  });

  it('covers media that come later, and none any more that went', () => {
    const { redaction } = scene();
    redaction.start('api', numbers);
    const later = vi.fn();
    const uncover = redaction.cover({ redact: later });
    expect(later.mock.calls).toEqual([[silent]]);
    uncover();
    redaction.stop();
    expect(later).toHaveBeenCalledTimes(1);
  });

  it('ends in the record with the call, and stays redacted for what comes after', () => {
    const { redaction, events, media } = scene();
    redaction.start('api', numbers);
    nowMs += 2000;
    redaction.close();
    redaction.close();
    redaction.stop();
    nowMs += 60_000;
    expect(events.at(-1)).toEqual(['redaction.ended', { reason: 'call_ended', from_ms: 0, to_ms: 2000 }]);
    expect(media).toEqual([silent]);
    expect(redaction.textOf('one two')).toBe('[redacted]');
    expect(redaction.hidesKey()).toBe(true);
  });

  it('hides keys that were pressed in it, also when they are released later', () => {
    const { redaction } = scene();
    expect(redaction.hidesKey(100)).toBe(false);
    const end = redaction.begin('gather');
    expect(redaction.hidesKey(100)).toBe(true);
    nowMs += 1000;
    end();
    nowMs += 900;
    expect(redaction.hidesKey(100)).toBe(false);
    expect(redaction.hidesKey(1200)).toBe(true);
  });

  it('hides numbers of utterances that overlap it, by when they began', () => {
    const { redaction } = scene();
    nowMs += 30_000;
    const beforeMs = nowMs - 5000;
    const end = redaction.begin('gather');
    nowMs += 4000;
    expect(redaction.textOf('room five', beforeMs)).toBe('room [redacted]'); // it may have gone on into the passage
    end();
    nowMs += 2000;
    expect(redaction.textOf('five', nowMs - 1000)).toBe('five');
    expect(redaction.textOf('five', nowMs - 2500)).toBe('[redacted]');
    expect(redaction.textOf('five')).toBe('[redacted]'); // when it began is not known
    nowMs += 20_000;
    expect(redaction.textOf('five')).toBe('five');
  });

  it('hides all words if so begun', () => {
    const { redaction } = scene();
    redaction.start('api', { ...numbers, transcript: 'all' });
    expect(redaction.textOf('my mother is called Anna')).toBe('[redacted]');
  });

  it('counts for both calls of a bridge while they are bridged', () => {
    const one = scene();
    const other = scene();
    one.redaction.start('api', numbers);
    const unlink = one.redaction.link(other.redaction);
    expect(other.events).toEqual([['redaction.started', { source: 'bridge' }]]);
    expect(other.media.at(-1)).toEqual(silent);
    other.redaction.stop(); // whoever serves the other call may end it
    expect([one.redaction.isOpen, other.redaction.isOpen]).toEqual([false, false]);
    other.redaction.start('agent', numbers);
    expect(one.redaction.isOpen).toBe(true);
    unlink();
    expect([one.redaction.isOpen, other.redaction.isOpen]).toEqual([false, true]);
    one.redaction.redactEveryKey();
    expect(other.redaction.hidesKey()).toBe(true); // its own passage
    other.redaction.stop();
    nowMs += 10_000;
    expect([one.redaction.hidesKey(), other.redaction.hidesKey()]).toEqual([true, false]);
  });

  it('counts for all calls of a conference while its own is in it', () => {
    const [one, two, three] = [scene(), scene(), scene()];
    const conference = new Redaction(withoutRecord);
    const [part] = [one, two, three].map(({ redaction }) => conference.link(redaction));
    const open = () => [one.redaction, two.redaction, three.redaction, conference].map(({ isOpen }) => isOpen);
    one.redaction.start('api', numbers);
    expect(open()).toEqual([true, true, true, true]);
    two.redaction.stop(); // not its own
    expect(open()).toEqual([true, true, true, true]);
    part?.();
    expect(open()).toEqual([true, false, false, false]);
    const end = three.redaction.begin('gather');
    expect(open()).toEqual([true, true, true, true]);
    end();
    expect(open()).toEqual([true, false, false, false]);
    expect(two.events.map(([type, { source, reason }]) => [type, source ?? reason])).toEqual([
      ['redaction.started', 'bridge'],
      ['redaction.ended', 'stopped'],
      ['redaction.started', 'bridge'],
      ['redaction.ended', 'stopped'],
    ]);
  });
});

describe('a conference whose calls are at two nodes', () => {
  function linked() {
    const [here, there] = [scene(), scene()];
    const messages: string[] = [];
    const wire = (to: () => FarRedaction) => (what: ToldRedaction) => {
      messages.push(JSON.stringify(what));
      to().heard(JSON.parse(JSON.stringify(what)));
    };
    const far: FarRedaction = new FarRedaction(wire(() => near));
    const near: FarRedaction = new FarRedaction(wire(() => far));
    const unlink = [here.redaction.link(far.redaction), there.redaction.link(near.redaction)];
    return { here, there, messages, far, near, unlink };
  }
  const late = { ...silent, lateMs: 500 };

  it('a passage of either counts for both, from before the message came, and is told once', () => {
    const { here, there, messages } = linked();
    here.redaction.start('api', { ...numbers, transcript: 'all', streams: true });
    expect(there.media).toEqual([{ ...late, streams: true }]);
    expect(there.redaction.textOf('Anna')).toBe('[redacted]');
    const end = there.redaction.begin('gather');
    here.redaction.stop();
    expect([here.redaction.isOpen, there.redaction.isOpen]).toEqual([true, true]);
    end();
    expect([here.redaction.isOpen, there.redaction.isOpen]).toEqual([false, false]);
    expect(messages).toHaveLength(4);
    here.redaction.redactEveryKey();
    expect(there.redaction.hidesKey()).toBe(true);
    expect(messages).toHaveLength(5);
  });

  it('what began before they met counts, and ends with the link', () => {
    const first = scene();
    const second = scene();
    first.redaction.start('api', numbers);
    const told: ToldRedaction[] = [];
    const far = new FarRedaction((what) => told.push(what));
    const unlink = first.redaction.link(far.redaction);
    expect(told).toEqual([{ passage: numbers, everyKey: false }]);
    const near = new FarRedaction(() => {});
    second.redaction.link(near.redaction);
    for (const each of told) near.heard(each);
    expect(second.redaction.isOpen).toBe(true);
    near.close();
    unlink();
    expect(second.redaction.isOpen).toBe(false);
    expect(first.redaction.isOpen).toBe(true);
  });

  it('ends at the limit, also when the other node says nothing more', () => {
    const { redaction, media } = scene();
    const near = new FarRedaction(() => {});
    redaction.link(near.redaction);
    near.heard({ passage: { ...numbers, limitMs: 5000 }, everyKey: false });
    expect(media).toEqual([late]);
    vi.advanceTimersByTime(5000);
    expect(media).toEqual([late, stored]);
  });
});

describe('the SIP trace', () => {
  const message = (type: string, body: string) =>
    `INFO sip:a@b SIP/2.0\r\nCall-ID: x\r\nContent-Type: ${type}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  it.each([
    ['application/dtmf-relay', 'Signal=5\r\nDuration=160\r\n', 'Signal=x\r\nDuration=160\r\n'],
    ['application/dtmf-relay', 'Signal= #\r\nDuration=160', 'Signal= x\r\nDuration=160'],
    ['application/dtmf', '5', 'x'],
    ['application/vnd.nortelnetworks.digits', 'd=4', 'xxx'],
    ['application/kpml-response+xml', '<r digits="4"/>', 'xx xxxxxxxxxxxx'],
    ['application/sdp', 'v=0\r\nSignal=5', 'v=0\r\nSignal=5'],
  ])('has no keys of %s', (type, body, kept) => {
    expect(blanked(message(type, body))).toBe(message(type, kept));
  });
});
