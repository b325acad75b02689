/**
 * RTP that never comes, stops, comes from strangers, through a NAT, broken or out of order, and keys that lose packets, on a whole gateway beside
 * a call with sound; and a main thread that stands still.
 */
import { createSocket, type Socket } from 'node:dgram';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, it } from 'vitest';
import { writeRtpHeader } from '../../media/rtp/packet.js';
import type { FarCall } from '../support/far-ends.js';
import { demo, faultScene, undisturbed } from '../support/fault-scene.js';
import { LonePhone } from '../support/lone-phone.js';
import { RtpPhone } from '../support/rtp-phone.js';
import { type ScriptedAgent, startScriptedAgent } from '../support/scripted-agent.js';
import { TalkingCaller } from '../support/talking-caller.js';

const number = '+19995563000';
const foreignByte = 200;

let agent: ScriptedAgent;
/** What the agent heard of the callers of this test, and its keys. */
let heard: Buffer[] = [];
const callers: TalkingCaller[] = [];

const scene = faultScene({
  environment: {
    TRUNKLINE_LOG_LEVEL: 'silent',
    ...{ TRUNKLINE_RTP_FIRST_TIMEOUT_SEC: '2', TRUNKLINE_RTP_TIMEOUT_SEC: '5' },
  },
  timersMs: { t1: 50, t2: 400, t4: 500 },
  prepare: async (app) => {
    agent = await startScriptedAgent({ onBinary: (bytes) => void heard.push(bytes) });
    await app.connectNumber(number, agent.url, { protocol: 'raw', encoding: 'ulaw' });
  },
  before: () => {
    heard = [];
    agent.messages.length = 0;
  },
  after: async () => {
    for (const caller of callers.splice(0)) await caller.bye();
  },
});
afterAll(() => agent.close());

async function call(wish: Parameters<typeof TalkingCaller.call>[2] = {}): Promise<TalkingCaller> {
  const caller = await TalkingCaller.call(scene.ends, number, wish);
  callers.push(caller);
  return caller;
}

/** The record of a call that is over. */
async function record(far: FarCall) {
  const scope = { organizationId: scene.app.first?.organizationId ?? '', mode: 'live' as const };
  const row = async () =>
    (await scene.app.store.records.list(scope, {}, { limit: 100, offset: 0 })).data.find(
      ({ sipCallId, status }) => sipCallId === far.callId && status !== 'in_progress',
    );
  await expect.poll(row, { timeout: 10_000 }).toBeTruthy();
  const { status, hangupCause, hangupSource, durationSec, quality, events } = (await scene.app.store.records.detail(
    scope,
    (await row())!.id,
  ))!;
  return { ending: `${status} ${hangupCause} ${hangupSource}`, durationSec, quality, events };
}

const bytesHeard = () => new Set(heard.flatMap((bytes) => [...bytes]));
const frame = (value: number) => new Uint8Array(160).fill(value);

describe('M1: a phone that', () => {
  it.each<[string, boolean]>([
    ['never sends audio', true],
    ['stops sending', false],
  ])('%s is hung up on', async (_, silent) => {
    await undisturbed(scene, async () => {
      const caller = await call({ silent });
      if (!silent) {
        await expect.poll(() => heard.length).toBeGreaterThan(5);
        caller.hush();
      }
      await caller.far.ended();
      const { ending, durationSec, events } = await record(caller.far);
      expect(ending).toBe('completed media_timeout system');
      expect(durationSec).toBeLessThanOrEqual(silent ? 4 : 8);
      expect(events.filter(({ type }) => type === 'media.timeout')).toHaveLength(1);
    });
  });
});

describe('strangers', () => {
  let stranger: Socket;
  let answers = 0;
  const open = () =>
    new Promise<void>((resolve) => {
      answers = 0;
      stranger = createSocket('udp4');
      stranger.on('message', () => answers++);
      stranger.bind(0, '127.0.0.9', resolve);
    });
  /** The scanner of ES2025-01: over ports around the call's, 172 bytes with an empty header, then with a likely one. */
  const spray = (port: number) => {
    for (let n = 0; n < 20; n++) {
      const packet = Buffer.alloc(172, foreignByte);
      if (n % 2 === 0) packet.fill(0, 1, 12);
      else writeRtpHeader(packet, 0, false, 500 + n, 4000 + n * 160, 0x1234);
      packet[0] = 0x80;
      for (const near of [port - 2, port, port, port + 1, port + 2]) stranger.send(packet, near, '127.0.0.1');
    }
  };

  it('before, during and after a call: none of it is heard, none is answered, each is counted (M2)', async () => {
    await undisturbed(scene, async () => {
      await open();
      try {
        heard = [];
        const caller = await call({ silent: true });
        const { port } = caller.phone.to!;
        spray(port);
        await sleep(100);
        caller.talk(() => frame(3));
        await expect.poll(() => heard.length).toBeGreaterThan(10);
        spray(port);
        await sleep(300); // real time: the caller is heard before, during and after the spray
        const count = heard.length;
        await expect.poll(() => heard.length).toBeGreaterThan(count + 5);
        await caller.bye();
        spray(port);
        await sleep(100);
        const { ending, quality } = await record(caller.far);
        expect(ending).toBe('completed normal_clearing caller');
        expect(bytesHeard()).not.toContain(foreignByte);
        expect(answers).toBe(0);
        // of five packets three come to the pair: two to its RTP port, one to that of RTCP
        expect(quality).toMatchObject({ received: { foreign: 2 * 20 * 3, ssrc_changes: 0 } });
      } finally {
        await new Promise<void>((resolve) => stranger.close(() => resolve()));
      }
    });
  });
});

describe('M3: a phone behind a NAT', () => {
  it('is heard and answered where its packets come from, and at another port when the NAT has forgotten it', async () => {
    await undisturbed(scene, async () => {
      heard = [];
      const caller = await call({ sdp: { address: '10.11.12.13', port: 5004 } });
      const { phone } = caller;
      await expect.poll(() => bytesHeard().size).toBeGreaterThan(5);
      await phone.until(() => phone.heard.length > 5, 'RTP to where it is');
      caller.hush();
      await sleep(3200); // real time: longer than the pause after which another source is believed
      const moved = await RtpPhone.open();
      try {
        const { to, ssrc, sequence, timestamp } = phone;
        Object.assign(moved, { to, ssrc, sequence, timestamp: timestamp + 3200 * 8 });
        await moved.talk(20, () => frame(150));
        await expect.poll(bytesHeard).toContain(150);
        await moved.until(() => moved.heard.length > 5, 'RTP to where it is now');
        const { length } = phone.heard;
        await sleep(100); // real time: five packets' worth, and none may come
        expect(phone.heard.length).toBe(length); // and nowhere else
      } finally {
        moved.close();
      }
      await caller.bye();
      const { ending, quality } = await record(caller.far);
      expect(ending).toBe('completed normal_clearing caller');
      // the third packet in sequence is believed; the stream that is known needs no such proof
      expect(quality).toMatchObject({ received: { foreign: 2, ssrc_changes: 0 } });
    });
  });
});

describe('M5: malformed RTP and RTCP', () => {
  const crafted = [
    [],
    [0x80],
    [0x80, 0, 0],
    [0x80, 200, 0, 0],
    [0x81, 201, 0xff, 0xff],
    Array(11).fill(0x80),
    [0x8f, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0x12, 0x34, 1, 2, 3], // 15 contributing sources that are not there
    [0x90, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0x12, 0x34, 0xbe, 0xde, 0xff, 0xff], // an extension of 65535 words
    [0xa0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0x12, 0x34, 7, 7, 7, 255], // more padding than packet
    [0x40, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0x12, 0x34, 1], // version 1
    [0xc0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0x12, 0x34, 1], // version 3
    [0x80, 0x60, 0, 1, 0, 0, 0, 1, 0, 0, 0x12, 0x34, 1], // nobody knows 96
  ].map((bytes) => Uint8Array.from(bytes));

  it('from the phone itself, 3,000 of them: counted, and every word beside them is heard', async () => {
    await undisturbed(scene, async () => {
      heard = [];
      const caller = await call();
      await expect.poll(() => heard.length).toBeGreaterThan(5);
      let seed = 7;
      const random = () => {
        seed = (seed * 48271) % 0x7fffffff;
        return seed;
      };
      const { port, address } = caller.phone.to!;
      for (let n = 0; n < 3000; n++) {
        const made = Uint8Array.from({ length: random() % 60 }, () => random() & 0xff);
        // half of it looks like RTP at first
        if (n % 2 === 0 && made.length > 0) made[0] = 0x80 | (made[0]! & 0x3f);
        // nothing of it may be a packet of a voice: another payload type
        if (made.length > 1) made[1] = 0x40 | (made[1]! & 0x9f);
        const packet = n < crafted.length ? crafted[n]! : made;
        caller.phone.rtp.send(packet, port, address);
        caller.phone.rtcp.send(packet, port + 1, address);
        if (n % 50 === 49) await sleep(5);
      }
      const count = heard.length;
      await expect.poll(() => heard.length).toBeGreaterThan(count + 20);
      await caller.bye();
      const { ending, quality } = await record(caller.far);
      expect(ending).toBe('completed normal_clearing caller');
      expect(Number((quality as { received: { malformed?: number } }).received.malformed)).toBeGreaterThan(500);
      expect(scene.app.media.load().faults).toBe(0);
    });
  });
});

describe('M6: a phone', () => {
  it('whose packets are 10 to 60 ms, overtake each other and come twice, that wraps, becomes another sender, and pauses: every word once, in order', async () => {
    await undisturbed(scene, async () => {
      heard = [];
      agent.messages.length = 0;
      const caller = await call({ silent: true });
      const { phone } = caller;
      await expect.poll(() => agent.messages.length).toBe(1); // it listens from its start on
      phone.sequence = 0xfff0;
      phone.timestamp = 0xffff_f000;
      let word = 1;
      const startMs = performance.now();
      let saidMs = 0;
      /** Whole frames of one byte each, at the pace of the clock; `lengths` in frames of 10 ms. */
      const say = async (order: (packets: (() => void)[]) => (() => void)[], ...lengths: number[]) => {
        const packets = lengths.map((tens) => {
          const payload = new Uint8Array(80 * tens);
          for (let i = 0; i < tens; i++) payload.fill(word++, 80 * i, 80 * (i + 1));
          const { sequence, timestamp, ssrc } = phone;
          phone.sequence = (sequence + 1) & 0xffff;
          phone.timestamp = (timestamp + payload.length) >>> 0;
          const packet = new Uint8Array(12 + payload.length);
          writeRtpHeader(packet, 0, false, sequence, timestamp, ssrc);
          packet.set(payload, 12);
          saidMs += tens * 10;
          return () => phone.sendRaw(packet);
        });
        for (const send of order(packets)) send();
        await sleep(Math.max(0, startMs + saidMs - performance.now()));
      };
      const inOrder = (packets: (() => void)[]) => packets;
      for (const tens of [2, 2, 1, 1, 3, 1, 4, 6, 2]) await say(inOrder, tens);
      for (let n = 0; n < 5; n++) await say((packets) => packets.toReversed(), 2, 2);
      for (let n = 0; n < 5; n++) await say((packets) => [...packets, ...packets], 2);
      for (let n = 0; n < 10; n++) await say(inOrder, 2);
      phone.ssrc = 0x9999;
      phone.sequence = 77;
      phone.timestamp = 123_456;
      for (let n = 0; n < 5; n++) await say(inOrder, 2);
      phone.timestamp += 8000 * 60; // the clock of the phone was set
      for (let n = 0; n < 5; n++) await say(inOrder, 2);
      await sleep(200); // real time: what is buffered is played
      await caller.bye();
      const words: number[] = [];
      for (const byte of heard.flatMap((bytes) => [...bytes]))
        if (byte !== 0xff && byte !== 0x7f && byte !== words.at(-1)) words.push(byte);
      const all = Array.from({ length: word - 1 }, (_, i) => i + 1).filter((each) => each !== 0x7f);
      expect(words).toEqual(all);
      const { quality } = await record(caller.far);
      expect(quality).toMatchObject({ received: { ssrc_changes: 1, duplicates: 5, reordered: 5, lost: 0 } });
    });
  });
});

describe('M7: keys', () => {
  /** An event packet (RFC 4733) of the press that began at `at`. */
  const key = (caller: TalkingCaller, code: number, at: number, duration: number, end: boolean, sequence: number) => {
    const packet = new Uint8Array(16);
    writeRtpHeader(packet, 101, false, sequence & 0xffff, at >>> 0, caller.phone.ssrc);
    packet.set([code, (end ? 0x80 : 0) | 10, duration >> 8, duration & 0xff], 12);
    caller.phone.sendRaw(packet);
  };

  it('whose ends are lost, repeated, late, or come by INFO: each once, and as long as it was', async () => {
    await undisturbed(scene, async () => {
      agent.messages.length = 0;
      const caller = await call();
      await expect.poll(() => heard.length).toBeGreaterThan(5);
      caller.hush();
      const { phone } = caller;
      const press = async (code: number, ms: number, ends: number, order: 'kept' | 'swapped' = 'kept') => {
        const at = phone.timestamp;
        const packets: [number, boolean][] = [];
        for (let each = 20; each <= ms; each += 20) packets.push([each * 8, false]);
        for (let n = 0; n < ends; n++) packets.push([ms * 8, true]);
        const first = phone.sequence;
        const sends = packets.map(
          ([duration, end], i) =>
            () =>
              key(caller, code, at, duration, end, first + i),
        );
        if (order === 'swapped') sends.splice(1, 2, sends[2]!, sends[1]!);
        for (const send of sends) {
          send();
          await sleep(10);
        }
        phone.sequence = (first + packets.length) & 0xffff;
        phone.timestamp = (at + (ms + 60) * 8) >>> 0;
        phone.send(frame(0xff));
      };
      await press(1, 100, 3);
      await press(2, 100, 1);
      await press(3, 100, 6);
      await press(4, 100, 0);
      await press(5, 300, 3, 'swapped');
      caller.far.send(
        caller.far
          .write('INFO', undefined, { lines: ['Content-Type: application/dtmf-relay'] })
          .replace('Content-Length: 0\r\n\r\n', 'Content-Length: 24\r\n\r\nSignal=6\r\nDuration=160\r\n'),
      );
      caller.talk(() => frame(0xff));
      await expect.poll(() => agent.messages.filter(({ event }) => event === 'dtmf').length).toBe(6);
      await caller.bye();
      const { events } = await record(caller.far);
      const keys = events.filter(({ type }) => type === 'dtmf.received').map(({ data }) => data);
      expect(keys.map(({ digit }) => digit).join('')).toBe('123456');
      expect(keys.map(({ duration_ms }) => duration_ms)).toEqual([100, 100, 100, 100, 300, undefined]);
      expect(
        agent.messages
          .filter(({ event }) => event === 'dtmf')
          .map(({ digits }) => digits)
          .join(''),
      ).toBe('123456');
    });
  });
});

describe('M10: a main thread that stands still', { retry: 3 }, () => {
  it('for 200 ms, again and again, makes no gap over 40 ms in the audio', async () => {
    const phone = await LonePhone.open();
    const far = scene.ends.call(demo, { sdp: phone.sdp });
    try {
      expect(await far.final()).toBe(200);
      phone.dial(far.received.find(({ startLine }) => startLine.startsWith('SIP/2.0 200'))!.body.toString());
      await expect.poll(async () => (await phone.figures()).packets).toBeGreaterThan(20);
      phone.begin();
      for (let round = 0; round < 5; round++) {
        const endMs = performance.now() + 200;
        while (performance.now() < endMs);
        await sleep(30); // real time: our thread runs between two stalls
      }
      const { packets, missing, worstGapMs, worstLatenessMs } = await phone.figures();
      expect(packets).toBeGreaterThan(40);
      expect(missing).toBe(0);
      expect(worstGapMs).toBeLessThanOrEqual(40 + worstLatenessMs);
    } finally {
      await far.bye();
      await phone.close();
    }
  });
});
