/** What takes minutes, with the timers of a real gateway; only with `FAULTS=long`. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { SipResponse } from '../../sip/server/message/message.js';
import { collectGarbage } from '../support/collect-garbage.js';
import { answered, demo, faultScene } from '../support/fault-scene.js';
import { oddMessages } from '../support/odd-messages.js';
import { SipPeer } from '../support/sip-peer.js';

describe.runIf(process.env.FAULTS === 'long')('5,000 callers', () => {
  const scene = faultScene({
    timersMs: { t1: 500, t2: 4000, t4: 5000 },
    environment: { TRUNKLINE_RTP_PORTS: '20000-32767' },
    // as it is by itself, not as for tests on a busy machine
    start: { sipLimits: { waitMs: 1000, foreseenWaitMs: 300, mainWaitMs: 150, lagMs: 1000 } },
    limitMs: 60_000,
  });

  it('that never acknowledge their 200: what is not refused ends with our BYE after 32 s, and nothing is left (S22)', async () => {
    const count = 5000;
    scene.hasRecord = (call) => (call.finalStatus === 503 ? null : true);
    const beganMs = performance.now();
    const calls = Array.from({ length: count }, () => scene.ends.call(demo, { acks: false }));
    for (const call of calls) await call.final(60_000);
    const answeredMs = performance.now();
    const stats = await scene.app.sip.serverStats();
    const answered = calls.filter((call) => call.finalStatus === 200);
    for (const call of answered) await call.ended(60_000);
    const refused = new Map<number, number>();
    for (const call of calls.filter((each) => each.finalStatus !== 200)) {
      refused.set(call.finalStatus!, (refused.get(call.finalStatus!) ?? 0) + 1);
      const refusal = call.received.find((m) => m instanceof SipResponse && m.status === 503);
      if (refusal) expect(Number(refusal.get('retry-after'))).toBeGreaterThan(0);
    }
    process.stdout.write(
      `${answered.length} of ${count} answered in ${Math.round((answeredMs - beganMs) / 1000)} s (others: ${JSON.stringify([...refused])}), ` +
        `${JSON.stringify(stats.live)}, all over after ${Math.round((performance.now() - beganMs) / 1000)} s\n`,
    );
    expect([...refused.keys()].filter((status) => status !== 503)).toEqual([]);
  }, 220_000);
});

describe.runIf(process.env.FAULTS === 'long')('120,000 malformed messages', () => {
  const scene = faultScene({ timersMs: { t1: 40, t2: 320, t4: 400 } });

  it('leave the memory as it was, and a call between them is answered (S14)', async () => {
    const peer = await SipPeer.open(scene.port);
    const rss: number[] = [];
    for (let wave = 0; wave < 60; wave++) {
      for (let chunk = 0; chunk < 20; chunk++) {
        for (const message of oddMessages(peer, 100, wave * 20 + chunk)) peer.send(message);
        await sleep(50);
      }
      peer.received.length = 0;
      for (const call of await answered(scene.ends, 1)) await call.bye();
      collectGarbage(); // what the test itself has written
      rss.push(Math.round(process.memoryUsage().rss / 2 ** 20));
    }
    await peer.close();
    process.stdout.write(`RSS after each 2,000: ${rss.join(' ')} MB\n`);
    // what 60,000 more add, where a kilobyte kept of each would be 60 MB: the collector of the SIP thread is lazy
    expect(Math.min(...rss.slice(50)) - Math.min(...rss.slice(20, 30))).toBeLessThan(60);
  }, 220_000);
});
