/** A scan from a thousand addresses, each of them slow enough to pass alone: a trunk's calls do not feel it. */
import { expect, it } from 'vitest';
import { answered, faultScene } from '../support/fault-scene.js';
import { scan } from '../support/scan.js';

const scene = faultScene({
  timersMs: { t1: 40, t2: 320, t4: 400 },
  start: { sipTrusted: ['127.0.0.1/32'] },
  prepare: async (app) => {
    const [loopback] = app.store.trunks.allForSip();
    await app.api('PATCH', `/v1/trunks/${loopback?.id}`, { addresses: ['127.0.0.1/32'] });
  },
});

it.each([2000, 20_000])(
  '%i packets a second from 1,000 addresses: every call of a trunk is set up within a second',
  async (packetsPerSec) => {
    const before = (await scene.app.sip.serverStats()).shed;
    const crowd = scan({ port: scene.port, addresses: 1000, packetsPerSec, seconds: 12 });
    await crowd.begun;
    const setUpMs: number[] = [];
    try {
      const untilMs = performance.now() + 6000;
      while (performance.now() < untilMs) {
        const beganMs = performance.now();
        const [call] = await answered(scene.ends, 1);
        setUpMs.push(performance.now() - beganMs);
        await call!.bye();
      }
    } finally {
      const { sent, answers, seconds } = await crowd.stop();
      const { shed } = await scene.app.sip.serverStats();
      process.stderr.write(
        `${Math.round(sent / seconds)}/s sent, ${answers} answered; ${setUpMs.length} calls, slowest ${Math.round(Math.max(...setUpMs))} ms ${JSON.stringify(shed)} before ${JSON.stringify(before)}\n`,
      );
    }
    const { shed } = await scene.app.sip.serverStats();
    expect(Math.max(...setUpMs)).toBeLessThan(1000);
    expect(setUpMs.length).toBeGreaterThan(10);
    expect(shed.overload - before.overload).toBe(0);
    expect(shed.crowded).toBeGreaterThan(before.crowded);
  },
);
