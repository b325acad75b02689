/** Who is heard, and who hears the agent, on a whole gateway: the main cells of the table in docs/security.md, and what the record says of it. */
import { afterAll, describe, expect, it } from 'vitest';
import { writeRtcp } from '../../media/rtp/rtcp.js';
import { FarEnds } from '../support/far-ends.js';
import { faultScene } from '../support/fault-scene.js';
import { RtpPhone } from '../support/rtp-phone.js';
import { type ScriptedAgent, startScriptedAgent } from '../support/scripted-agent.js';
import { TalkingCaller } from '../support/talking-caller.js';

const number = '+19995563100';
const foreignByte = 200;
const frame = (value: number) => new Uint8Array(160).fill(value);
/** In an SDP an address that nobody can reach. */
const hidden = { address: '10.11.12.13', port: 5004 };

let agent: ScriptedAgent;
let heard: Buffer[] = [];
const callers: TalkingCaller[] = [];
const others: RtpPhone[] = [];
const networks: FarEnds[] = [];

const scene = faultScene({
  environment: { TRUNKLINE_LOG_LEVEL: 'silent' },
  timersMs: { t1: 50, t2: 400, t4: 500 },
  start: { rtpQuarantineMs: 0 },
  prepare: async (app) => {
    agent = await startScriptedAgent({
      // It talks for a minute, so that whoever is sent audio hears it.
      onText: (message, socket) => message.event === 'start' && socket.send(Buffer.alloc(60 * 8000, 7)),
      onBinary: (bytes) => void heard.push(bytes),
    });
    await app.connectNumber(number, agent.url, { protocol: 'raw', encoding: 'ulaw' });
  },
  before: () => {
    heard = [];
  },
  after: async () => {
    for (const caller of callers.splice(0)) await caller.bye();
    for (const other of others.splice(0)) other.close();
    for (const ends of networks.splice(0)) await ends.close();
  },
});
afterAll(() => agent.close());

async function call(wish: Parameters<typeof TalkingCaller.call>[2] = {}, ends = scene.ends): Promise<TalkingCaller> {
  const caller = await TalkingCaller.call(ends, number, wish);
  callers.push(caller);
  return caller;
}

/** Somebody else who sends a stream to the port of the call. */
async function other(caller: TalkingCaller, address: string): Promise<RtpPhone> {
  const phone = await RtpPhone.open(address);
  others.push(phone);
  return Object.assign(phone, { to: caller.phone.to, ssrc: 0x9999_0001, sequence: 700 });
}

/** Hangs up; the record of the call. */
async function recordOf(caller: TalkingCaller) {
  await caller.bye();
  await expect.poll(async () => (await scene.recordOf(caller.far))?.status).not.toBe('in_progress');
  const { quality, events } = (await scene.recordOf(caller.far))!;
  return { quality, types: events.map(({ type }) => type) };
}

async function reInvite(caller: TalkingCaller, direction: string): Promise<void> {
  const { far, phone } = caller;
  far.send(far.write('INVITE', undefined, { body: phone.sdp({ direction }) }));
  expect(await far.answerTo('INVITE', far.cseq)).toBe(200);
}

const bytesHeard = () => new Set(heard.flatMap((bytes) => [...bytes]));
const agentIn = (phone: RtpPhone) => phone.heard.filter(({ payload }) => payload[0] === 7).length;

describe('a stranger with a stream in sequence, from another host', () => {
  it.each([
    ['that is silent for 4 s', {}],
    ['behind a NAT that is silent for 4 s', { sdp: hidden }],
  ])('never has the place of a phone %s', async (_what, wish) => {
    const caller = await call(wish);
    await expect.poll(() => heard.length).toBeGreaterThan(5);
    caller.hush();
    const stranger = await other(caller, '127.0.0.9');
    const before = agentIn(caller.phone);
    await stranger.talk(200, () => frame(foreignByte));
    expect(stranger.heard).toHaveLength(0);
    expect(agentIn(caller.phone) - before).toBeGreaterThan(150);
    caller.talk(() => frame(3));
    await expect.poll(bytesHeard).toContain(3);
    expect(bytesHeard()).not.toContain(foreignByte);
    const { quality, types } = await recordOf(caller);
    expect(quality).toMatchObject({ received: { ssrc_changes: 0 } });
    expect((quality.received as { foreign: number }).foreign).toBeGreaterThanOrEqual(200);
    expect(types).not.toContain('media.one_way'); // that was a pause
  });

  it('hears nothing of the agent while the phone is on hold, nor when it comes back', async () => {
    const caller = await call();
    await expect.poll(() => heard.length).toBeGreaterThan(5);
    caller.hush();
    const stranger = await other(caller, '127.0.0.9');
    await reInvite(caller, 'sendonly');
    await stranger.talk(200, () => frame(foreignByte));
    await reInvite(caller, 'sendrecv');
    const before = agentIn(caller.phone);
    await stranger.talk(25, () => frame(foreignByte));
    await caller.phone.until(() => agentIn(caller.phone) > before + 5, 'the agent');
    caller.talk(() => frame(3));
    await expect.poll(bytesHeard).toContain(3);
    expect(stranger.heard).toHaveLength(0);
    expect(bytesHeard()).not.toContain(foreignByte);
  });

  it('0.3 s before a phone behind a NAT is heard until the phone is, and no longer', async () => {
    const network = await FarEnds.open(scene.port, '127.0.0.2');
    networks.push(network);
    const caller = await call({ sdp: hidden, address: '127.0.0.2', silent: true }, network);
    const stranger = await other(caller, '127.0.0.9');
    await stranger.talk(15, () => frame(foreignByte));
    const goesOn = stranger.talk(150, () => frame(foreignByte));
    await caller.phone.talk(50, () => frame(3));
    // Two packets are the proof of the phone; the stranger is not done.
    await expect.poll(() => heard.filter((bytes) => bytes.includes(3)).length, { timeout: 500 }).toBeGreaterThan(45);
    const { length } = stranger.heard;
    const count = heard.length;
    const before = agentIn(caller.phone);
    await goesOn;
    expect(agentIn(caller.phone) - before).toBeGreaterThan(60);
    expect(stranger.heard).toHaveLength(length);
    expect(heard.slice(count).flatMap((bytes) => [...bytes])).not.toContain(foreignByte);
  });
});

describe('another stream from the host of the SDP (an SBC)', () => {
  it('one stray packet before the phone: all of the phone is heard', async () => {
    const caller = await call({ silent: true });
    const stray = await other(caller, '127.0.0.1');
    stray.send(frame(foreignByte));
    await caller.phone.talk(50, () => frame(3));
    const { quality } = await recordOf(caller);
    expect(quality).toMatchObject({ received: { packets: 50, lost: 0, foreign: 1, ssrc_changes: 0 } });
    expect(bytesHeard()).not.toContain(foreignByte);
  });

  it('a stray stream that goes on: all of the phone is heard, and it hears the agent', async () => {
    const caller = await call({ silent: true });
    const stray = await other(caller, '127.0.0.1');
    await stray.talk(10, () => frame(foreignByte));
    const goesOn = stray.talk(150, () => frame(foreignByte));
    await caller.phone.talk(100, () => frame(3));
    await goesOn;
    expect(agentIn(caller.phone)).toBeGreaterThan(80);
    const { quality } = await recordOf(caller);
    const { packets, foreign } = quality.received as { packets: number; foreign: number };
    // Of the stray stream at most what came before the phone.
    expect(packets - 100).toBeLessThanOrEqual(12);
    expect(packets + foreign).toBe(260);
  });
});

it('a NAT that changes the port, and then the host, of a phone that speaks: followed without a pause', async () => {
  const caller = await call({ sdp: hidden, silent: true });
  await caller.phone.talk(20, () => frame(3));
  let { sequence, timestamp, ssrc } = caller.phone;
  for (const [address, value, missing] of [
    ['127.0.0.1', 4, 0],
    ['127.0.0.8', 5, 2],
  ] as const) {
    const place = Object.assign(await other(caller, address), { ssrc, sequence, timestamp });
    await place.talk(30, () => frame(value));
    ({ sequence, timestamp } = place);
    await expect
      .poll(() => heard.filter((bytes) => bytes[0] === value).length)
      .toBeGreaterThanOrEqual(30 - missing - 2);
    await place.until(() => agentIn(place) > 3, 'the agent');
  }
  const { quality } = await recordOf(caller);
  expect(quality).toMatchObject({ received: { ssrc_changes: 0, foreign: 2 + 2 } });
});

describe('reports (RTCP)', () => {
  it('that cannot be true, or come from another port of the phone, do not come into the record', async () => {
    const caller = await call();
    const { phone } = caller;
    await phone.until(() => phone.heard.length > 150, '150 packets', 8000);
    const { ssrc, sequence: first } = phone.heard[0]!;
    const report = (cumulativeLost: number) =>
      writeRtcp({
        ...{ ssrc: phone.ssrc, cname: 'phone', sender: null, bye: false },
        block: {
          ...{ ssrc, fractionLost: 0, cumulativeLost, highestSequence: first + 99, jitter: 8 },
          ...{ lastSenderReport: 0, delaySinceLast: 0 },
        },
      });
    const { port, address } = phone.to!;
    phone.rtcp.send(report(2), port + 1, address);
    const elsewhere = await other(caller, '127.0.0.1');
    elsewhere.rtp.send(report(50), port + 1, address);
    elsewhere.rtp.send(report(50), port, address);
    phone.rtcp.send(report(5000), port + 1, address);
    const count = heard.length;
    await expect.poll(() => heard.length).toBeGreaterThan(count + 10);
    const { quality } = await recordOf(caller);
    expect(quality).toMatchObject({
      received: { foreign: 2, malformed: 1 },
      sent: { lost: 2, packet_loss: 2, jitter_ms: 1, jitter_mean_ms: 1, jitter_max_ms: 1 },
    });
    expect((quality.sent as { mos: number }).mos).toBeGreaterThan(4);
  });
});

it('a phone that only presses keys has no score', async () => {
  const caller = await call({ silent: true });
  const { phone } = caller;
  await phone.until(() => agentIn(phone) > 0, 'the agent');
  for (let press = 0; press < 15; press++) {
    for (let i = 1; i <= 12; i++) {
      const duration = Math.min(i, 10) * 160;
      const event = Uint8Array.of(5, (i >= 10 ? 0x80 : 0) | 10, duration >> 8, duration & 0xff);
      phone.send(event, { payloadType: 101, samples: 0 });
    }
    phone.timestamp += 3200;
  }
  await expect
    .poll(async () => (await scene.recordOf(caller.far))?.events.filter(({ type }) => type === 'dtmf.received').length)
    .toBe(15);
  const { quality } = await recordOf(caller);
  expect(quality).toMatchObject({ received: { packets: 180, lost: 0 } });
  expect(quality).not.toHaveProperty('mos');
  expect(quality).not.toHaveProperty('received.mos');
});
