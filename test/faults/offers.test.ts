/**
 * Offers within a call that cross each other, or the BYE, on a whole gateway with a phone at both ends: each gets a final answer, is made again
 * as RFC 3261 14.1 says, and the call ends once. `FAULTS=long`: 0 to 200 ms in steps of one instead of 0 to 40.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { SipRequest } from '../../sip/server/message/message.js';
import { type FarCall, farSdp } from '../support/far-ends.js';
import { faultScene, sweep } from '../support/fault-scene.js';

const steps = process.env.FAULTS === 'long' ? 201 : 41;
const limitMs = 60_000 * (steps > 41 ? 10 : 1);
const number = '+12025557100';
const held = farSdp.replace('a=sendrecv', 'a=sendonly');
let endpointId = '';
let nextPair = 0;

const scene = faultScene({
  timersMs: { t1: 40, t2: 320, t4: 400 },
  limitMs: 20_000,
  prepare: async (app) => {
    ({ endpointId } = await app.connectNumber(number, 'sip:agent@127.0.0.1:9'));
  },
  before: async ({ app, ends }) => {
    await app.api('PATCH', `/v1/endpoints/${endpointId}`, { target: `sip:agent@127.0.0.1:${ends.port}` });
    ends.onInvite = (call, invite) => {
      ends.respond(invite, 200, call.localTag, farSdp);
      arrived.get(invite.get('x-pair') ?? '')?.(call, invite);
    };
  },
});

const arrived = new Map<string, (agent: FarCall, invite: SipRequest) => void>();

/** A caller and the agent it was joined with. */
async function pair(): Promise<{ id: string; caller: FarCall; agent: FarCall }> {
  const name = String(nextPair++);
  const comes = new Promise<[FarCall, SipRequest]>((resolve) => arrived.set(name, (...who) => resolve(who)));
  const caller = scene.ends.call(number, { lines: [`X-Pair: ${name}`] });
  expect(await caller.final()).toBe(200);
  const [agent, invite] = await comes;
  await agent.until(() => agent.confirmedAtMs, 'ACK', 20_000);
  return { id: invite.get('x-trunkline-call-id') ?? '', caller, agent };
}

/** A phone that offers anew as RFC 3261 14.1 says: 491 to whoever crosses it, and once more when it is told so itself. */
class Offerer {
  /** Of ours, but the last. */
  readonly refusals: number[] = [];
  /** How long the gateway waited after each 491 of ours. */
  readonly waitsMs: number[] = [];
  private isPending = false;
  private refusedAtMs: number | null = null;
  private readonly answers = new Map<number, number>();

  constructor(
    readonly call: FarCall,
    private readonly pauseMs: () => number,
  ) {
    call.habits.reInvite = (request) => {
      const cseq = request.cseq!.number;
      const known = this.answers.get(cseq); // a repeat
      if (known !== undefined) return known;
      if (this.refusedAtMs !== null) this.waitsMs.push(performance.now() - this.refusedAtMs);
      this.refusedAtMs = this.isPending ? performance.now() : null;
      const status = this.isPending ? 491 : 200;
      this.answers.set(cseq, status);
      return status;
    };
  }

  /** What was refused here has been offered again. */
  settled(): Promise<unknown> {
    return this.call.until(() => this.refusedAtMs === null || null, 'another offer', 20_000);
  }

  async offer(method: string, body = held): Promise<void> {
    for (;;) {
      const cseq = ++this.call.cseq;
      this.isPending = true;
      this.call.send(this.call.write(method, cseq, { body }));
      const status = await this.call.answerTo(method, cseq);
      this.isPending = false;
      if (status === 200) return;
      expect([491, 500]).toContain(status);
      this.refusals.push(status);
      await sleep(this.pauseMs());
    }
  }
}

/** 14.1: whoever chose the Call-ID waits longer. */
const ownerPauseMs = () => 2100 + Math.random() * 1900;
const otherPauseMs = () => Math.random() * 2000;

describe('glare', () => {
  it.each([
    ['caller', { least: 0, most: 2000 }],
    ['agent', { least: 2100, most: 4000 }],
  ] as const)(
    'of our re-INVITE and one, or an UPDATE, of the %s, in steps of one millisecond: 491 both ways, then both are taken (S6)',
    async (who, pause) => {
      const offerers: Offerer[] = [];
      const crossing = new Map<string, () => void>();
      scene.ends.drops = (m) => {
        if (m.kind === 'request' && m.method === 'INVITE' && m.toTag !== '') crossing.get(m.callId)?.();
        return false;
      };
      scene.ends.lagMs = 20;
      await sweep(steps, async (step) => {
        const { caller, agent } = await pair();
        const [here, there] = who === 'caller' ? [caller, agent] : [agent, caller];
        const offerer = new Offerer(here, who === 'caller' ? ownerPauseMs : otherPauseMs);
        const holder = new Offerer(there, who === 'caller' ? otherPauseMs : ownerPauseMs);
        offerers.push(offerer);
        const method = step % 2 ? 'UPDATE' : 'INVITE';
        // the first ones for certain while ours is on its way, whatever else the machine does
        const crosses = new Promise((resolve) =>
          crossing.set(here.callId, () => {
            crossing.delete(here.callId);
            if (step < 5) resolve(offerer.offer(method));
          }),
        );
        const holds = holder.offer('INVITE');
        await Promise.all([holds, step < 5 ? crosses : sleep(step).then(() => offerer.offer(method))]);
        await offerer.settled();
        expect(await caller.bye()).toBe(200);
        await agent.ended();
      });
      expect(offerers.filter((each) => each.refusals.includes(491)).length).toBeGreaterThanOrEqual(5);
      const waitsMs = offerers.flatMap((each) => each.waitsMs);
      expect(waitsMs.length).toBeGreaterThanOrEqual(5);
      // not sooner than the RFC says; a busy machine may be later
      expect(Math.min(...waitsMs)).toBeGreaterThan(pause.least - 5);
      expect(Math.max(...waitsMs)).toBeLessThan(pause.most + 8000);
    },
    limitMs,
  );
});

describe('BYE', () => {
  it.each(['caller', 'agent'] as const)(
    'of the %s against our re-INVITE, in steps of one millisecond: both are answered, the call is over',
    async (who) => {
      scene.ends.lagMs = 5;
      await sweep(steps, async (step) => {
        const { caller, agent } = await pair();
        const [here, there] = who === 'caller' ? [caller, agent] : [agent, caller];
        let hasLeft = false;
        here.habits.reInvite = () => (hasLeft ? 481 : 200);
        const cseq = ++there.cseq;
        there.send(there.write('INVITE', cseq, { body: held })); // which makes us offer to the other side
        await sleep(step);
        hasLeft = true;
        expect([200, 481]).toContain(await here.bye());
        await there.ended();
        expect([200, 481, 487]).toContain(await there.answerTo('INVITE', cseq));
      });
    },
    limitMs,
  );

  it(
    'of ours against a re-INVITE, or an UPDATE, of theirs',
    async () => {
      await sweep(steps, async (step) => {
        const { id, caller, agent } = await pair();
        const ours = sleep(20).then(() => scene.app.live.command(id, { kind: 'hangup' }));
        await sleep(step);
        const method = step % 2 ? 'UPDATE' : 'INVITE';
        const cseq = ++caller.cseq;
        caller.send(caller.write(method, cseq, { body: held }));
        expect([200, 481, 487, 491, 500]).toContain(await caller.answerTo(method, cseq));
        await ours;
        await Promise.all([caller.ended(), agent.ended()]);
      });
    },
    limitMs,
  );

  it(
    'of ours against a re-INVITE of ours',
    async () => {
      scene.ends.lagMs = 15;
      await sweep(steps, async (step) => {
        const { id, caller, agent } = await pair();
        agent.send(agent.write('INVITE', ++agent.cseq, { body: held }));
        await sleep(step);
        await scene.app.live.command(id, { kind: 'hangup' });
        await Promise.all([caller.ended(), agent.ended()]);
      });
    },
    limitMs,
  );
});
