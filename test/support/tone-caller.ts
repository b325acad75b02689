/** Phones made by hand that call a number of the app, say one tone all the time, and tell who they hear by theirs. */
import { linearToUlaw, ulawToLinear } from '../../media/audio/codec/g711.js';
import { tone } from '../../media/audio/dsp/tone.js';
import type { TestApp } from './app.js';
import { HandPhone } from './joined-call.js';
import { probeTone } from './tone-probe.js';

/** Each has whole periods in 20 ms: one frame is the tone. */
export const tonesHz = [500, 1100, 1900] as const;
export const amplitude = 8000;

/** 20 ms in μ-law. */
export function toneFrame(frequencyHz: number): Uint8Array {
  return Uint8Array.from(tone({ frequencyHz, durationMs: 20, amplitude }), (sample) => linearToUlaw[sample & 0xffff]!);
}

/** Resolves when it was answered. */
export async function toneCaller(app: TestApp, number: string, frequencyHz: number) {
  const phone = await HandPhone.open(app.sip.addresses[0]?.port ?? 0);
  const invite = phone.invite(number);
  phone.confirm(invite, await phone.sip.next(200));
  /** What it says now, and for how many frames; null: its own tone. */
  let said: { frame: Uint8Array; left: number } | null = null;
  const own = toneFrame(frequencyHz);
  const startMs = performance.now();
  let frames = 0;
  const timer = setInterval(() => {
    for (; performance.now() - startMs >= frames * 20; frames++) {
      phone.rtp.send(said?.frame ?? own);
      if (said !== null && --said.left <= 0) said = null;
    }
  }, 5);
  let isOver = false;
  const leave = async () => {
    if (isOver) return;
    isOver = true;
    clearInterval(timer);
    await phone.hangUp();
  };
  /** How loud this tone was in the last packets, as a part of what it was said with. */
  const level = (hz: number, packets = 10) => {
    const bytes = phone.rtp.heard.slice(-packets).flatMap((packet) => [...packet.payload]);
    return (
      probeTone(
        Int16Array.from(bytes, (byte) => ulawToLinear[byte]!),
        hz,
      ).amplitude / amplitude
    );
  };
  return {
    phone,
    leave,
    /** Another tone, for so long. */
    say: (hz: number, ms: number) => {
      said = { frame: toneFrame(hz), left: ms / 20 };
    },
    level,
    /** The app hangs up. */
    untilLet: async () => {
      isOver = true;
      phone.sip.respond(await phone.sip.next('BYE'), 200);
      clearInterval(timer);
    },
    /** 1 of each of the three tones that is heard, and 0 of those that are not. */
    untilHears: (wanted: number[], what: string) =>
      phone.rtp.until(
        () => tonesHz.every((hz, i) => Math.abs(level(hz) - (wanted[i] ?? 0)) < 0.06),
        `${what}: ${wanted}`,
        10_000,
      ),
    untilHearsTone: (hz: number, what: string, loudEnough = 0.18) =>
      phone.rtp.until(() => level(hz, 4) > loudEnough, what, 10_000),
    press: (event: number) => {
      for (let i = 0; i < 3; i++)
        phone.rtp.send(Uint8Array.of(event, 0x8a, 3, 0x20), { payloadType: 101, marker: i === 0, samples: 0 });
    },
    /** Without a BYE. */
    vanish: async () => {
      isOver = true;
      clearInterval(timer);
      await phone.close();
    },
    close: async () => {
      clearInterval(timer);
      await leave();
      await phone.close();
    },
  };
}
