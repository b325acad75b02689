/** Races between both ends of a call, on a whole gateway, swept in steps of a millisecond: whoever wins, the record and the far end agree. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { type FarCall, farSdp, newBranch } from '../support/far-ends.js';
import { demo, faultScene, sweep } from '../support/fault-scene.js';

const scene = faultScene({
  timersMs: { t1: 40, t2: 320, t4: 400 },
  prepare: async (app) => {
    const organizationId = app.first?.organizationId ?? '';
    const rate = { microcentsPerMinute: 6_000_000, initialIncrementSec: 1, incrementSec: 1 };
    await app.store.accounts.setRates(organizationId, [{ direction: 'inbound', prefix: '', ...rate }]);
    await app.store.accounts.credit(organizationId, 100_000, 'for the test');
  },
});

async function answered(call: FarCall): Promise<FarCall> {
  const status = await call.final();
  if (status !== 200) {
    const { retransmissionsSent, shed } = await scene.app.sip.serverStats();
    const told = JSON.stringify([(await scene.recordOf(call))?.events, retransmissionsSent, shed]);
    throw new Error(`${call.callId} was answered ${status}: ${told}`);
  }
  return call;
}
/** The other side's BYE, or ours if it has none to send. */
async function finish(call: FarCall): Promise<void> {
  if (call.endedAtMs === null) expect([200, 481]).toContain(await call.bye());
}

describe('CANCEL', () => {
  it('0 to 200 ms after the INVITE, in steps of one: 487, or an answered call that BYE ends (S4)', async () => {
    const outcomes = new Map<number, number>();
    await sweep(201, async (step) => {
      const call = scene.ends.call(demo);
      await sleep(step);
      call.cancel();
      expect([200, 481]).toContain(await call.answerTo('CANCEL', 1));
      const status = await call.final();
      outcomes.set(status, (outcomes.get(status) ?? 0) + 1);
      expect([200, 487]).toContain(status);
      if (status === 200) await finish(call);
    });
    expect(outcomes.get(487), 'some CANCELs came in time').toBeGreaterThan(0);
    if (outcomes.has(200)) return;
    // so busy a machine answers none in 200 ms: then at the answer itself
    const late = await answered(scene.ends.call(demo));
    late.cancel();
    expect([200, 481]).toContain(await late.answerTo('CANCEL', 1));
    await finish(late);
  });

  it('in the same burst as the INVITE, and again and again (S4)', async () => {
    await sweep(20, async () => {
      const call = scene.ends.call(demo);
      for (let i = 0; i < 3; i++) call.cancel();
      expect(await call.answerTo('CANCEL', 1)).toBe(200);
      expect(await call.final()).toBe(487);
    });
  });
});

describe('BYE', () => {
  it('0 to 40 ms after the ACK, before it, and against a re-INVITE in both orders', async () => {
    await sweep(41, async (step) => {
      const call = await answered(scene.ends.call(demo));
      await sleep(step);
      const again = ++call.cseq;
      const reInvite = call.write('INVITE', again, { body: farSdp });
      const bye = ++call.cseq;
      const messages = [reInvite, call.write('BYE', bye)];
      for (const message of step % 2 ? messages : messages.reverse()) call.send(message);
      expect(await call.answerTo('BYE', bye)).toBe(200);
      call.over('us');
      expect([200, 481, 487, 500]).toContain(await call.answerTo('INVITE', again));
    });
  });

  it('instead of the ACK: the call ends, and was never answered', async () => {
    await sweep(20, async () => {
      const call = await answered(scene.ends.call(demo, { acks: false }));
      expect(await call.bye()).toBe(200);
    });
  });

  it('right behind the INVITE, in one burst (S9): 481, and the call is answered as if nothing was', async () => {
    await sweep(20, async () => {
      const call = scene.ends.call(demo);
      call.send(call.write('BYE', 2, { outside: true, branch: newBranch() }));
      expect(await call.answerTo('BYE', 2)).toBe(481);
      call.cseq = 2;
      await answered(call);
      await finish(call);
    });
  });

  it('of both sides within 20 ms (S3): each is answered, the record ends once', async () => {
    await sweep(41, async (step) => {
      const call = await answered(scene.ends.call(demo));
      const id = await idOf(call);
      const ours = sleep(Math.max(0, step - 20)).then(() => scene.app.live.command(id, { kind: 'hangup' }));
      await sleep(Math.max(0, 20 - step));
      expect([200, 481]).toContain(await call.bye());
      await ours;
    });
  });

  it('whose 200 was lost is answered alike again; the one after that finds nothing (S3)', async () => {
    const call = await answered(scene.ends.call(demo));
    const bye = call.write('BYE', 2);
    call.send(bye);
    await call.next(200, 'BYE');
    call.over('us');
    call.send(bye);
    await call.next(200, 'BYE');
    call.send(call.write('BYE', 3));
    expect(await call.answerTo('BYE', 3)).toBe(481);
  });

  it('of ours that nobody answers is repeated and given up: the record does not wait for ever (S3)', async () => {
    const call = await answered(scene.ends.call(demo, { answersBye: false }));
    await scene.app.live.command(await idOf(call), { kind: 'hangup' });
    await call.until(() => (call.byesReceived >= 3 ? true : null), 'three BYEs', 20_000);
  });
});

describe('lost on the way', () => {
  it('every ACK: 200 repeated for 64 T1, then BYE (S2)', async () => {
    await sweep(20, async () => {
      const call = await answered(scene.ends.call(demo, { acks: false }));
      await call.ended();
      expect(call.received.filter((m) => m.kind === 'response' && m.status === 200).length).toBeGreaterThan(3);
    });
    const causes = async () =>
      (await scene.app.store.records.list(scene.scope, {}, { limit: 20, offset: 0 })).data.map(
        ({ status, hangupCause }) => `${status} ${hangupCause}`,
      );
    await expect.poll(async () => new Set(await causes())).toEqual(new Set(['failed no_ack']));
  });

  it('the first two 200: the third is acknowledged, and the call is a call (S2)', async () => {
    const dropped = new Map<string, number>();
    scene.ends.drops = (m) => {
      if (m.kind !== 'response' || m.status !== 200 || m.cseq?.method !== 'INVITE') return false;
      dropped.set(m.callId, (dropped.get(m.callId) ?? 0) + 1);
      return dropped.get(m.callId)! <= 2;
    };
    await sweep(10, async () => {
      const call = await answered(scene.ends.call(demo));
      await finish(call);
    });
  });

  it('200 callers that vanish after the 200: each is hung up on (S22)', async () => {
    await sweep(
      200,
      async () => {
        const call = scene.ends.call(demo, { acks: false });
        await answered(call);
        await call.ended(30_000);
      },
      100,
    );
  });
});

describe('the same again', () => {
  it('an INVITE five times in one burst, and after the answer, is one call with one answer (S1)', async () => {
    await sweep(20, async () => {
      const call = scene.ends.call(demo);
      for (let i = 0; i < 4; i++) call.send(scene.ends.invite(call));
      await answered(call);
      call.send(scene.ends.invite(call));
      await finish(call);
      expect(
        new Set(call.received.filter((m) => m.kind === 'response' && m.status === 200).map((m) => m.toTag)).size,
      ).toBe(1);
    });
  });

  it('an INVITE by another way, with another branch, is 482, and the first goes on (S1)', async () => {
    await sweep(20, async () => {
      const call = scene.ends.call(demo);
      call.send(scene.ends.invite(call, newBranch()));
      await call.next(482, 'INVITE');
      await answered(call);
      await finish(call);
    });
  });
});

async function idOf(call: FarCall): Promise<string> {
  await expect.poll(async () => (await scene.recordOf(call))?.id).toBeTruthy();
  return (await scene.recordOf(call))!.id;
}
