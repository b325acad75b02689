import { describe, expect, it } from 'vitest';
import { DtmfReceiver, DtmfSender, type KeyPress } from '../../media/rtp/dtmf.js';

type Event = { key: number; duration: number; end?: boolean; at: number; atMs?: number };

const payload = ({ key, duration, end }: Event) =>
  Uint8Array.of(key, (end ? 0x80 : 0) | 10, duration >> 8, duration & 0xff);

function receive(events: Event[], receiver = new DtmfReceiver()): KeyPress[] {
  return events.flatMap((event, i) => receiver.packet(payload(event), event.at, event.atMs ?? i * 20) ?? []);
}

/** A press as a phone sends it: growing durations, then the end three times. */
const press = (key: number, at: number, ms = 100): Event[] => {
  const steps = Array.from({ length: ms / 20 }, (_, i) => ({ key, at, duration: (i + 1) * 160 }));
  return [...steps, ...Array(3).fill({ key, at, duration: ms * 8, end: true })];
};

describe('receiving', () => {
  it.each<[string, Event[], KeyPress[]]>([
    ['a press with three ends', press(5, 1000), [{ digit: '5', durationMs: 100 }]],
    [
      'the same key twice',
      [...press(1, 0), ...press(1, 4000)],
      [
        { digit: '1', durationMs: 100 },
        { digit: '1', durationMs: 100 },
      ],
    ],
    ['a single end of three', press(5, 0).slice(0, -2), [{ digit: '5', durationMs: 100 }]],
    ['only an end', press(11, 0).slice(-1), [{ digit: '#', durationMs: 100 }]],
    [
      'all ends lost, then another key',
      [...press(7, 0).slice(0, 5), ...press(8, 4000)],
      [
        { digit: '7', durationMs: 100 },
        { digit: '8', durationMs: 100 },
      ],
    ],
    [
      'packets of a press out of order',
      [press(3, 0)[1]!, press(3, 0)[0]!, press(3, 0)[4]!, press(3, 0)[5]!, press(3, 0)[2]!, press(3, 0)[6]!],
      [{ digit: '3', durationMs: 100 }],
    ],
    [
      'a late packet of the press before',
      [...press(1, 0), ...press(2, 4000), press(1, 0)[3]!],
      [
        { digit: '1', durationMs: 100 },
        { digit: '2', durationMs: 100 },
      ],
    ],
    [
      'letters',
      [...press(12, 0), ...press(15, 4000)],
      [
        { digit: 'A', durationMs: 100 },
        { digit: 'D', durationMs: 100 },
      ],
    ],
    ['a hook flash is no key', press(16, 0), []],
    [
      'around the wrap of the timestamp',
      [...press(1, 0xffffff00), ...press(2, 0x100)],
      [
        { digit: '1', durationMs: 100 },
        { digit: '2', durationMs: 100 },
      ],
    ],
  ])('%s', (_what, events, presses) => {
    expect(receive(events)).toEqual(presses);
  });

  it('ends a press whose ends were all lost when nothing more comes, once', () => {
    const receiver = new DtmfReceiver();
    receive(press(9, 0).slice(0, 4), receiver);
    expect(receiver.expire(150)).toBeNull();
    expect(receiver.expire(300)).toEqual({ digit: '9', durationMs: 80 });
    expect(receiver.expire(600)).toBeNull();
    expect(receiver.packet(payload(press(9, 0)[6]!), 0, 620)).toBeNull();
  });

  it('takes a press over 8 s, sent in segments, as one', () => {
    const segment = 0xffff;
    const events = [
      { key: 4, at: 100, duration: 160 },
      { key: 4, at: 100, duration: segment },
      { key: 4, at: 100 + segment, duration: 160 },
      { key: 4, at: 100 + segment, duration: 8000, end: true },
    ];
    expect(receive(events)).toEqual([{ digit: '4', durationMs: (segment + 8000) / 8 }]);
  });

  it('ignores payloads that are too short', () => {
    expect(new DtmfReceiver().packet(Uint8Array.of(1, 0x80), 0, 0)).toBeNull();
  });
});

describe('sending', () => {
  function send(digits: string, ptimeMs = 20) {
    const sender = new DtmfSender();
    sender.send(digits);
    const steps: { marker: boolean; back: number; bytes: number[] | null }[] = [];
    while (sender.active) {
      const step = sender.next(ptimeMs);
      steps.push({ marker: step.marker, back: step.ticksIntoPress, bytes: step.payload && [...step.payload] });
    }
    return steps;
  }

  it('marks the first packet, grows the duration, and says the end three times', () => {
    const events = send('5').filter((step) => step.bytes);
    expect(events.map((step) => step.marker)).toEqual([true, ...Array(6).fill(false)]);
    expect(events.map((step) => (step.bytes![2]! << 8) | step.bytes![3]!)).toEqual([160, 320, 480, 640, 800, 800, 800]);
    expect(events.map((step) => step.bytes![1]! >> 7)).toEqual([0, 0, 0, 0, 1, 1, 1]);
    expect(events.every((step) => step.bytes![0] === 5)).toBe(true);
  });

  it('says all packets of a press at the timestamp of its beginning', () => {
    expect(send('5').map((step) => step.back)).toEqual([0, 1, 2, 3, 4, 5, 6, 7].map((i) => i * 160));
  });

  it.each([10, 20, 30, 40, 60])('at a packet time of %i ms the receiver hears every key once', (ptimeMs) => {
    const receiver = new DtmfReceiver();
    const heard: string[] = [];
    send('0123456789*#ABCD1155', ptimeMs).forEach((step, i) => {
      const now = i * ptimeMs * 8;
      const said = step.bytes && receiver.packet(Uint8Array.from(step.bytes), now - step.back, i * ptimeMs);
      if (said) heard.push(said.digit);
    });
    expect(heard.join('')).toBe('0123456789*#ABCD1155');
  });

  it('waits half a second at a w', () => {
    expect(send('w')).toHaveLength(25);
    expect(send('w').every((step) => step.bytes === null)).toBe(true);
  });
});
