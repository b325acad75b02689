import { createSocket } from 'node:dgram';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { silenceByte } from '../../media/audio/codec/g711.js';
import type { AgentLink, MediaEngine, MediaSession, OpenSession } from '../../media/engine.js';
import { readRtcp, writeRtcp } from '../../media/rtp/rtcp.js';
import { agentTarget, collectEvents, eventually, sessionOptions, startTestEngine } from '../support/media-engine.js';
import { RawAgent } from '../support/raw-agent.js';
import { type HeardPacket, RtpPhone, type SdpChange } from '../support/rtp-phone.js';

let engine: MediaEngine;
let agent: RawAgent;
let phone: RtpPhone;
let session: MediaSession;
let link: AgentLink;

beforeEach(async () => {
  engine = await startTestEngine();
  agent = await RawAgent.open();
  phone = await RtpPhone.open();
});

afterEach(async () => {
  await session?.close();
  phone.close();
  await eventually(() => agent.connections === 0, 'agent connections to close');
  await eventually(() => engine.load().ports.quarantined === 0, 'ports to be free');
  expect(engine.load()).toMatchObject({ sessions: 0, ports: { used: 0 }, faults: 0 });
  await engine.close();
  await agent.close();
});

async function open(sdp: SdpChange = {}, change: Partial<OpenSession> = {}) {
  session = await engine.open(sessionOptions({ offer: phone.sdp(sdp), ...change }));
  phone.dial(session.localSdp);
  return session;
}

async function connect(sdp: SdpChange = {}, change: Partial<OpenSession> = {}) {
  await open(sdp, change);
  link = await session.prepareAgent(agentTarget(agent.url), new AbortController().signal);
  session.attach(link);
  link.start();
  await eventually(() => agent.texts.some((text) => text.event === 'start'), 'the start of the agent');
}

const frame = (value: number, frames = 1) => new Uint8Array(160 * frames).fill(value);
const spoken = () => phone.heard.filter((packet) => packet.payloadType === 0 && packet.payload[0] !== silenceByte.PCMU);
const bytesOf = (packets: { payload: Uint8Array }[]) => packets.flatMap((packet) => [...packet.payload]);

/** One number after the other, and a frame of time each: more only after a stall of the machine, and then with a marker. */
function expectOneStream(packets: HeardPacket[]): void {
  packets.forEach((packet, i) => {
    const before = packets[i - 1];
    expect(packet.ssrc).toBe(packets[0]!.ssrc);
    if (!before) return;
    expect(packet.sequence).toBe((before.sequence + 1) & 0xffff);
    const step = (packet.timestamp - before.timestamp) >>> 0;
    expect(step % 160).toBe(0);
    expect(step).toBeGreaterThanOrEqual(160);
    if (step > 160) expect(packet.marker).toBe(true);
  });
}

describe('to the phone', () => {
  it('nothing before the session is live, then RTP without a gap: contiguous numbers and timestamps', async () => {
    await open();
    await new Promise((resolve) => setTimeout(resolve, 100)); // real time: five packets' worth, and none may come
    expect(phone.heard).toHaveLength(0);
    session.attach(null);
    await phone.until(() => phone.heard.length >= 25, '25 packets of silence');
    expect(phone.heard[0]!.marker).toBe(true);
    expectOneStream(phone.heard);
    for (const { payload } of phone.heard) expect(new Set(payload)).toEqual(new Set([silenceByte.PCMU]));
  });

  it('every byte of the agent, in order, with a marker where the utterance begins', async () => {
    await connect();
    const said = Uint8Array.from({ length: 8000 }, (_, i) => i % 250);
    agent.say(said.subarray(0, 3333));
    agent.say(said.subarray(3333));
    await phone.until(() => spoken().length >= 50, '50 packets of speech');
    expect(bytesOf(spoken()).slice(0, 8000)).toEqual([...said]);
    expectOneStream(phone.heard);
    for (const [i, packet] of phone.heard.entries()) {
      const before = phone.heard[i - 1];
      const followsAtOnce = before && packet.timestamp === (before.timestamp + 160) >>> 0;
      if (followsAtOnce) expect(packet.marker).toBe(packet === spoken()[0]);
    }
  });

  it('what the agent said before it was attached and started', async () => {
    await open();
    link = await session.prepareAgent(agentTarget(agent.url), new AbortController().signal);
    agent.say(frame(9, 5));
    await new Promise((resolve) => setTimeout(resolve, 60)); // real time: the agent speaks before it is attached
    session.attach(null);
    await phone.until(() => phone.heard.length > 5, 'silence');
    expect(spoken()).toHaveLength(0);
    session.attach(link);
    await phone.until(() => spoken().length >= 5, 'the early audio');
    expect(bytesOf(spoken())).toEqual([...frame(9, 5)]);
  });

  it('silence within a frame after clear, and reports what was heard', async () => {
    await connect();
    const events = collectEvents(session);
    agent.say(frame(7, 200));
    agent.tell({ event: 'mark', name: 'end' });
    await phone.until(() => spoken().length >= 10, 'speech');
    agent.tell({ event: 'clear' });
    await eventually(() => events.some((event) => event.type === 'cleared'), 'cleared');
    const heard = spoken().length;
    await phone.until(() => phone.heard.at(-1)!.payload[0] === silenceByte.PCMU, 'silence');
    expect(spoken().length - heard).toBeLessThanOrEqual(2);
    const cleared = events.find((event) => event.type === 'cleared')!;
    expect(cleared).toMatchObject({ type: 'cleared' });
    if (cleared.type === 'cleared') {
      expect(cleared.heardMs + cleared.droppedMs).toBe(4000);
      expect(Math.abs(cleared.heardMs - spoken().length * 20)).toBeLessThanOrEqual(20);
    }
    expect(events).toContainEqual({ type: 'mark', name: 'end', cleared: true });
    await eventually(() => agent.texts.some((text) => text.event === 'mark'), 'the mark at the agent');
    expect(agent.texts).toContainEqual({ event: 'mark', name: 'end', cleared: true });
  });

  it('a mark is reached when the audio before it went out', async () => {
    await connect();
    const events = collectEvents(session);
    agent.say(frame(7, 10));
    agent.tell({ event: 'mark', name: 'greeting' });
    await eventually(() => events.some((event) => event.type === 'mark'), 'the mark');
    await phone.until(() => spoken().length === 10, 'all of the audio');
    expect(events).toContainEqual({ type: 'mark', name: 'greeting', cleared: false });
    expect(events.filter((event) => event.type === 'agentAudio')).toHaveLength(1);
  });

  it('packets of the length the phone asks for', async () => {
    await connect({ ptimeMs: 40 });
    agent.say(frame(7, 8));
    await phone.until(() => spoken().length >= 4, 'speech');
    expect(new Set(phone.heard.map((packet) => packet.payload.length))).toEqual(new Set([320]));
    expect((phone.heard[1]!.timestamp - phone.heard[0]!.timestamp) >>> 0).toBe(320);
  });

  it('keys as events, while the line of timestamps goes on', async () => {
    await connect();
    await phone.until(() => phone.heard.length > 3, 'RTP');
    await session.sendDtmf('1#');
    await phone.until(() => phone.heard.at(-1)!.payloadType === 0, 'audio after the keys');
    const events = phone.heard.filter((packet) => packet.payloadType === 101);
    expect(events.map((packet) => packet.payload[0])).toEqual([...Array(7).fill(1), ...Array(7).fill(11)]);
    expect(events.filter((packet) => packet.marker)).toHaveLength(2);
    expect(new Set(events.map((packet) => packet.timestamp)).size).toBe(2);
    const audio = phone.heard.filter((packet) => packet.payloadType === 0);
    const first = phone.heard[0]!;
    for (const packet of audio) expect(((packet.timestamp - first.timestamp) >>> 0) % 160).toBe(0);
    const slots = ((audio.at(-1)!.timestamp - first.timestamp) >>> 0) / 160;
    expect(slots).toBe((audio.at(-1)!.sequence - first.sequence) & 0xffff);
  });

  it('no keys when the phone did not agree to events, and none that are none', async () => {
    await connect({ telephoneEvent: false });
    await expect(session.sendDtmf('1')).rejects.toMatchObject({ code: 'no_telephone_event' });
    await session.answer(phone.sdp());
    await expect(session.sendDtmf('12x')).rejects.toMatchObject({ code: 'bad_digits' });
  });

  it('one owner at a time: the swap is at once', async () => {
    await connect();
    agent.say(frame(7, 100));
    await phone.until(() => spoken().length >= 5, 'the first agent');
    session.attach(null);
    await phone.until(() => phone.heard.at(-1)!.payload[0] === silenceByte.PCMU, 'silence');
    const before = spoken().length;
    session.attach(link);
    await phone.until(() => spoken().length >= 100, 'the rest');
    expect(before).toBeLessThan(100);
    expect(bytesOf(spoken())).toHaveLength(16_000);
  });
});

describe('from the phone', () => {
  it('every byte to the agent, in order, from the start on', async () => {
    await open();
    link = await session.prepareAgent(agentTarget(agent.url), new AbortController().signal);
    phone.send(frame(1));
    session.attach(link);
    phone.send(frame(2));
    await phone.until(() => phone.heard.length > 0, 'RTP');
    expect(agent.heard).toHaveLength(0);
    link.start();
    await eventually(() => agent.texts.length > 0, 'the start');
    await phone.talk(20, (i) => frame(10 + i));
    await eventually(() => agent.heard.length >= 20, '20 frames');
    expect(agent.heard.slice(0, 20).flatMap((bytes) => [...bytes])).toEqual(
      Array.from({ length: 20 }, (_, i) => [...frame(10 + i)]).flat(),
    );
  });

  it('in messages of 40 ms to an agent that wants them, and made up what was lost', async () => {
    const policy = { codecs: ['PCMU' as const], firstRtpTimeoutMs: 0, rtpTimeoutMs: 0, concealLoss: true };
    await open({}, { policy });
    link = await session.prepareAgent(agentTarget(agent.url, { frameMs: 40 }), new AbortController().signal);
    session.attach(link);
    link.start();
    await eventually(() => agent.texts.length > 0, 'the start');
    const wave = Uint8Array.from({ length: 160 }, (_, i) => (i % 80 < 40 ? 0x90 : 0x10));
    await phone.talk(10, () => wave);
    phone.sequence += 1;
    phone.timestamp += 160;
    await phone.talk(9, () => wave);
    await eventually(() => agent.heard.length >= 10, '400 ms');
    expect(new Set(agent.heard.map((bytes) => bytes.length))).toEqual(new Set([320]));
    const heard = agent.heard.flatMap((bytes) => [...bytes]);
    expect(heard.slice(0, 1600)).toEqual(
      Array(10)
        .fill([...wave])
        .flat(),
    );
    expect(heard.slice(1600, 1760).filter((byte) => byte === 0x90 || byte === 0x10).length).toBeGreaterThan(75);
  });

  it('keys, each once', async () => {
    await connect();
    const events = collectEvents(session);
    phone.send(frame(1));
    for (const key of [5, 5]) {
      for (let i = 1; i <= 8; i++) {
        const duration = Math.min(i, 5) * 160;
        phone.send(Uint8Array.of(key, i >= 5 ? 0x8a : 0x0a, duration >> 8, duration & 0xff), {
          payloadType: 101,
          samples: 0,
        });
      }
      phone.timestamp += 1600;
    }
    await eventually(() => events.filter((event) => event.type === 'dtmf').length === 2, 'two keys');
    expect(events.filter((event) => event.type === 'dtmf')).toEqual(
      Array(2).fill({ type: 'dtmf', digit: '5', durationMs: 100, form: 'event', passedOn: false }),
    );
  });

  it('nothing of a stranger, who is counted', async () => {
    await connect();
    const events = collectEvents(session);
    await phone.talk(5, () => frame(1));
    await eventually(() => agent.heard.length >= 5, 'the phone');
    const stranger = await RtpPhone.open('127.0.0.9');
    stranger.to = phone.to;
    for (let i = 0; i < 100; i++) stranger.send(frame(66));
    await phone.talk(5, () => frame(2));
    await eventually(() => agent.heard.length >= 10, 'the phone again');
    expect(agent.heard.flatMap((bytes) => [...bytes])).not.toContain(66);
    expect(stranger.heard).toHaveLength(0);
    stranger.close();
    expect((await session.stats()).received.foreign).toBe(100);
    expect(events.filter((event) => event.type === 'started')).toHaveLength(1);
    await eventually(() => engine.load().foreignPackets === 100, 'the count of the engine');
  });

  it('a phone behind a NAT is answered where its packets come from', async () => {
    const away = await RtpPhone.open('127.0.0.8');
    await connect({ address: '127.0.0.8', port: away.port });
    await phone.talk(10, () => frame(3));
    await phone.until(() => phone.heard.length > 5, 'RTP at the real place');
    away.close();
  });

  it('garbage is dropped and counted, and hurts nobody', async () => {
    await connect();
    phone.send(frame(1));
    const garbage = [
      new Uint8Array(0),
      Uint8Array.of(0x80),
      Uint8Array.of(0x80, 200, 0, 6),
      Uint8Array.of(0x8f, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1),
      new Uint8Array(1500).fill(0xff),
      new Uint8Array(172).fill(0x40),
    ];
    for (let i = 0; i < 600; i++) {
      const random = Uint8Array.from({ length: i % 200 }, () => Math.floor(Math.random() * 256));
      phone.sendRaw(random);
    }
    for (const packet of garbage) phone.sendRaw(packet);
    // Of another payload type than agreed.
    phone.send(frame(1), { payloadType: 34 });
    await phone.talk(5, () => frame(2));
    await eventually(() => agent.heard.some((bytes) => bytes[0] === 2), 'audio after the garbage');
    expect((await session.stats()).received.malformed).toBeGreaterThan(0);
  });

  it('an empty, a late and a doubled packet are counted for what they are', async () => {
    await connect();
    for (let i = 0; i < 120; i++) {
      if (i === 50) {
        phone.sequence += 1; // one lost
        phone.timestamp += 160;
      }
      phone.send(frame(4));
      if (i === 60) {
        phone.sequence -= 1; // the same again
        phone.timestamp -= 160;
        phone.send(frame(4));
      }
    }
    await eventually(async () => (await session.stats()).received.packets === 121, 'all packets');
    const { received } = await session.stats();
    expect(received).toMatchObject({
      packets: 121,
      lost: 1,
      duplicates: 1,
      bytes: 121 * 160,
      foreign: 0,
      malformed: 0,
    });
    expect(received.lossPercent).toBeCloseTo(100 / 121, 5);
    expect(received.mos).toBeGreaterThan(4);
    expect(received.mos).toBeLessThan(4.41);
  });
});

describe('offers and answers while the call runs', () => {
  it('hold: no RTP to the phone, silence to the agent; then both again', async () => {
    await connect();
    const events = collectEvents(session);
    await phone.talk(5, () => frame(1));
    expect(await session.answer(phone.sdp({ direction: 'sendonly' }))).toContain('a=recvonly');
    await eventually(() => events.some((event) => event.type === 'held'), 'held');
    await new Promise((resolve) => setTimeout(resolve, 50)); // real time: packets under way arrive
    const sent = phone.heard.length;
    agent.heard.length = 0;
    await phone.talk(20, () => frame(99));
    expect(phone.heard.length).toBe(sent);
    await eventually(() => agent.heard.length > 5, 'silence at the agent');
    expect(agent.heard.flatMap((bytes) => [...bytes])).not.toContain(99);
    expect(await session.answer(phone.sdp())).toContain('a=sendrecv');
    await eventually(() => events.some((event) => event.type === 'resumed'), 'resumed');
    await phone.talk(5, () => frame(5));
    await eventually(() => agent.heard.some((bytes) => bytes[0] === 5), 'the phone again');
    await phone.until(() => phone.heard.length > sent + 3, 'RTP again');
  });

  it('another codec in the middle of a sentence', async () => {
    await connect();
    agent.say(frame(0x20, 100));
    await phone.until(() => spoken().length > 10, 'speech in PCMU');
    await session.answer(phone.sdp({ codecs: '8' }));
    await phone.until(() => phone.heard.filter((packet) => packet.payloadType === 8).length > 20, 'speech in PCMA');
    const second = phone.heard.filter((packet) => packet.payloadType === 8);
    expect(new Set(second[5]!.payload).size).toBe(1);
    expect(second[5]!.payload[0]).not.toBe(0x20);
    expect((await session.stats()).codec).toBe('PCMA');
  });

  it('an offer that cannot be met is refused and changes nothing', async () => {
    await connect();
    const before = session.localSdp;
    await expect(session.answer(phone.sdp({ address: '2001:db8::1' }))).rejects.toMatchObject({
      code: 'incompatible_media',
    });
    expect(session.localSdp).toBe(before);
    await phone.talk(5, () => frame(1));
    await eventually(() => agent.heard.length >= 5, 'audio');
  });

  it('a phone that moves to another port is heard and answered there', async () => {
    await connect();
    await phone.talk(5, () => frame(1));
    const moved = await RtpPhone.open();
    moved.to = phone.to;
    moved.ssrc = 0x9999;
    await session.answer(phone.sdp({ port: moved.port }));
    await moved.until(() => moved.heard.length > 3, 'RTP at the new port');
    await moved.talk(5, () => frame(8));
    await eventually(() => agent.heard.some((bytes) => bytes[0] === 8), 'audio from the new port');
    moved.close();
    expect((await session.stats()).received.ssrcChanges).toBe(1);
  });

  it('our offer: live with the final answer', async () => {
    session = await engine.open(sessionOptions());
    phone.dial(await session.offer());
    await session.accept(phone.sdp(), { provisional: true });
    await new Promise((resolve) => setTimeout(resolve, 60)); // real time: three packets' worth, and none may come
    expect(phone.heard).toHaveLength(0);
    await session.accept(phone.sdp(), { provisional: false });
    await phone.until(() => phone.heard.length > 3, 'RTP');
  });
});

describe('the end', () => {
  it('is lost when no RTP ever comes, or when it stops', async () => {
    const policy = { codecs: ['PCMU' as const], firstRtpTimeoutMs: 150, rtpTimeoutMs: 150 };
    await open({}, { policy });
    session.attach(null);
    expect(await session.lost).toBe('rtp-timeout');
    await session.close();
    await open({}, { policy: { ...policy, firstRtpTimeoutMs: 0 } });
    session.attach(null);
    await phone.talk(10, () => frame(1));
    expect(await session.lost).toBe('rtp-timeout');
  });

  it('is not lost while it is held', async () => {
    await open({}, { policy: { codecs: ['PCMU'], firstRtpTimeoutMs: 100, rtpTimeoutMs: 100 } });
    await session.answer(phone.sdp({ direction: 'inactive' }));
    session.attach(null);
    let lost = false;
    session.lost.then(() => {
      lost = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 400)); // real time: four times the limit
    expect(lost).toBe(false);
    await session.answer(phone.sdp());
    expect(await session.lost).toBe('rtp-timeout');
  });

  it('says good-bye, closes the agent, and tells the last statistics; again the same', async () => {
    await connect();
    await phone.talk(10, () => frame(1));
    const stats = await session.close();
    expect(stats.received.packets).toBe(10);
    expect(await session.close()).toBe(stats);
    await eventually(() => phone.heardRtcp.length > 0, 'RTCP');
    expect(readRtcp(phone.heardRtcp.at(-1)!)).toMatchObject({
      bye: true,
      senderReport: { packets: stats.sent.packets },
    });
    expect(await link.ended).toMatchObject({ by: 'local' });
    await eventually(() => agent.texts.some((text) => text.event === 'stop'), 'the stop at the agent');
    await expect(session.answer(phone.sdp())).rejects.toMatchObject({ code: 'closed' });
    await expect(session.sendDtmf('1')).rejects.toMatchObject({ code: 'closed' });
  });

  it('takes loss, jitter and the round trip from the reports of the phone', async () => {
    await connect();
    await phone.until(() => phone.heard.length > 110, '110 packets', 8000);
    const { ssrc, sequence } = phone.heard[0]!;
    await phone.until(() => phone.heardRtcp.length > 0, 'our report', 8000);
    const ours = readRtcp(phone.heardRtcp[0]!)!.senderReport!;
    const rtcpPort = phone.to!.port + 1;
    const block = {
      ssrc,
      fractionLost: 0,
      cumulativeLost: 10,
      highestSequence: sequence + 99,
      jitter: 80,
      lastSenderReport: ours.middleNtp,
      delaySinceLast: 0,
    };
    phone.rtcp.send(writeRtcp({ ssrc: 5, cname: 'phone', sender: null, block, bye: false }), rtcpPort, '127.0.0.1');
    await eventually(async () => (await session.stats()).rttMs !== null, 'the round trip');
    const stats = await session.stats();
    expect(stats.sent).toMatchObject({ lost: 10, lossPercent: 10, jitterMs: 10 });
    expect(stats.rttMs).toBeLessThan(5000);
    expect(stats.sent.mos).toBeLessThan(4);
    expect(stats.received.mos).toBeNull();
  });

  it('the agent that leaves is notified, and the phone hears silence', async () => {
    await connect();
    agent.socket?.close(1000);
    expect(await link.ended).toMatchObject({ by: 'hangup', closeCode: 1000 });
    await phone.until(() => phone.heard.length > 5, 'RTP');
  });

  it('an agent that cannot be reached is an AgentFailure', async () => {
    await open();
    const closed = createSocket('udp4');
    closed.close();
    await expect(
      session.prepareAgent(agentTarget('ws://127.0.0.1:9/'), new AbortController().signal),
    ).rejects.toMatchObject({ name: 'AgentFailure', reason: 'refused', retryable: true });
    const given = new AbortController();
    given.abort();
    await expect(session.prepareAgent(agentTarget(agent.url), given.signal)).rejects.toMatchObject({
      reason: 'aborted',
    });
  });
});
