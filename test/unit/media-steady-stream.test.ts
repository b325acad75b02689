import type { RemoteInfo } from 'node:dgram';
import { describe, expect, it } from 'vitest';
import { emptyRtpView, parseRtp, rtpHeaderBytes, writeRtpHeader } from '../../media/rtp/packet.js';
import { ReceiverStats } from '../../media/rtp/receiver-stats.js';
import { SdpNegotiation } from '../../media/sdp.js';
import { FromPhone, type FromPhoneHooks } from '../../media/thread/session/from-phone.js';

const from: RemoteInfo = { address: '192.0.2.1', port: 4000, family: 'IPv4', size: 0 };

/** Pseudo-random numbers below 1, the same in each run. */
function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return state / 2 ** 32;
  };
}

function packetOf(sequence: number, timestamp: number, ssrc: number, marker = false): Uint8Array {
  const packet = new Uint8Array(rtpHeaderBytes + 160).fill(sequence & 0xff, rtpHeaderBytes);
  writeRtpHeader(packet, 0, marker, sequence & 0xffff, timestamp >>> 0, ssrc);
  return packet;
}

function phoneOf(packet: FromPhoneHooks['packet']): FromPhone {
  const nothing = { event: () => {}, key: () => {}, started: () => {}, sourceFound: () => {}, audio: () => {} };
  const hooks = { ...nothing, packet, heard: (_timestamp: number, bytes: Uint8Array) => bytes, decoder: () => null };
  const phone = new FromPhone({ codecs: ['PCMU'], firstRtpTimeoutMs: 0, rtpTimeoutMs: 0 }, hooks);
  const sdp = new SdpNegotiation({ address: '192.0.2.7', rtpPort: 10_000, codecs: ['PCMU'] }, '1');
  const origin = `v=0\r\no=- 1 1 IN IP4 x\r\ns=-\r\nc=IN IP4 ${from.address}\r\nt=0 0\r\n`;
  sdp.answer(`${origin}m=audio ${from.port} RTP/AVP 0\r\n`);
  if (!sdp.agreed) throw new Error('nothing was agreed');
  phone.agree(sdp.agreed, 0);
  return phone;
}

interface Arrival {
  packet: Uint8Array;
  atMs: number;
}

/** A minute of packets: jitter, losses, packets twice and in the wrong order, pauses, a restart of the sender, numbers that wrap. */
function stream(seed: number): Arrival[] {
  const random = numbers(seed);
  const arrivals: Arrival[] = [];
  let sequence = 65_000;
  let timestamp = 0xffff_0000;
  let ssrc = 0xdead_beef;
  for (let n = 0; n < 3000; n++) {
    const chance = random();
    const atMs = n * 20 + random() * 12;
    if (chance < 0.003) {
      sequence += 7;
      timestamp += 24_000; // a pause in sending
    } else if (chance < 0.004) {
      ssrc += 1;
      sequence = Math.floor(random() * 65_536);
      timestamp = Math.floor(random() * 2 ** 32);
    }
    const packet = packetOf(sequence, timestamp, ssrc, chance > 0.995);
    if (chance < 0.01 || chance > 0.02) arrivals.push({ packet, atMs });
    if (chance > 0.02 && chance < 0.025) arrivals.push({ packet, atMs: atMs + 3 });
    if (chance > 0.03 && chance < 0.035) arrivals.push({ packet: packetOf(sequence - 2, timestamp - 320, ssrc), atMs });
    if (chance > 0.04 && chance < 0.05 && arrivals.length > 2) {
      const last = arrivals.pop()!;
      arrivals.splice(-1, 0, { ...last, atMs: arrivals.at(-1)!.atMs });
    }
    sequence += 1;
    timestamp += 160;
  }
  return arrivals;
}

function figures(stats: ReceiverStats) {
  const { packets, audioPackets, bytes, duplicates, reordered, ssrcChanges, ssrc, expected, lost, burstRatio } = stats;
  const counts = { packets, audioPackets, bytes, duplicates, reordered, ssrcChanges, ssrc, expected, lost, burstRatio };
  const { jitterMs, jitterMaxMs, jitterMeanMs } = stats;
  return { ...counts, jitterMs, jitterMaxMs, jitterMeanMs: jitterMeanMs?.toFixed(9), report: stats.report() };
}

describe('packets that were predicted', () => {
  it.each([1, 2, 3, 4, 5])('count as if each had been looked at: stream %i', (seed) => {
    const counted = new ReceiverStats();
    const heard: number[] = [];
    const wanted: number[] = [];
    const view = emptyRtpView();
    const phone = phoneOf(({ sequence, ssrc }, payload, _codec, restarted) =>
      heard.push(sequence, ssrc, payload.length, payload[0]!, Number(restarted)),
    );
    for (const [n, { packet, atMs }] of stream(seed).entries()) {
      phone.packet(packet, from, atMs);
      parseRtp(packet, view);
      const arrival = counted.arrived(view, atMs, true);
      if (arrival !== 'duplicate' && arrival !== 'suspect')
        wanted.push(view.sequence, view.ssrc, 160, packet[rtpHeaderBytes]!, Number(arrival === 'restart'));
      if (n % 250 === 249) expect(figures(phone.stats)).toEqual(figures(counted));
    }
    expect(heard).toEqual(wanted);
  });

  it('are those of the same source only', () => {
    const heard: number[] = [];
    const phone = phoneOf(({ sequence }) => heard.push(sequence));
    for (let n = 0; n < 10; n++) phone.packet(packetOf(n, n * 160, 1), from, n * 20);
    const other = { ...from, address: '192.0.2.9' };
    for (const port of [from.port, 5000]) phone.packet(packetOf(10, 1600, 1), { ...other, port }, 200);
    expect(phone.foreign).toBe(2);
    phone.packet(packetOf(10, 1600, 1), from, 201);
    expect(heard).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  });
});
