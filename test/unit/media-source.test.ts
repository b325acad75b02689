import { describe, expect, it } from 'vitest';
import { emptyRtpView } from '../../media/rtp/packet.js';
import { RtpSource } from '../../media/rtp/source.js';

const phone = { address: '198.51.100.7', port: 4000 };
const nat = { address: '203.0.113.9', port: 31_000 };
const attacker = { address: '192.0.2.66', port: 9 };

class Line {
  readonly source = new RtpSource();
  nowMs = 0;
  sequence = 0;

  constructor() {
    this.source.expect(phone.address, phone.port);
  }

  /** Packets in sequence from one place; how many were accepted. */
  hear(from: { address: string; port: number }, count = 1, ssrc = 1): number {
    let accepted = 0;
    for (let i = 0; i < count; i++) {
      this.nowMs += 20;
      const view = { ...emptyRtpView(), ssrc, sequence: this.sequence++ & 0xffff };
      if (this.source.judge(view, from.address, from.port, this.nowMs) === 'accept') accepted += 1;
    }
    return accepted;
  }
}

describe('whose packets count', () => {
  it('nobody before an SDP named somebody', () => {
    const source = new RtpSource();
    expect(source.judge(emptyRtpView(), phone.address, phone.port, 0)).toBe('foreign');
  });

  it('the named source from its first packet', () => {
    expect(new Line().hear(phone, 10)).toBe(10);
  });

  it('behind a NAT: another source after a run in sequence', () => {
    const line = new Line();
    expect(line.hear(nat, 10)).toBe(8);
    expect(line.source).toMatchObject(nat);
  });

  it('never single packets sprayed from many places', () => {
    const line = new Line();
    for (let i = 0; i < 50; i++) expect(line.hear({ address: attacker.address, port: 1000 + i }, 1, i)).toBe(0);
    expect(line.hear(phone, 5)).toBe(5);
  });

  it('never packets that repeat one number', () => {
    const line = new Line();
    for (let i = 0; i < 50; i++) {
      line.sequence = 7;
      expect(line.hear(attacker)).toBe(0);
    }
  });

  it('nobody else once locked, in any number', () => {
    const line = new Line();
    line.hear(phone);
    for (let i = 0; i < 200; i++) {
      expect(line.hear(attacker, 1, 99)).toBe(0);
      expect(line.hear(phone)).toBe(1);
    }
    expect(line.source).toMatchObject(phone);
  });

  it('the named source, whoever was there before it', () => {
    for (const before of [3, 5, 500]) {
      const line = new Line();
      line.hear(attacker, before, 9);
      expect(line.hear(phone, 10)).toBe(10);
      expect(line.hear(attacker, 10, 9)).toBe(0);
      expect(line.source).toMatchObject(phone);
    }
  });

  it('another port of the named host, when a stranger was first, but for a second only', () => {
    const otherPort = { ...phone, port: 4002 };
    const early = new Line();
    early.hear(attacker, 10, 9);
    expect(early.hear(otherPort, 5)).toBe(5);
    expect(early.hear(attacker, 5, 9)).toBe(0);
    const late = new Line();
    late.hear(attacker, 100, 9);
    expect(late.hear(otherPort, 5)).toBe(0);
  });

  it('the same stream from another port after a silence: a NAT that forgot', () => {
    const line = new Line();
    line.hear(nat, 10);
    line.nowMs += 4000;
    expect(line.hear({ ...nat, port: 32_000 })).toBe(1);
  });

  it('never a ghost of an earlier call on this port, however long nobody else speaks', () => {
    const line = new Line();
    line.source.shun({ ...attacker, ssrc: 66 });
    expect(line.hear(attacker, 200, 66)).toBe(0);
    expect(line.hear(nat, 10)).toBe(8);
    line.nowMs += 60_000; // the phone is silent, the ghost is not
    expect(line.hear(attacker, 200, 66)).toBe(0);
    expect(line.hear(nat, 10)).toBe(10);
  });

  it('the named source, even where a ghost had its place', () => {
    const line = new Line();
    line.source.shun({ ...phone, ssrc: 1 });
    expect(line.hear(phone, 10, 1)).toBe(10);
  });

  it('a new address of the SDP, while the old one counts until it speaks', () => {
    const line = new Line();
    line.hear(phone, 5);
    const moved = { address: '198.51.100.8', port: 6000 };
    expect(line.source.expect(moved.address, moved.port)).toBe(true);
    expect(line.hear(phone, 3)).toBe(3);
    expect(line.hear(moved, 3, 2)).toBe(3);
    expect(line.hear(phone, 3)).toBe(0);
  });

  it('the same address of a re-offer changes nothing', () => {
    const line = new Line();
    line.hear(nat, 5);
    expect(line.source.expect(phone.address, phone.port)).toBe(false);
    expect(line.hear(attacker, 10, 5)).toBe(0);
  });
});
