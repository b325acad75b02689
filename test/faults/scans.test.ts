/** A scan from a thousand addresses, each of them slow enough to pass alone: a trunk's calls do not feel it. */
import { expect, it } from 'vitest';
import { DEFAULT_ADMISSION_LIMITS } from '../../sip/server/overload/admission.js';
import type { FarCall } from '../support/far-ends.js';
import { demo, faultScene } from '../support/fault-scene.js';
import { scan } from '../support/scan.js';

const { waitMs, foreseenWaitMs, mainWaitMs } = DEFAULT_ADMISSION_LIMITS;
const scene = faultScene({
  timersMs: { t1: 200, t2: 800, t4: 1000 },
  // what refuses calls for overload is as in earnest, but for the lag of a machine that runs other tests too
  start: { sipTrusted: ['127.0.0.1/32'], sipLimits: { waitMs, foreseenWaitMs, mainWaitMs } },
  prepare: async (app) => {
    const [loopback] = await app.store.trunks.allForSip();
    await app.api('PATCH', `/v1/trunks/${loopback?.id}`, { addresses: ['127.0.0.1/32'] });
  },
});

/** Sends like a carrier: again after T1 (500 ms), as long as no answer came. */
async function answerTo(call: FarCall, method: 'INVITE' | 'BYE', message: string): Promise<number> {
  const again = setInterval(() => call.send(message), 500);
  try {
    return await (method === 'INVITE' ? call.final() : call.answerTo(method, 2));
  } finally {
    clearInterval(again);
  }
}

interface Outcome {
  setUpMs: number[];
  statuses: Set<number>;
  refused: number;
  crowded: number;
  packetsPerSec: number;
  answers: number;
}

async function callsDuring(packetsPerSec: number): Promise<Outcome> {
  const { shed: before } = await scene.app.sip.serverStats();
  const crowd = scan({ port: scene.port, addresses: 1000, packetsPerSec, seconds: 20 });
  await crowd.begun;
  const setUpMs: number[] = [];
  const statuses = new Set<number>();
  try {
    for (const untilMs = performance.now() + 5000; performance.now() < untilMs; ) {
      const beganMs = performance.now();
      const call = scene.ends.call(demo);
      statuses.add(await answerTo(call, 'INVITE', scene.ends.invite(call)));
      setUpMs.push(performance.now() - beganMs);
      if (call.finalStatus !== 200) break;
      const bye = call.write('BYE', 2);
      call.send(bye);
      await answerTo(call, 'BYE', bye);
      call.over('us');
    }
  } finally {
    await crowd.stop();
  }
  const { sent, answers, seconds } = await crowd.stop();
  const { shed } = await scene.app.sip.serverStats();
  const [refused, crowded] = [shed.overload - before.overload, shed.crowded - before.crowded];
  return { setUpMs, statuses, refused, crowded, packetsPerSec: sent / seconds, answers };
}

it.each([2000, 20_000])(
  '%i packets a second from 1,000 addresses: every call of a trunk is set up within a second, none is refused',
  async (packetsPerSec) => {
    // a machine that is busy with something else may be late whatever we do: then once more
    let outcome = await callsDuring(packetsPerSec);
    for (let again = 0; again < 2 && Math.max(...outcome.setUpMs) > 1000; again++)
      outcome = await callsDuring(packetsPerSec);
    const shown = JSON.stringify({ ...outcome, statuses: [...outcome.statuses] });
    expect([...outcome.statuses], shown).toEqual([200]);
    expect(outcome.refused, shown).toBe(0);
    expect(Math.max(...outcome.setUpMs), shown).toBeLessThan(1000);
    expect(outcome.setUpMs.length, shown).toBeGreaterThan(5);
    // nearly all of it is dropped unread, and unanswered
    expect(outcome.crowded, shown).toBeGreaterThan(1000);
  },
);
