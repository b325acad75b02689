import { describe, expect, it } from 'vitest';
import { ArrivalMargin } from '../../media/audio/playout/arrival-margin.js';
import { Playout } from '../../media/audio/playout/playout.js';
import { PlayoutClock } from '../../media/audio/playout/playout-clock.js';
import { emptyRtpView, parseRtp } from '../../media/rtp/packet.js';
import { RtpSender } from '../../media/rtp/sender.js';
import { SdpNegotiation } from '../../media/sdp.js';
import { ToPhone } from '../../media/thread/session/to-phone.js';
import { FakeTime } from '../support/fake-time.js';

interface Sent {
  atMs: number;
  timestamp: number;
  marker: boolean;
  /** Number of the agent's frame; -1 for silence. */
  frame: number;
}

/** Frames say their number in five samples and a check, too quiet to make a pause loud, behind the seam of a bridged gap. */
const numberAt = 33;
function numberOf(payload: Uint8Array): number {
  const digits = [...payload.subarray(numberAt, numberAt + 6)];
  if (digits.some((digit) => digit >> 4 !== 0xe)) return -1;
  const number = digits.slice(0, 5).reduce((sum, digit, i) => sum | ((digit & 0x0f) << (4 * i)), 0);
  return (digits[5]! & 0x0f) === checkOf(number) ? number : -1;
}
function checkOf(number: number): number {
  return (5 + 7 * (number % 16) + 3 * Math.floor(number / 16)) % 16;
}
/** Louder than a pause, and neither speech nor a tone: it is not shortened. */
const hum = 0xdf;

/** A session's way to the phone on a clock of the test. */
class Line {
  readonly time = new FakeTime();
  readonly sent: Sent[] = [];
  onPayload: (payload: Uint8Array) => void = () => {};
  readonly playout = new Playout('PCMU');
  readonly outward: ToPhone;
  private readonly arrivedMs: number[] = [];
  private lastFrame = -1;

  constructor(ptimeMs = 20) {
    const clock = new PlayoutClock(this.time);
    const view = emptyRtpView();
    const sender = new RtpSender(1, 0, 0, {
      transmit: (packet) => {
        parseRtp(packet, view);
        const { timestamp, marker } = view;
        const number = numberOf(packet.subarray(12));
        // A bridged gap repeats pieces of the last frame.
        const frame = number < this.arrivedMs.length && number > this.lastFrame ? number : -1;
        this.lastFrame = Math.max(this.lastFrame, frame);
        this.sent.push({ atMs: this.time.nowMs, timestamp, marker, frame });
        this.onPayload(packet.subarray(12));
      },
    });
    this.outward = new ToPhone(sender, this.time.nowMs, { due: (dueMs) => clock.move(entry, dueMs) });
    const sdp = new SdpNegotiation({ address: '192.0.2.1', rtpPort: 10_000, codecs: ['PCMU'] }, '1');
    sdp.answer(
      `v=0\r\no=- 1 1 IN IP4 x\r\ns=-\r\nc=IN IP4 192.0.2.5\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0\r\na=ptime:${ptimeMs}\r\n`,
    );
    this.outward.agree(sdp.agreed!);
    this.outward.goLive();
    this.outward.attach(this.playout, this.time.nowMs);
    const entry = clock.add((nowMs) => {
      const readyAtMs = this.outward.readyAtMs(nowMs);
      if (readyAtMs !== nowMs) return readyAtMs;
      this.outward.slot(nowMs);
      return this.outward.dueMs;
    }, this.outward.dueMs);
  }

  /** The agent's next frame of 20 ms comes now. Every twentieth is as quiet as a pause between words. */
  arrive(): void {
    const frame = this.arrivedMs.push(this.time.nowMs) - 1;
    const bytes = new Uint8Array(160).fill(frame % 20 === 19 ? 0xfe : hum);
    for (let i = 0; i < 5; i++) bytes[numberAt + i] = 0xe0 | ((frame >> (4 * i)) & 0x0f);
    bytes[numberAt + 5] = 0xe0 | checkOf(frame);
    this.playout.push(bytes);
    this.outward.audioQueued(20, this.time.nowMs);
  }

  /** Frames at the pace of the clock, each late by what `lateMs` says. */
  speak(frames: number, lateMs: (i: number) => number = () => 0): void {
    const startMs = this.time.nowMs;
    for (let i = 0; i < frames; i++) {
      this.time.advance(Math.max(0, startMs + i * 20 + lateMs(i) - this.time.nowMs));
      this.arrive();
    }
  }

  get spoken(): Sent[] {
    return this.sent.filter((packet) => packet.frame >= 0);
  }

  /** From arrival to the packet, of the frames from `from` on, sorted. */
  waitsMs(from = 0): number[] {
    const frames = this.spoken.filter((packet) => packet.frame >= from);
    return frames.map((packet) => packet.atMs - this.arrivedMs[packet.frame]!).sort((a, b) => a - b);
  }
}

const at = (sorted: number[], part: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))]!;
/** The same "random" numbers in every run. */
const noise = (i: number) => ((i * 7919) % 1000) / 1000;

describe('how long the agent waits for the wire', () => {
  it('a punctual agent: the margin of 3 ms, whatever the phase of the silence before', () => {
    for (let phaseMs = 0; phaseMs < 20; phaseMs += 3) {
      const line = new Line();
      line.time.advance(500 + phaseMs);
      line.speak(100);
      line.time.advance(100);
      expect(line.spoken).toHaveLength(100);
      expect(at(line.waitsMs(), 0.5)).toBeLessThanOrEqual(4.5);
      expect(at(line.waitsMs(), 1)).toBeLessThanOrEqual(4.5);
    }
  });

  it('an agent that jitters by 8 ms: its jitter and little more, once that is known', () => {
    const line = new Line();
    line.time.latenessMs = 0.7;
    line.time.advance(507);
    line.speak(1000, (i) => 8 * noise(i));
    line.time.advance(100);
    const waits = line.waitsMs(200);
    expect(at(waits, 0.5)).toBeLessThanOrEqual(12);
    expect(at(waits, 0.99)).toBeLessThanOrEqual(18);
    expect(line.outward.underruns).toBeLessThanOrEqual(4);
  });

  it('what an agent answers after our thread stood still is waited for as much longer: no delay stays', () => {
    for (const stalledMs of [17, 20, 23, 38]) {
      const line = new Line();
      line.time.advance(500);
      line.speak(50);
      line.time.advance(20);
      // The caller's packets waited in the sockets meanwhile, so that the agent answers 3 ms later.
      line.time.stall(stalledMs);
      line.time.advance(3);
      for (let ms = 20; ms <= 20 + stalledMs + 3; ms += 20) line.arrive();
      line.time.advance(20 - ((stalledMs + 3) % 20));
      line.speak(50);
      line.time.advance(100);
      expect(line.outward.underruns, `${stalledMs} ms`).toBe(0);
      expect(line.playout.trimmedMs).toBe(0);
      expect(at(line.waitsMs(60), 1)).toBeLessThanOrEqual(6);
    }
  });

  it('one frame that was late by less than a frame neither: a frame of a pause is taken out, and the slots move by the rest', () => {
    const line = new Line();
    line.time.advance(516); // just before a slot of the silence: the lead is not used up by the first words
    line.speak(400, (i) => (i === 100 ? 19 : 0));
    line.time.advance(100);
    expect(at(line.waitsMs(102), 1)).toBeGreaterThan(12);
    expect(at(line.waitsMs(330), 1)).toBeLessThanOrEqual(6);
    expect(line.playout.trimmedMs).toBe(20);
    const said = line.sent.filter(({ frame }) => frame > 102);
    expect(said.every(({ timestamp }, i) => timestamp === (said[0]!.timestamp + 160 * i) >>> 0)).toBe(true);
  });

  it('frames that are late by up to 17 ms go out when they come: no hole, no gap, and the call is not later afterwards', () => {
    const line = new Line();
    line.time.advance(503);
    line.speak(400, (i) => (i % 7 === 3 ? 1 + (i % 17) : 0));
    line.time.advance(100);
    expect(line.spoken.map((packet) => packet.frame)).toEqual(Array.from({ length: 400 }, (_, i) => i));
    const said = line.sent.slice(line.sent.indexOf(line.spoken[0]!), line.sent.indexOf(line.spoken.at(-1)!) + 1);
    expect(said).toHaveLength(400);
    for (const [i, packet] of said.slice(1).entries()) {
      expect(packet.timestamp).toBe((said[i]!.timestamp + 160) >>> 0);
      expect(packet.atMs - said[i]!.atMs).toBeLessThanOrEqual(38);
    }
    expect(at(line.waitsMs(), 1)).toBeLessThanOrEqual(4.5);
    expect(line.outward.underruns).toBe(0);
  });

  it('a slot waits for nobody who is ahead of the clock: after a burst silence goes on at its pace', () => {
    const line = new Line();
    line.time.advance(503);
    for (let i = 0; i < 50; i++) line.arrive();
    line.time.advance(2000);
    const steps = line.sent.slice(1).map((packet, i) => packet.atMs - line.sent[i]!.atMs);
    expect(Math.max(...steps.slice(30))).toBeLessThanOrEqual(21.5);
  });

  it('behind the last frame of an agent at the pace of the clock, one packet of silence is late and the next are not', () => {
    const line = new Line();
    line.time.advance(503);
    line.speak(100);
    const spokenAtMs = line.time.nowMs;
    line.time.advance(500);
    const after = line.sent.filter((packet) => packet.atMs > spokenAtMs);
    const steps = after.slice(1).map((packet, i) => packet.atMs - after[i]!.atMs);
    expect(steps.filter((ms) => ms < 19 || ms > 21.5)).toHaveLength(2);
    expect(Math.max(...steps)).toBeLessThanOrEqual(38.5);
  });

  it('behind a frame that was later than all before, the margin is not waited for once more', () => {
    const line = new Line();
    line.time.advance(516);
    line.speak(330, (i) => (i % 20 === 0 ? 11 : i === 305 ? 17 : 0));
    line.time.advance(100);
    // The agent's margin is 11 ms by then: 17 and 11 would be 28.
    expect(at(line.waitsMs(306), 1)).toBeLessThanOrEqual(25);
  });

  it('frames that waited for us are not late, and those of the agent are', () => {
    const late = new ArrivalMargin();
    const waited = new ArrivalMargin();
    for (let i = 0; i < 200; i++) {
      const lateMs = i % 10 === 0 ? 12 : 0;
      late.arrived(i * 20 + lateMs, 20);
      waited.arrived(i * 20 + lateMs, 20, lateMs);
    }
    expect(late.marginMs).toBe(12);
    expect(waited.marginMs).toBe(3);
  });

  it('one frame that was late by 60 ms does not make the rest of the call late', () => {
    const line = new Line();
    line.time.advance(500);
    line.speak(600, (i) => (i >= 100 && i < 104 ? 60 : 0));
    line.time.advance(100);
    expect(at(line.waitsMs(450), 1)).toBeLessThanOrEqual(18);
    expect(line.playout.trimmedMs).toBeGreaterThan(0);
  });

  it('a frame that was late by 32 ms leaves no more than a slot and the margin', () => {
    const line = new Line();
    line.time.advance(500);
    line.speak(500, (i) => (i === 100 ? 32 : 0));
    line.time.advance(100);
    expect(at(line.waitsMs(400), 1)).toBeLessThanOrEqual(23.5);
  });

  it('an agent that bursts: every frame, without a hole, at the pace of the clock', () => {
    const line = new Line();
    line.time.advance(503);
    for (let i = 0; i < 250; i++) line.arrive();
    line.time.advance(6000);
    expect(line.spoken.map((packet) => packet.frame)).toEqual(Array.from({ length: 250 }, (_, i) => i));
    const gaps = line.spoken.slice(1).map((packet, i) => packet.timestamp - line.spoken[i]!.timestamp);
    expect(new Set(gaps)).toEqual(new Set([160]));
    expect(line.outward.underruns).toBe(0);
  });

  it('an agent whose clock is fast, at 1.02 times the pace: what is too much leaves in pauses, for half an hour', () => {
    const line = new Line();
    line.time.advance(500);
    let longestMs = 0;
    for (let minute = 0; minute < 30; minute++) {
      line.speak(3060, (i) => -(i * 20 - (i * 20) / 1.02));
      longestMs = Math.max(longestMs, line.playout.queuedMs);
    }
    // Left alone, it would be 36 s by then.
    expect(longestMs).toBeLessThanOrEqual(120);
    line.time.advance(500);
    const waits = line.waitsMs(500);
    expect(at(waits, 0.5)).toBeLessThanOrEqual(60);
    expect(at(waits, 1)).toBeLessThanOrEqual(140);
    // What was left out was quiet: every loud frame is heard.
    const heard = new Set(line.spoken.map((packet) => packet.frame));
    const missing = Array.from({ length: 3060 * 30 }, (_, i) => i).filter((frame) => !heard.has(frame));
    expect(missing.filter((frame) => frame % 20 !== 19)).toEqual([]);
  });

  it('an agent whose clock is slow, at 0.98 times the pace: silence now and then, and it is never late', () => {
    const line = new Line();
    line.time.advance(500);
    line.speak(15_000, (i) => i * 20 * (1 / 0.98 - 1));
    line.time.advance(100);
    expect(line.spoken.map((packet) => packet.frame)).toEqual(Array.from({ length: 15_000 }, (_, i) => i));
    expect(at(line.waitsMs(), 1)).toBeLessThanOrEqual(25);
    const first = line.sent[0]!;
    for (const [i, packet] of line.sent.entries()) expect(packet.timestamp).toBe((first.timestamp + i * 160) >>> 0);
    expect(line.outward.underruns).toBeGreaterThan(100);
  });

  it('many short answers: the stream never leads the wall by more than 20 ms, and timestamps have no gap', () => {
    const line = new Line();
    line.time.advance(100);
    for (let answer = 0; answer < 40; answer++) {
      line.speak(3 + (answer % 9), (i) => 4 * noise(i + answer));
      line.time.advance(30 + ((answer * 37) % 400));
    }
    const first = line.sent[0]!;
    for (const [i, packet] of line.sent.entries()) {
      expect(packet.timestamp).toBe((first.timestamp + i * 160) >>> 0);
      const leadMs = (packet.timestamp - first.timestamp) / 8 - (packet.atMs - first.atMs);
      expect(leadMs).toBeLessThanOrEqual(20.6);
      // A packet may wait 18 ms for its frame.
      expect(leadMs).toBeGreaterThan(-19.5);
    }
  });
});

describe('a thread that stood still', () => {
  it('for 50 ms: catches up', () => {
    const line = new Line();
    line.time.advance(500);
    const before = line.sent.length;
    line.time.stall(50);
    line.time.advance(100);
    expect(line.sent.length - before).toBe(7);
    expect(line.outward.skippedMs).toBe(0);
  });

  it('for 500 ms: no burst, a marker, and timestamps that follow the wall', () => {
    const line = new Line();
    line.time.advance(500);
    const before = line.sent.at(-1)!;
    line.time.stall(500);
    line.time.advance(100);
    const after = line.sent.filter((packet) => packet.atMs > before.atMs);
    expect(after.length).toBeLessThanOrEqual(7);
    expect(after[0]!.marker).toBe(true);
    const passedMs = (after[0]!.timestamp - before.timestamp) / 8;
    expect(Math.abs(passedMs - (after[0]!.atMs - before.atMs))).toBeLessThanOrEqual(20);
    expect(line.outward.skippedMs).toBeGreaterThanOrEqual(480);
  });

  it('while the next frame waited in the socket: reads before it speaks, and is not later afterwards', () => {
    const line = new Line();
    line.time.advance(500);
    line.speak(100);
    line.time.onReading = () => {
      line.time.onReading = () => {};
      line.arrive();
    };
    line.time.stall(30);
    line.time.advance(5);
    line.time.advance(5);
    line.speak(200);
    expect(line.outward.underruns).toBe(0);
    const steps = line.spoken.slice(1).map((packet, i) => packet.timestamp - line.spoken[i]!.timestamp);
    expect(new Set(steps)).toEqual(new Set([160]));
  });

  it('under a continuous sound without a pause: the call is back in time within 6 s, with one cut', () => {
    const line = new Line();
    line.time.advance(500);
    const loud = (frames: number) => {
      const startMs = line.time.nowMs;
      for (let i = 0; i < frames; i++) {
        line.time.advance(Math.max(0, startMs + i * 20 - line.time.nowMs));
        line.playout.push(new Uint8Array(160).fill(0x20));
        line.outward.audioQueued(20, line.time.nowMs);
      }
    };
    loud(250);
    line.time.stall(500);
    // What the phone said meanwhile waited in the socket and comes back at once.
    for (let i = 0; i < 25; i++) {
      line.playout.push(new Uint8Array(160).fill(0x20));
      line.outward.audioQueued(20, line.time.nowMs);
    }
    loud(300);
    expect(line.playout.queuedMs).toBeLessThanOrEqual(40);
    expect(line.playout.trimmedMs).toBeLessThanOrEqual(520);
  });

  it('in the middle of a sentence: the call is back in time after the next pauses', () => {
    const line = new Line();
    line.time.advance(500);
    line.speak(100);
    line.time.stall(300);
    for (let i = 0; i < 15; i++) line.arrive();
    line.speak(1500);
    expect(line.playout.queuedMs).toBeLessThanOrEqual(40);
  });
});

describe('packets of other lengths', () => {
  it.each([10, 30, 60])('%i ms', (ptimeMs) => {
    const line = new Line(ptimeMs);
    line.time.advance(500);
    line.speak(60);
    line.time.advance(200);
    const steps = line.sent.slice(1).map((packet, i) => packet.timestamp - line.sent[i]!.timestamp);
    expect(new Set(steps)).toEqual(new Set([ptimeMs * 8]));
    expect(line.outward.underruns).toBeLessThanOrEqual(1);
    expect(line.playout.queuedMs).toBe(0);
  });
});

it('a sentence that ends in the middle of a frame is played to its end', () => {
  const line = new Line();
  line.time.advance(500);
  const payloads: Uint8Array[] = [];
  line.onPayload = (payload) => payloads.push(payload.slice());
  line.playout.push(new Uint8Array(50).fill(0xe0));
  line.outward.audioQueued(50 / 8, line.time.nowMs);
  line.time.advance(100);
  expect(line.playout.queuedMs).toBe(0);
  expect(payloads.filter((payload) => payload[0] === 0xe0 && payload[49] === 0xe0)).toHaveLength(1);
});
