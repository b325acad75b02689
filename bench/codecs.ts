/**
 * What a call costs by the codec of its phone: this process with so many calls, whose agent (a process of its own) echoes linear samples at
 * the given rate; phones here send packets that were coded beforehand, and decode nothing. All codecs in turns, so that a busy neighbour hurts
 * each; beside it, what a frame costs in the coders alone, and what redundancy gains. Run: `npm run build && node dist/bench/codecs.js`
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { OpusCoder } from '../media/audio/codec/opus.js';
import { G722Coder, type WideDecoder, type WideEncoder } from '../media/audio/codec/wide-codec.js';
import { bytesOf, sampleFormatOf, samplesOf, writeSamples } from '../media/audio/sample-format.js';
import { startMediaEngine } from '../media/choose.js';
import { codecFacts } from '../media/codecs.js';
import type { MediaEngine, MediaSession, PhoneCodec } from '../media/engine.js';
import { opusDefaults } from '../media/opus-parameters.js';
import { writeRtpHeader } from '../media/rtp/packet.js';

const calls = 40;
const measureMs = 3000;
const rounds = 3;
const frameMs = 20;
const cases: { codec: PhoneCodec; agentHz: number }[] = [
  { codec: 'PCMU', agentHz: 8000 },
  { codec: 'PCMU', agentHz: 16_000 },
  { codec: 'G722', agentHz: 16_000 },
  { codec: 'PCMU', agentHz: 24_000 },
  { codec: 'OPUS', agentHz: 24_000 },
];

async function coderOf(codec: PhoneCodec): Promise<(WideDecoder & WideEncoder) | null> {
  if (codec === 'G722') return new G722Coder();
  if (codec !== 'OPUS') return null;
  const opus = await OpusCoder.open();
  opus.tune({ ...opusDefaults, inbandFec: true });
  return opus;
}

/** Two seconds of a voice whose pitch and loudness change. */
function voice(rateHz: number): Int16Array {
  let phase = 0;
  return Int16Array.from({ length: 2 * rateHz }, (_, i) => {
    const t = i / rateHz;
    phase += (2 * Math.PI * (140 + 40 * Math.sin(3 * t))) / rateHz;
    let sum = 0;
    for (let n = 1; n <= 20; n++) sum += Math.sin(n * phase) / (1 + Math.abs(n - 3 - 2 * Math.sin(11 * t)));
    return 2500 * (0.3 + 0.7 * Math.abs(Math.sin(8 * t))) * sum;
  });
}

async function coded(codec: PhoneCodec): Promise<Uint8Array[]> {
  const coder = await coderOf(codec);
  const samples = voice(sampleFormatOf[codec].sampleRateHz);
  const frame = (sampleFormatOf[codec].sampleRateHz / 1000) * frameMs;
  return Array.from({ length: samples.length / frame }, (_, i) => {
    const part = samples.slice(i * frame, (i + 1) * frame);
    if (!coder) return writeSamples(part, codec);
    const packet = new Uint8Array(1275);
    return packet.slice(0, coder.encode(samplesOf(bytesOf(part)), packet, 0));
  });
}

class Phone {
  heard = 0;
  private sequence = 0;
  private timestamp = 0;
  private to = 0;

  private constructor(
    private readonly socket: Socket,
    private readonly codec: PhoneCodec,
    private readonly packets: Uint8Array[],
  ) {
    socket.on('message', () => {
      this.heard += 1;
    });
  }

  static async open(codec: PhoneCodec, packets: Uint8Array[]): Promise<Phone> {
    const socket = createSocket('udp4');
    socket.bind(0, '127.0.0.1');
    await once(socket, 'listening');
    return new Phone(socket, codec, packets);
  }

  get offer(): string {
    const { payloadType, rtpmap } = codecFacts[this.codec];
    return [
      ...['v=0', 'o=- 1 1 IN IP4 127.0.0.1', 's=-', 'c=IN IP4 127.0.0.1', 't=0 0'],
      ...[`m=audio ${this.socket.address().port} RTP/AVP ${payloadType}`, `a=rtpmap:${payloadType} ${rtpmap}`],
      ...[`a=fmtp:${payloadType} useinbandfec=1`, ''],
    ].join('\r\n');
  }

  dial(answer: string): void {
    this.to = Number(/^m=audio (\d+)/m.exec(answer)?.[1]);
  }

  say(): void {
    const { payloadType, clockKhz } = codecFacts[this.codec];
    const payload = this.packets[this.sequence % this.packets.length]!;
    const packet = new Uint8Array(12 + payload.length);
    writeRtpHeader(packet, payloadType, false, this.sequence & 0xffff, this.timestamp, 7);
    packet.set(payload, 12);
    this.sequence += 1;
    this.timestamp = (this.timestamp + frameMs * clockKhz) >>> 0;
    this.socket.send(packet, this.to, '127.0.0.1');
  }

  close(): void {
    this.socket.close();
  }
}

async function open(engine: MediaEngine, codec: PhoneCodec, agentHz: number, url: string, packets: Uint8Array[]) {
  const phone = await Phone.open(codec, packets);
  const session = await engine.open({
    ...{ group: String(Math.random()), offer: phone.offer, localAddress: '127.0.0.1', role: 'caller' },
    policy: { codecs: [codec], firstRtpTimeoutMs: 0, rtpTimeoutMs: 0, concealLoss: true },
  });
  phone.dial(session.localSdp);
  const call = {
    callId: 'c',
    organizationId: 'o',
    from: '+15550001',
    to: '+15550002',
    direction: 'inbound',
    custom: {},
  };
  const link = await session.prepareAgent(
    {
      ...{
        protocol: 'raw',
        url,
        config: { encoding: 'l16', sample_rate: agentHz },
        call: { ...call, direction: 'inbound' },
      },
      ...{ connectTimeoutMs: 5000, firstAudioTimeoutMs: 0, allowPrivateAddress: true },
    },
    new AbortController().signal,
  );
  session.attach(link);
  link.start();
  return { phone, session };
}

/** Processor time of this process for one call, in percent of a core. */
async function measure(engine: MediaEngine, codec: PhoneCodec, agentHz: number, url: string): Promise<number> {
  const packets = await coded(codec);
  const lines: { phone: Phone; session: MediaSession }[] = [];
  for (let i = 0; i < calls; i++) lines.push(await open(engine, codec, agentHz, url, packets));
  const startMs = performance.now();
  let said = 0;
  const timer = setInterval(() => {
    for (; performance.now() - startMs >= said * frameMs; said++) for (const { phone } of lines) phone.say();
  }, 5);
  await sleep(1000);
  const [before, fromMs] = [process.cpuUsage(), performance.now()];
  await sleep(measureMs);
  const { user, system } = process.cpuUsage(before);
  const passedMs = performance.now() - fromMs;
  clearInterval(timer);
  const echoed = lines.filter(({ phone }) => phone.heard > (measureMs / frameMs) * 0.8).length;
  if (echoed < calls) process.stderr.write(`${codec}: only ${echoed} of ${calls} calls heard their echo\n`);
  for (const { phone, session } of lines) {
    await session.close();
    phone.close();
  }
  return (user + system) / 10 / passedMs / calls;
}

/**
 * What becomes of a voice over a network that loses packets at random: the share that came with the next packet, and how far the loudness of
 * 5 ms in the lost ones is from what would have been heard without loss, on average.
 */
async function lossy(lossPercent: number, inbandFec: boolean): Promise<{ told: number; errorDb: number }> {
  const samples = voice(sampleFormatOf.OPUS.sampleRateHz);
  const frame = (sampleFormatOf.OPUS.sampleRateHz / 1000) * frameMs;
  const [whole, torn] = [await OpusCoder.open(), await OpusCoder.open()];
  torn.tune({ ...opusDefaults, inbandFec });
  torn.lossHeard(lossPercent);
  const packets = Array.from({ length: 500 }, (_, i) => {
    const from = (i * frame) % samples.length;
    const packet = new Uint8Array(1275);
    return packet.slice(0, torn.encode(samples.subarray(from, from + frame), packet, 0));
  });
  let seed = 7;
  const lost = packets.map(() => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
    return (seed >>> 8) % 1000 < lossPercent * 10;
  });
  let [count, told, pieces, sum] = [0, 0, 0, 0];
  for (const [i, packet] of packets.entries()) {
    const heard = whole.decode(packet)!.slice();
    if (!lost[i]) torn.decode(packet);
    else {
      const known = packets[i + 1] && !lost[i + 1] ? torn.recover(packets[i + 1]!, frame) : null;
      const made = known ?? torn.conceal(frame);
      count += 1;
      told += known ? 1 : 0;
      for (let at = 0; at < frame; at += frame / 4) {
        const level = (of: Int16Array) => {
          let power = 1e4;
          for (const sample of of.subarray(at, at + frame / 4)) power += sample ** 2;
          return 10 * Math.log10(power);
        };
        sum += Math.abs(level(heard) - level(made));
        pieces += 1;
      }
    }
  }
  whole.free();
  torn.free();
  return { told: (100 * told) / count, errorDb: sum / pieces };
}

/** Microseconds for one frame. */
function each(frames: number, run: (i: number) => void): number {
  for (let i = 0; i < frames / 4; i++) run(i);
  const before = process.cpuUsage();
  for (let i = 0; i < frames; i++) run(i);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / frames;
}

const program = fileURLToPath(new URL('../examples/echo-agent/index.js', import.meta.url));
const agent: ChildProcess = spawn(process.execPath, [program, '--port', '0'], { stdio: ['ignore', 'pipe', 'inherit'] });
const [line] = await once(agent.stdout!, 'data');
const url = /ws:\S+\/raw/.exec(String(line))?.[0] ?? '';
const engine = await startMediaEngine({ threads: 1, rtpPorts: { from: 20_000, to: 20_399 }, quarantineMs: 0 });
try {
  for (const codec of ['G722', 'OPUS'] as const) {
    const [coder, packets] = [(await coderOf(codec))!, await coded(codec)];
    const samples = voice(sampleFormatOf[codec].sampleRateHz);
    const frame = (sampleFormatOf[codec].sampleRateHz / 1000) * frameMs;
    const parts = packets.map((_, i) => samples.slice(i * frame, (i + 1) * frame));
    const into = new Uint8Array(1275);
    const encodeUs = each(2000, (i) => coder.encode(parts[i % parts.length]!, into, 0));
    const decodeUs = each(2000, (i) => coder.decode(packets[i % packets.length]!));
    const bytes = packets.reduce((sum, packet) => sum + packet.length, 0) / packets.length;
    process.stdout.write(
      `${codec}: ${encodeUs.toFixed(0)} µs to code, ${decodeUs.toFixed(0)} µs to decode 20 ms; ${bytes.toFixed(0)} bytes a packet\n`,
    );
  }
  for (const percent of [5, 15])
    for (const fec of [false, true]) {
      const { told, errorDb } = await lossy(percent, fec);
      const how = `${fec ? 'with' : 'without'} redundancy`;
      process.stdout.write(
        `OPUS, ${percent} % lost, ${how}: ${told.toFixed(0)} % of them told by the next packet, off by ${errorDb.toFixed(1)} dB\n`,
      );
    }
  const figures = cases.map((): number[] => []);
  for (let round = 0; round < rounds; round++)
    for (const [i, { codec, agentHz }] of cases.entries()) figures[i]!.push(await measure(engine, codec, agentHz, url));
  process.stdout.write(
    `| phone | agent | CPU % of a core per call | times PCMU to 8 kHz |\n| --- | --- | --- | --- |\n`,
  );
  const medians = figures.map((values) => values.sort((a, b) => a - b)[values.length >> 1]!);
  for (const [i, { codec, agentHz }] of cases.entries())
    process.stdout.write(
      `| ${codec} | ${agentHz / 1000} kHz | ${medians[i]!.toFixed(3)} | ${(medians[i]! / medians[0]!).toFixed(2)} |\n`,
    );
} finally {
  await engine.close();
  agent.kill();
}
