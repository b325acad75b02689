import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { emptyRtpView } from '../../media/rtp/packet.js';
import { RtpSource } from '../../media/rtp/source.js';

interface Place {
  address: string;
  port: number;
}

/** What the SDP names, and the host that signals. */
const phone = { address: '198.51.100.7', port: 4000 };
const otherPort = { ...phone, port: 4002 };
const straySbc = { ...phone, port: 8000 };
const hidden = { address: '10.0.0.7', port: 4000 };
const nat = { address: '203.0.113.9', port: 31_000 };
const natNeighbour = { ...nat, port: 33_000 };
const attacker = { address: '192.0.2.66', port: 9 };
const moved = { address: '198.51.100.8', port: 6000 };

/** One stream: 20 ms of PCMU in each packet. */
class Stream {
  sequence = 60_000;
  timestamp = 4_000_000_000;

  constructor(
    readonly ssrc: number,
    public from: Place,
  ) {}
}

class Line {
  readonly source = new RtpSource();
  nowMs = 0;

  constructor(sdp: Place = phone, signalling: Place = phone) {
    this.source.expect(sdp.address, sdp.port);
    this.source.signalledFrom(signalling.address);
  }

  /** Packets of a stream, 20 ms apart; how many were accepted. */
  hear(stream: Stream, count = 1): number {
    let accepted = 0;
    for (let i = 0; i < count; i++) if (this.one(stream)) accepted += 1;
    return accepted;
  }

  one(stream: Stream): boolean {
    this.nowMs += 20;
    const { ssrc, sequence, timestamp, from } = stream;
    stream.sequence = (sequence + 1) & 0xffff;
    stream.timestamp = (timestamp + 160) >>> 0;
    const view = { ...emptyRtpView(), ssrc, sequence, timestamp };
    return this.source.judge(view, from.address, from.port, this.nowMs) === 'accept';
  }

  /** The phone pauses: its sequence stands still, its timestamps go on. */
  pause(stream: Stream, ms: number): void {
    this.nowMs += ms;
    stream.timestamp = (stream.timestamp + ms * 8) >>> 0;
  }

  /** The first packet that counts, in the words of the table. */
  from(stream: Stream): string {
    for (let n = 1; n <= 200; n++) if (this.one(stream)) return `from packet ${n}`;
    return 'never';
  }
}

type Cell = (() => string)[];
/** A call of a phone that has been heard, and what its SDP and its signalling say. */
type Setup = () => { line: Line; voice: Stream };

const heard = (sdp: Place, signalling: Place, from: Place) => () => {
  const line = new Line(sdp, signalling);
  const voice = new Stream(1, from);
  line.hear(voice, 50);
  return { line, voice };
};
const unheard = (sdp: Place, signalling: Place, from: Place) => () => ({
  line: new Line(sdp, signalling),
  voice: new Stream(1, from),
});
const then = (setup: Setup, change: (call: ReturnType<Setup>) => void) => () => {
  const call = setup();
  change(call);
  return call;
};

/** Another stream, and whether the phone gets its place back. */
const intrusion = (setup: Setup, intruder: Place) => () => {
  const { line, voice } = setup();
  const when = line.from(new Stream(99, intruder));
  if (when === 'never') {
    expect(line.hear(voice, 5), 'the phone, undisturbed').toBeGreaterThan(0);
    return when;
  }
  const back = line.from(voice);
  return `${when}, ${back === 'never' ? 'kept' : back.replace('from', 'until')}`;
};

/** The phone's own stream from a new port of its host, and from a new host. */
const rebinding = (setup: Setup): Cell =>
  [(from: Place) => ({ ...from, port: from.port + 50 }), () => ({ address: '203.0.113.77', port: 1024 })].map(
    (place) => () => {
      const { line, voice } = setup();
      voice.from = place(voice.from);
      return line.from(voice);
    },
  );

const exact = heard(phone, phone, phone);
const natted = heard(hidden, nat, nat);
const silent = (setup: Setup) => then(setup, ({ line, voice }) => line.pause(voice, 10_000));
const held = (setup: Setup) =>
  then(silent(setup), ({ line }) => {
    line.source.takesStrangers = false;
  });
const announced = then(exact, ({ line }) => line.source.expect(moved.address, moved.port));
const reinvited = then(announced, ({ voice }) => {
  voice.from = moved;
});
const reused = (lateSender: Place) =>
  then(unheard(phone, phone, phone), ({ line }) => line.source.shun({ ...lateSender, ssrc: 99 }));

/** RTCP: of which place the report is taken, when the phone is heard at `phone`. */
const report =
  (from: Place, reporter = 1) =>
  () => {
    const { line } = exact();
    return line.source.takesReport(from, false, phone.port + 1, reporter) ? 'from packet 1' : 'never';
  };
const reportAfterRebinding = () => {
  const { line, voice } = natted();
  voice.from = { ...nat, port: 40_000 };
  line.hear(voice);
  const from = { ...nat, port: 41_555 };
  return line.source.takesReport(from, false, hidden.port + 1, voice.ssrc) ? 'from packet 1' : 'never';
};

/** Each row of the table: a stranger from another host, the phone itself after a NAT changed its address, another stream of a host it named. */
const rows: Record<string, [Cell, Cell, Cell]> = {
  "sends from the SDP's address; not heard yet": [
    [intrusion(unheard(phone, phone, phone), attacker)],
    [],
    [intrusion(unheard(phone, phone, phone), straySbc)],
  ],
  "sends from the SDP's address": [[intrusion(exact, attacker)], rebinding(exact), [intrusion(exact, straySbc)]],
  'sends from another port of that host; not heard yet': [
    [intrusion(unheard(phone, phone, otherPort), attacker)],
    [],
    [intrusion(unheard(phone, phone, otherPort), straySbc)],
  ],
  'sends from another port of that host': [
    [intrusion(heard(phone, phone, otherPort), attacker)],
    rebinding(heard(phone, phone, otherPort)),
    [intrusion(heard(phone, phone, otherPort), straySbc)],
  ],
  'is behind a NAT; not heard yet': [
    [intrusion(unheard(hidden, nat, nat), attacker)],
    [],
    [intrusion(unheard(hidden, nat, nat), natNeighbour)],
  ],
  'is behind a NAT': [[intrusion(natted, attacker)], rebinding(natted), [intrusion(natted, natNeighbour)]],
  'is silent (DTX), however long': [
    [intrusion(silent(exact), attacker)],
    rebinding(silent(exact)),
    [intrusion(silent(exact), straySbc)],
  ],
  'is on hold': [[intrusion(held(exact), attacker)], rebinding(held(exact)), [intrusion(held(exact), straySbc)]],
  'has changed its address by re-INVITE': [
    [intrusion(reinvited, attacker)],
    rebinding(announced),
    [intrusion(reinvited, { ...moved, port: 9000 })],
  ],
  'has a port that an earlier stream still sends to': [
    [intrusion(reused(attacker), attacker)],
    [],
    [intrusion(reused(straySbc), straySbc)],
  ],
  'sends reports (RTCP)': [
    [report({ ...attacker, port: phone.port + 1 })],
    [reportAfterRebinding],
    [report({ ...straySbc, port: straySbc.port + 1 })],
  ],
};

/** The table of docs/security.md: what stands in bold. */
function documented(): Record<string, string[][]> {
  const text = readFileSync(path.resolve(import.meta.dirname, '../../docs/security.md'), 'utf8');
  const section = text.split('\n## ').find((each) => each.startsWith('Accepted media sources\n')) ?? '';
  const table = section.split('\n').filter((line) => line.startsWith('|'));
  return Object.fromEntries(
    table.slice(2).map((line) => {
      const [, first = '', ...cells] = line.split('|').map((cell) => cell.trim());
      return [first, cells.slice(0, 3).map((cell) => [...cell.matchAll(/\*\*(.+?)\*\*/g)].map((match) => match[1]!))];
    }),
  );
}

describe('accepted media sources, as in docs/security.md', () => {
  const table = documented();
  const columns = ['a stranger from another host', 'a NAT that changed', 'another stream of its host'];

  it('has these rows and no others', () => {
    expect(Object.keys(table)).toEqual(Object.keys(rows));
  });

  it.each(Object.entries(rows).flatMap(([row, cells]) => cells.map((cell, i) => [row, columns[i]!, cell, i] as const)))(
    'the phone %s: %s',
    (row, _column, cell, i) => {
      expect(cell.map((scenario) => scenario())).toEqual(table[row]![i]);
    },
  );
});

describe('whose packets count', () => {
  it('no source before an SDP', () => {
    const source = new RtpSource();
    expect(source.judge(emptyRtpView(), phone.address, phone.port, 0)).toBe('foreign');
  });

  it('the named source from its first packet', () => {
    expect(new Line().hear(new Stream(1, phone), 10)).toBe(10);
  });

  it('another port of the named host, or another host, after a run in sequence', () => {
    for (const from of [otherPort, nat]) {
      const line = new Line();
      expect(line.hear(new Stream(1, from), 10)).toBe(8);
      expect(line.source).toMatchObject(from);
    }
  });

  it('a stray packet from another port of the named host never has the place of the phone', () => {
    const line = new Line();
    const voice = new Stream(1, phone);
    expect(line.hear(new Stream(99, straySbc))).toBe(0);
    for (let i = 0; i < 50; i++) {
      expect(line.hear(voice)).toBe(1);
      expect(line.hear(new Stream(100 + i, straySbc))).toBe(0);
    }
    expect(line.source).toMatchObject(phone);
  });

  it('the source of the SDP at once, although another source continues', () => {
    for (const [from, before] of [
      [attacker, 3],
      [attacker, 500],
      [straySbc, 5],
      [straySbc, 500],
    ] as const) {
      const line = new Line();
      const intruder = new Stream(9, from);
      const voice = new Stream(1, phone);
      line.hear(intruder, before);
      for (let i = 0; i < 20; i++) {
        expect(line.hear(voice)).toBe(1);
        expect(line.hear(intruder)).toBe(0);
      }
    }
  });

  it('never single packets sprayed from many places', () => {
    const line = new Line();
    for (let i = 0; i < 50; i++)
      expect(line.hear(new Stream(i, { address: attacker.address, port: 1000 + i }))).toBe(0);
    expect(line.hear(new Stream(1, phone), 5)).toBe(5);
  });

  it('never packets that repeat one number', () => {
    const line = new Line();
    const stream = new Stream(9, attacker);
    for (let i = 0; i < 50; i++) {
      stream.sequence = 7;
      expect(line.hear(stream)).toBe(0);
    }
  });

  it('nobody else once a phone is heard, in any number', () => {
    for (const [line, from] of [
      [new Line(), phone],
      [new Line(hidden, nat), nat],
    ] as const) {
      const voice = new Stream(1, from);
      const intruder = new Stream(99, attacker);
      line.hear(voice, 5);
      for (let i = 0; i < 200; i++) {
        expect(line.hear(intruder)).toBe(0);
        expect(line.hear(voice)).toBe(1);
      }
    }
  });

  it('behind a NAT: the host of the signalling, although another source came earlier and continues', () => {
    const line = new Line(hidden, nat);
    const intruder = new Stream(9, attacker);
    expect(line.hear(intruder, 15)).toBe(13);
    const voice = new Stream(1, nat);
    let lost = 0;
    for (let i = 0; i < 20; i++) {
      lost += 1 - line.hear(voice);
      line.hear(intruder);
    }
    expect(lost).toBe(2);
    expect(line.hear(intruder, 10)).toBe(0);
  });

  it('behind a NAT: a phone of a call whose signalling comes late is not lost to a stranger either', () => {
    const line = new Line(hidden, attacker);
    line.hear(new Stream(1, nat), 10);
    line.source.signalledFrom(nat.address);
    expect(line.hear(new Stream(9, { address: '192.0.2.99', port: 5 }), 100)).toBe(0);
  });

  it('the stream that moves, not one that only has its SSRC', () => {
    const { line } = exact();
    const copy = new Stream(1, { ...phone, port: 5555 });
    for (const [sequence, timestamp] of [
      [1000, 4_000_008_000],
      [60_050, 1000],
      [60_020, 4_000_008_000],
    ] as const) {
      Object.assign(copy, { sequence, timestamp });
      expect(line.hear(copy)).toBe(0);
    }
  });

  it('from another host not even a copy of the stream while the phone speaks', () => {
    const { line, voice } = exact();
    const copy = new Stream(1, attacker);
    for (let i = 0; i < 50; i++) {
      Object.assign(copy, { sequence: (voice.sequence + 1) & 0xffff, timestamp: voice.timestamp + 160 });
      expect(line.hear(copy)).toBe(0);
      expect(line.hear(voice)).toBe(1);
    }
  });

  it('from another host not a copy that begins with what was heard already', () => {
    const { line, voice } = exact();
    const copy = new Stream(1, attacker);
    Object.assign(copy, { sequence: voice.sequence - 5, timestamp: voice.timestamp - 5 * 160 });
    expect(line.hear(copy, 100)).toBe(0);
    expect(line.hear(voice)).toBe(1);
  });

  it('a phone whose sequence wraps, and that is overtaken by its own packets, is followed all the same', () => {
    const { line, voice } = natted();
    for (let i = 0; i < 6000; i++) line.hear(voice);
    voice.sequence -= 2;
    voice.timestamp -= 320;
    expect(line.hear(voice)).toBe(1);
    voice.sequence += 2;
    voice.timestamp += 320;
    voice.from = natNeighbour;
    expect(line.hear(voice, 10)).toBe(10);
  });

  it('on hold a phone that was never heard is not sought among strangers, but on the hosts it named', () => {
    const call = held(unheard(hidden, nat, nat))();
    expect(call.line.hear(new Stream(9, attacker), 100)).toBe(0);
    expect(call.line.hear(call.voice, 10)).toBe(8);
  });

  it('never a late sender of an earlier call on this port, however long the phone is silent', () => {
    const line = new Line();
    line.source.shun({ ...attacker, ssrc: 66 });
    const lateSender = new Stream(66, attacker);
    const voice = new Stream(1, nat);
    expect(line.hear(lateSender, 200)).toBe(0);
    expect(line.hear(voice, 10)).toBe(8);
    line.pause(voice, 60_000); // the phone is silent, the late sender is not
    expect(line.hear(lateSender, 200)).toBe(0);
    expect(line.hear(voice, 10)).toBe(10);
  });

  it('the named source, even where a ghost had its place', () => {
    const line = new Line();
    line.source.shun({ ...phone, ssrc: 1 });
    expect(line.hear(new Stream(1, phone), 10)).toBe(10);
  });

  it('a new address of the SDP, while the old one counts until it speaks', () => {
    const { line, voice } = exact();
    expect(line.source.expect(moved.address, moved.port)).toBe(true);
    expect(line.hear(voice, 3)).toBe(3);
    expect(line.hear(new Stream(2, moved), 3)).toBe(3);
    expect(line.hear(voice, 3)).toBe(0);
  });

  it('behind a NAT a re-INVITE with another private address: the same host, another port, another stream', () => {
    const { line } = natted();
    line.source.expect(hidden.address, hidden.port + 10);
    expect(line.hear(new Stream(2, natNeighbour), 10)).toBe(8);
  });

  it('the same address of a re-offer changes nothing', () => {
    const { line } = natted();
    expect(line.source.expect(hidden.address, hidden.port)).toBe(false);
    expect(line.hear(new Stream(5, attacker), 10)).toBe(0);
  });
});

describe('whose reports count (RTCP)', () => {
  const sdpPort = 4900;
  const takes = (line: Line, from: Place, muxed = false, reporter: number | null = 77) =>
    line.source.takesReport(from, muxed, sdpPort, reporter);

  it.each([
    ['the port of the SDP', { ...phone, port: sdpPort }, false, true],
    ['the port next to RTP, when the SDP says another', { ...phone, port: 4001 }, false, false],
    ['the very source, on the socket of RTP', phone, true, true],
    ['another port of its host, on the socket of RTP', otherPort, true, false],
    ['another port of its host', otherPort, false, false],
    ['a stranger with the right port', { ...attacker, port: sdpPort }, false, false],
    ['a stranger on the socket of RTP', attacker, true, false],
  ])('%s', (_name, from, muxed, taken) => {
    for (const { line } of [exact(), unheard(phone, phone, phone)()]) {
      expect(takes(line, from, muxed)).toBe(taken);
      // The SSRC of the stream is no secret to its host.
      expect(takes(line, from, muxed, 1)).toBe(taken);
    }
  });

  it.each([
    ['the port next to the source', { ...nat, port: nat.port + 1 }, 77, true],
    ['another port, with the SSRC of the stream', { ...nat, port: 50_000 }, 1, true],
    ['another port, with another SSRC', { ...nat, port: 50_000 }, 77, false],
    ['a stranger with the SSRC of the stream', attacker, 1, false],
    ['the private address', { ...hidden, port: sdpPort }, 1, false],
  ])('behind a NAT: %s', (_name, from, reporter, taken) => {
    expect(takes(natted().line, from, false, reporter)).toBe(taken);
  });
});
