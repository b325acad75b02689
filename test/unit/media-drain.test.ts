import { describe, expect, it } from 'vitest';
import { Drain } from '../../media/rtp/drain.js';
import { writeRtpHeader } from '../../media/rtp/packet.js';
import type { RtpSocketHandlers, RtpSocketPair } from '../../media/rtp/socket.js';
import { FakeTime } from '../support/fake-time.js';

const quietMs = 30_000;
const longestMs = 10 * 60_000;
const old = { address: '192.0.2.66', port: 4000, family: 'IPv4' as const, size: 172 };

/** A pair of sockets whose call is over, and what it hears. */
function drained() {
  const time = new FakeTime();
  const freed: unknown[] = [];
  let handlers: RtpSocketHandlers | null = null;
  const pair = {
    rtpPort: 10_000,
    closed: 0,
    secure: () => {},
    deliverTo: (given: RtpSocketHandlers) => {
      handlers = given;
    },
    close() {
      this.closed += 1;
    },
  };
  const drain = new Drain(quietMs, time, (rtpPort, lateSender) =>
    freed.push({ rtpPort, lateSender, afterMs: time.nowMs - 1000 }),
  );
  drain.add(pair as unknown as RtpSocketPair);
  const packet = new Uint8Array(172);
  writeRtpHeader(packet, 0, false, 1, 160, 0xfeed);
  return {
    time,
    freed,
    drain,
    pair,
    rtp: (bytes = packet) => handlers!.rtp(bytes, old),
    rtcp: () => handlers!.rtcp(packet, old),
  };
}

describe('the port of a call that is over', () => {
  it('is free when it was quiet for as long as that takes', () => {
    const { time, freed, pair } = drained();
    time.advance(quietMs - 1);
    expect(freed).toEqual([]);
    time.advance(1);
    expect(freed).toEqual([{ rtpPort: 10_000, lateSender: null, afterMs: quietMs }]);
    expect(pair.closed).toBe(1);
    expect(time.pending).toBe(0);
  });

  it.each(['rtp', 'rtcp'] as const)('waits from the last %s packet on', (kind) => {
    const { time, freed, ...line } = drained();
    for (let i = 0; i < 3; i++) {
      time.advance(20_000);
      line[kind]();
    }
    time.advance(quietMs - 1);
    expect(freed).toEqual([]);
    time.advance(1);
    expect(freed).toEqual([{ rtpPort: 10_000, lateSender: null, afterMs: 60_000 + quietMs }]);
  });

  it('is free after ten minutes, with the name of who never stops', () => {
    const { time, freed, rtp } = drained();
    for (let ms = 0; ms < longestMs; ms += 1000) {
      rtp();
      rtp(new Uint8Array(3)); // no RTP at all
      time.advance(1000);
    }
    const lateSender = { address: old.address, port: old.port, ssrc: 0xfeed };
    expect(freed).toEqual([{ rtpPort: 10_000, lateSender, afterMs: longestMs }]);
  });

  it('is closed with the thread, and its timer too', () => {
    const { time, freed, drain, pair } = drained();
    drain.close();
    expect([pair.closed, time.pending, freed.length]).toEqual([1, 0, 0]);
  });
});
