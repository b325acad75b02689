import { createSocket, type Socket } from 'node:dgram';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { MediaEngine, MediaSession } from '../../media/engine.js';
import { agentTarget, eventually, sessionOptions, startTestEngine } from '../support/media-engine.js';
import { RawAgent } from '../support/raw-agent.js';
import { RtpPhone } from '../support/rtp-phone.js';

/** RTP that a stranger sprays over ports, in the hope that one of them takes it for the caller's or answers it. */
const foreignByte = 66;
const frame = (value: number) => new Uint8Array(160).fill(value);

let engine: MediaEngine;
let agent: RawAgent;
let phone: RtpPhone;
let session: MediaSession;
let stranger: Socket;
let answers: number;

beforeEach(async () => {
  engine = await startTestEngine();
  agent = await RawAgent.open();
  phone = await RtpPhone.open();
  stranger = createSocket('udp4');
  answers = 0;
  stranger.on('message', () => {
    answers += 1;
  });
  await new Promise<void>((resolve) => stranger.bind(0, '127.0.0.9', resolve));
  session = await engine.open(sessionOptions({ offer: phone.sdp() }));
  phone.dial(session.localSdp);
  const link = await session.prepareAgent(agentTarget(agent.url), new AbortController().signal);
  session.attach(link);
  link.start();
  await eventually(() => agent.texts.some((text) => text.event === 'start'), 'the start of the agent');
});

afterEach(async () => {
  await session.close();
  phone.close();
  await new Promise<void>((resolve) => stranger.close(() => resolve()));
  await engine.close();
  await agent.close();
});

/** Headers as a scanner sends them: one and the same, random, or with an SSRC and numbers that were overheard. */
const headers: Record<string, (n: number) => number[]> = {
  'one header again and again': () => [0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
  'random numbers': (n) => [0x80, 0, (n * 97) & 0xff, (n * 31) & 0xff, n, n, n, n, (n * 7) & 0xff, n, n, n],
  'the SSRC of the phone': (n) => [0x80, 0, 0, 200 + n, 0, 0, 0x20, n, 0, 0, 0x12, 0x34],
};

function spray(count: number, header: (n: number) => number[]): void {
  for (let n = 0; n < count; n++) {
    const packet = Uint8Array.from([...header(n), ...frame(foreignByte)]);
    stranger.send(packet, phone.to!.port, phone.to!.address);
  }
}

const foreign = async () => (await session.stats()).received.foreign;
const leaked = () => agent.heard.flatMap((bytes) => [...bytes]).filter((byte) => byte === foreignByte).length;

describe.each(Object.entries(headers))('a stranger with %s', (_name, header) => {
  it('is heard by nobody once the phone spoke, and never answered', async () => {
    await phone.talk(5, () => frame(1));
    await eventually(() => agent.heard.length >= 5, 'the phone');
    spray(40, header);
    await phone.talk(10, () => frame(2));
    spray(40, header);
    await eventually(async () => (await foreign()) === 80, 'the packets of the stranger to be counted');
    await phone.talk(10, () => frame(3));
    await eventually(() => agent.heard.some((bytes) => bytes[0] === 3), 'the phone, undisturbed');
    expect(leaked()).toBe(0);
    expect(answers).toBe(0);
    expect((await session.stats()).received).toMatchObject({ packets: 25, lost: 0, ssrcChanges: 0 });
  });
});

it('a stranger who is first does not keep the phone out', async () => {
  spray(40, headers['one header again and again']!);
  await eventually(async () => (await foreign()) === 40, 'the packets of the stranger to be counted');
  await phone.talk(10, () => frame(3));
  await eventually(() => agent.heard.some((bytes) => bytes[0] === 3), 'the phone');
  expect(leaked()).toBe(0);
  expect(answers).toBe(0);
  expect((await session.stats()).received.packets).toBe(10);
});

it('a stranger who is first, with a whole stream, gives way to the phone that the SDP names', async () => {
  const inSequence = (n: number) => [0x80, 0, 0, n, 0, 0, (n * 160) >> 8, (n * 160) & 0xff, 9, 9, 9, 9];
  let sent = 0;
  const go = () => {
    const packet = Uint8Array.from([...inSequence(sent++ & 0xff), ...frame(foreignByte)]);
    stranger.send(packet, phone.to!.port, phone.to!.address);
  };
  for (let n = 0; n < 5; n++) go();
  await eventually(async () => (await session.stats()).received.packets > 0, 'the stranger to be taken for the phone');
  await phone.talk(5, () => frame(3));
  await eventually(() => agent.heard.some((bytes) => bytes[0] === 3), 'the phone');
  const [leakedSoFar, answersSoFar, foreignSoFar] = [leaked(), answers, await foreign()];
  expect(leakedSoFar).toBeLessThanOrEqual(3 * 160);
  for (let n = 0; n < 40; n++) go();
  await eventually(async () => (await foreign()) === foreignSoFar + 40, 'the stranger to be foreign');
  const heard = phone.heard.length;
  await phone.talk(10, () => frame(4));
  await eventually(() => agent.heard.some((bytes) => bytes[0] === 4), 'the phone again');
  await phone.until(() => phone.heard.length > heard + 5, 'RTP to the phone');
  expect(leaked()).toBe(leakedSoFar);
  // What was on its way when the phone came.
  expect(answers - answersSoFar).toBeLessThanOrEqual(1);
});

it('a stranger who goes on after the call is not heard in the next one', async () => {
  await phone.talk(5, () => frame(1));
  await eventually(() => agent.heard.length >= 5, 'the phone');
  await session.close();
  spray(40, headers['random numbers']!);
  const next = await RtpPhone.open();
  session = await engine.open(sessionOptions({ offer: next.sdp() }));
  next.dial(session.localSdp);
  const before = agent.heard.length;
  const link = await session.prepareAgent(agentTarget(agent.url), new AbortController().signal);
  session.attach(link);
  link.start();
  const port = next.to!.port;
  for (let n = 0; n < 40; n++)
    stranger.send(Uint8Array.from([...headers['random numbers']!(n), ...frame(foreignByte)]), port, '127.0.0.1');
  await next.talk(10, () => frame(4));
  await eventually(() => agent.heard.slice(before).some((bytes) => bytes[0] === 4), 'the next phone');
  expect(leaked()).toBe(0);
  expect(answers).toBe(0);
  next.close();
});
