/** What far ends do in and around dialogs, on a whole gateway: forks, loops, refusals, early media, session timers, requests out of place. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { SipRequest, SipResponse } from '../../sip/server/message/message.js';
import { type FarCall, FarEnds, farSdp } from '../support/far-ends.js';
import { demo, faultScene, sweep } from '../support/fault-scene.js';
import { addTrunk, placeOutbound } from '../support/outbound.js';

let wish: { numberId: string; endpointId: string };
let trunk: string;
let nextCallee = 0;

const scene = faultScene({
  timersMs: { t1: 40, t2: 320, t4: 400 },
  prepare: async (app) => {
    const { data } = await app.api<{ data: { id: string; endpoint_id: string }[] }>('GET', '/v1/phone-numbers');
    wish = { numberId: data[0]!.id, endpointId: data[0]!.endpoint_id };
  },
  before: async ({ app, ends }) => {
    trunk = await addTrunk(app, [`sip:127.0.0.1:${ends.port}`]);
  },
  finally: () => scene.app.api('DELETE', `/v1/trunks/${trunk}`),
});

function dial(change: { ringTimeoutMs?: number } = {}): { id: string; to: string } {
  const to = `+1202556${String(nextCallee++).padStart(4, '0')}`;
  return { id: placeOutbound(scene.app, { ...wish, to, ...change }), to };
}
/** The callee's part, told by the called number. */
function callees(answer: (call: FarCall, invite: SipRequest, to: string) => void): void {
  scene.ends.onInvite = (call, invite) => answer(call, invite, /sip:(\+\d+)@/.exec(invite.uri)?.[1] ?? '');
}
function hangUpWhenConfirmed(call: FarCall): void {
  void call
    .until(() => call.confirmedAtMs, 'ACK', 8000)
    .then(() => call.bye())
    .catch(() => undefined); // the invariants tell
}
function rowOf(id: string) {
  return scene.app.store.records.detail(scene.scope, id);
}
/** A number whose calls go to an agent behind SIP: to the far ends of this test. */
async function agentBehindSip(): Promise<string> {
  const number = `+1202557${String(nextCallee++).padStart(4, '0')}`;
  await scene.app.connectNumber(number, `sip:agent@127.0.0.1:${scene.ends.port}`);
  return number;
}
async function closed(id: string): Promise<void> {
  await expect.poll(async () => (await rowOf(id))?.status, { timeout: 10_000 }).not.toBe('in_progress');
}

describe('we call', () => {
  it('and give up as they answer, 0 to 40 ms around it: CANCEL and 487, or ACK and BYE at once (S5)', async () => {
    scene.records = 41;
    const outcomes: string[] = [];
    callees(async (call, invite, to) => {
      scene.ends.respond(invite, 180, call.localTag);
      const { id, step } = ids.get(to)!;
      void sleep(step).then(() => scene.app.live.command(id, { kind: 'hangup' }));
      // The first ones for certain before the answer, whatever else the machine does.
      const cancelComes = call.next('CANCEL').catch(() => undefined);
      await (step < 5 ? cancelComes : Promise.race([sleep(20), cancelComes]));
      const cancelled = call.finalStatus !== null;
      if (!cancelled) scene.ends.respond(invite, 200, call.localTag, farSdp);
      const cancel = (await call.next('CANCEL', undefined, 500).catch(() => null)) as SipRequest | null;
      if (cancel) scene.ends.respond(cancel, 200, call.localTag);
      outcomes.push(cancel ? 'crossed' : 'answered');
    });
    const ids = new Map<string, { id: string; step: number }>();
    await sweep(41, async (step) => {
      const { id, to } = dial();
      ids.set(to, { id, step });
      await closed(id);
    });
    await expect.poll(() => outcomes.length, { timeout: 5000 }).toBe(41);
    expect(outcomes).toContain('crossed');
    expect(outcomes).toContain('answered');
  });

  it('and two answer: one is kept, the other gets ACK and BYE (S10)', async () => {
    scene.records = 10;
    const second = new Map<string, string[]>();
    scene.ends.drops = (m) => {
      if (m.kind !== 'request' || !m.toTag.startsWith('fork')) return false;
      second.set(m.callId, [...(second.get(m.callId) ?? []), m.method]);
      if (m.method === 'BYE') scene.ends.respond(m, 200, m.toTag);
      return true;
    };
    callees((call, invite) => {
      scene.ends.respond(invite, 200, call.localTag, farSdp);
      scene.ends.respond(invite, 200, `fork${call.localTag}`, farSdp);
      hangUpWhenConfirmed(call);
    });
    await sweep(10, async () => closed(dial().id));
    // the first one's call may be over before the second heard the last word
    const heard = () => [...second.values()].map((methods) => [...new Set(methods)].join());
    await expect.poll(heard, { timeout: 10_000 }).toEqual(Array(10).fill('ACK,BYE'));
  });

  it('and hear 183 twenty times, and then 486: no answer, no money, no time (S11)', async () => {
    scene.records = 5;
    callees((call, invite) => {
      for (let i = 0; i < 20; i++) scene.ends.respond(invite, i % 2 ? 180 : 183, call.localTag, farSdp);
      scene.ends.respond(invite, 486, call.localTag);
    });
    const ids: string[] = [];
    await sweep(5, async () => {
      const { id } = dial();
      ids.push(id);
      await closed(id);
    });
    for (const id of ids) expect(await rowOf(id)).toMatchObject({ status: 'busy', durationSec: 0, answeredAt: null });
  });

  it('and are sent on from one to the next, or asked for a password again and again: bounded, then failed (S12)', async () => {
    scene.records = 4;
    const invites = new Map<string, number>();
    const asked = new Map<string, number>();
    callees((call, invite, to) => {
      const n = (invites.get(to) ?? 0) + 1;
      invites.set(to, n);
      const challenge = `WWW-Authenticate: Digest realm="r", nonce="${n}", stale=true, algorithm=MD5, qop="auth"`;
      const odd = asked.get(to)! % 2 === 1;
      if (odd) scene.ends.respond(invite, 401, call.localTag, '', [challenge]);
      else
        scene.ends.respond(invite, 302, call.localTag, '', [`Contact: <sip:+1999${n}@127.0.0.1:${scene.ends.port}>`]);
    });
    await sweep(4, async (i) => {
      const { id, to } = dial();
      asked.set(to, i);
      await closed(id);
      expect((await rowOf(id))?.status).toBe('failed');
    });
    for (const count of invites.values()) expect(count).toBeLessThanOrEqual(5);
  });

  it('first refuses connections and later accepts them: the next gateway takes the call (S13)', async () => {
    scene.records = 2;
    const dead = await FarEnds.open(scene.port);
    const deadPort = dead.port;
    await dead.close();
    const refusing = await FarEnds.open(scene.port);
    refusing.onInvite = (call, invite) => refusing.respond(invite, 503, call.localTag, '', ['Retry-After: 30']);
    await scene.app.api('DELETE', `/v1/trunks/${trunk}`);
    trunk = await addTrunk(
      scene.app,
      [deadPort, refusing.port, scene.ends.port].map((each) => `sip:127.0.0.1:${each}`),
    );
    callees((call, invite) => {
      scene.ends.respond(invite, 200, call.localTag, farSdp);
      hangUpWhenConfirmed(call);
    });
    await sweep(2, async () => {
      const { id } = dial({ ringTimeoutMs: 20_000 });
      await closed(id);
      expect(await rowOf(id)).toMatchObject({ status: 'completed' });
    });
    await refusing.close();
  });

  it('ourselves, by way of a carrier that sends it back: 482, and one failed call (S1, spiral)', async () => {
    scene.records = 3;
    callees((_call, invite) => {
      // a proxy: its own Via on top, one hop less
      const text = invite.raw.toString('latin1');
      const at = text.indexOf('\r\n') + 2;
      const via = `Via: SIP/2.0/UDP 127.0.0.1:${scene.ends.port};branch=z9hG4bKproxy${invite.topVia?.branch.slice(7)}\r\n`;
      scene.ends.send(`${text.slice(0, at)}${via}${text.slice(at)}`);
    });
    scene.ends.drops = (m) => {
      if (m.kind !== 'response' || m.list('via').length < 2) return false;
      const [, ...vias] = m.list('via'); // what comes back goes on to who called
      const rest = m.headers.filter((h) => h.name !== 'via').map((h) => `${h.name}: ${h.value}`);
      scene.ends.send([m.startLine, ...vias.map((v) => `Via: ${v}`), ...rest, '', ''].join('\r\n'));
      return true;
    };
    await sweep(3, async () => {
      const { id } = dial();
      await closed(id);
      expect((await rowOf(id))?.status).toBe('failed');
    });
  });
});

describe('they call', () => {
  it('and their session timer is too short: 422 with Min-SE, and the call comes with a longer one (S8)', async () => {
    await sweep(5, async () => {
      const short = scene.ends.call(demo, { lines: ['Supported: timer', 'Session-Expires: 30'] });
      const refusal = await short.next(422);
      expect(refusal.get('min-se')).toBe('90');
      const long = scene.ends.call(demo, {
        lines: ['Supported: timer', 'Session-Expires: 90;refresher=uac', 'Min-SE: 90'],
      });
      expect(await long.final()).toBe(200);
      const answer = await long.next(200);
      expect(answer.get('session-expires')).toBe('90;refresher=uac');
      await long.bye();
    });
  });

  it('hold, move and take back, offer nothing, and change codecs: each is answered (S7)', async () => {
    await sweep(5, async () => {
      const call = scene.ends.call(demo);
      expect(await call.final()).toBe(200);
      const changes = ['a=sendonly', 'a=inactive', 'a=sendrecv'].map((way) => farSdp.replace('a=sendrecv', way));
      changes.push(farSdp.replace('IP4 127.0.0.1\r\nt', 'IP4 0.0.0.0\r\nt'), farSdp.replace('audio 9 ', 'audio 19 '));
      for (const body of changes) {
        const cseq = ++call.cseq;
        call.send(call.write('INVITE', cseq, { body }));
        expect(await call.answerTo('INVITE', cseq, 1500)).toBe(200);
      }
      const update = ++call.cseq;
      call.send(call.write('UPDATE', update, { body: farSdp }));
      expect(await call.answerTo('UPDATE', update)).toBe(200);
      await call.bye();
    });
  });

  it('re-INVITE over a re-INVITE: 500 with Retry-After or served in turn, and the call goes on (S6)', async () => {
    await sweep(21, async (step) => {
      const call = scene.ends.call(demo);
      expect(await call.final()).toBe(200);
      const [first, second] = [++call.cseq, ++call.cseq];
      call.send(call.write('INVITE', first, { body: farSdp }));
      if (step > 0) await sleep(step / 2);
      call.send(call.write('INVITE', second, { body: farSdp }));
      expect(await call.answerTo('INVITE', first)).toBe(200);
      expect([200, 500]).toContain(await call.answerTo('INVITE', second));
      expect(await call.bye()).toBe(200);
    });
  });

  it('with CSeq running backwards, wrong tags, dialogs nobody knows: 500 and 481 (S9)', async () => {
    const call = scene.ends.call(demo);
    expect(await call.final()).toBe(200);
    call.send(call.write('INFO', 9));
    await call.answerTo('INFO', 9);
    call.send(call.write('OPTIONS', 8));
    expect(await call.answerTo('OPTIONS', 8)).toBe(500);
    for (const method of ['BYE', 'INFO', 'UPDATE', 'INVITE', 'NOTIFY', 'PRACK', 'REFER', 'MESSAGE'] as const) {
      const cseq = 20 + call.received.length + method.length * 100;
      call.send(call.write(method, cseq, { toTag: 'nobody', body: method === 'INVITE' ? farSdp : '' }));
      expect(await call.answerTo(method, cseq), method).toBe(481);
    }
    call.cseq = 5000;
    expect(await call.bye()).toBe(200);
  });

  it('and send REFER, NOTIFY and INFO after the BYE, and what needs no call without one (S21)', async () => {
    const call = scene.ends.call(demo);
    expect(await call.final()).toBe(200);
    for (let digit = 0; digit < 200; digit++) call.send(call.write('INFO', ++call.cseq));
    await call.answerTo('INFO', call.cseq);
    await call.bye();
    for (const method of ['REFER', 'NOTIFY', 'INFO', 'UPDATE', 'INVITE', 'BYE']) {
      const cseq = ++call.cseq;
      call.send(call.write(method, cseq, { lines: ['Refer-To: <sip:+15559@h>', 'Event: refer'] }));
      expect(await call.answerTo(method, cseq), method).toBe(481);
    }
    const refusals: Record<string, number> = { MESSAGE: 405, SUBSCRIBE: 489, PUBLISH: 489, REFER: 405, NOTIFY: 489 };
    for (const [method, status] of Object.entries(refusals)) {
      const cseq = ++call.cseq;
      call.send(call.write(method, cseq, { outside: true, lines: ['Event: presence', 'Refer-To: <sip:+15559@h>'] }));
      expect(await call.answerTo(method, cseq), method).toBe(status);
    }
  });

  it('and demand reliable answers: PRACKed, in order, and then the call is answered (S11)', async () => {
    await sweep(10, async () => {
      const call = scene.ends.call(demo, { lines: ['Require: 100rel', 'Supported: 100rel'] });
      const ringing = (await call.next(180)) as SipResponse;
      call.remoteTag = ringing.toTag;
      const wrong = ++call.cseq;
      call.send(call.write('PRACK', wrong, { lines: ['RAck: 1 1 INVITE'] }));
      expect(await call.answerTo('PRACK', wrong)).toBe(481);
      const cseq = ++call.cseq;
      call.send(call.write('PRACK', cseq, { lines: [`RAck: ${ringing.get('rseq')} 1 INVITE`] }));
      expect(await call.answerTo('PRACK', cseq)).toBe(200);
      expect(await call.final()).toBe(200);
      await call.bye();
    });
  });
});

describe('before the answer', () => {
  it('nobody acknowledges our reliable ringing: 504, and the call was never answered (S11)', async () => {
    const calls = Array.from({ length: 5 }, () =>
      scene.ends.call(demo, { lines: ['Require: 100rel', 'Supported: 100rel'] }),
    );
    for (const call of calls) {
      expect(await call.final()).toBe(504);
      expect(call.received.filter((m) => m.kind === 'response' && m.status === 180).length).toBeGreaterThan(3);
    }
    for (const call of calls)
      await expect
        .poll(() => scene.recordOf(call), { timeout: 10_000 })
        .toMatchObject({ status: 'failed', hangupCause: 'no_ack', answeredAt: null });
  });

  it('UPDATE of a caller whose offer is unanswered: 500 with Retry-After, and the call is answered all the same (S11)', async () => {
    const number = await agentBehindSip();
    callees(async (call, invite) => {
      scene.ends.respond(invite, 180, call.localTag);
      await sleep(300); // real time: it rings so long, and the UPDATE comes meanwhile
      scene.ends.respond(invite, 200, call.localTag, farSdp);
    });
    await sweep(5, async () => {
      const call = scene.ends.call(number);
      call.remoteTag = ((await call.next(180)) as SipResponse).toTag;
      const cseq = ++call.cseq;
      call.send(call.write('UPDATE', cseq, { body: farSdp }));
      expect(await call.answerTo('UPDATE', cseq)).toBe(500);
      expect(await call.final()).toBe(200);
      expect(await call.bye()).toBe(200);
    });
  });

  it('UPDATE of the callee, with and without an offer, between 180 and 200 (S11)', async () => {
    const number = await agentBehindSip();
    const answers: number[] = [];
    callees(async (call, invite) => {
      scene.ends.respond(invite, 183, call.localTag, farSdp);
      for (const body of ['', farSdp]) {
        const cseq = ++call.cseq;
        call.send(call.write('UPDATE', cseq, { body }));
        answers.push(await call.answerTo('UPDATE', cseq));
      }
      scene.ends.respond(invite, 200, call.localTag, farSdp);
    });
    await sweep(5, async () => {
      const call = scene.ends.call(number);
      expect(await call.final()).toBe(200);
      expect(await call.bye()).toBe(200);
    });
    expect(answers).toHaveLength(10);
    for (const status of answers) expect([200, 500]).toContain(status);
  });

  it('no offer at all: ours is in the 200, the answer in the ACK; so it goes within the call, and without an answer there is none (S7)', async () => {
    await sweep(10, async () => {
      const call = scene.ends.call(demo, { sdp: '' });
      expect(await call.final()).toBe(200);
      expect((await call.next(200)).body.toString()).toContain('m=audio');
      const cseq = ++call.cseq;
      call.send(call.write('INVITE', cseq));
      expect(await call.answerTo('INVITE', cseq)).toBe(200);
      await call.bye();
    });
    const silent = scene.ends.call(demo, { sdp: '', acks: false });
    expect(await silent.final()).toBe(200);
    silent.send(silent.write('ACK', 1)); // and no answer in it
    await silent.ended();
  });
});

describe('session timers (S8)', () => {
  const agreed = (what: string) => [`Session-Expires: ${what}`, 'Require: timer'];
  const refreshes = (call: FarCall) =>
    call.received
      .filter((m) => m.kind === 'request' && m.method === 'INVITE' && m.toTag !== '')
      .map((m) => m.get('session-expires'));

  it('we refresh at half the interval, longer when 422 asks for that, and end the call when it is not known any more', async () => {
    const ends: FarCall[] = [];
    callees((call, invite) => {
      ends.push(call);
      const answers = new Map<number, number>();
      call.habits.reInvite = ({ cseq }) => {
        const known = answers.get(cseq!.number) ?? [422, 200, 481][answers.size] ?? 481;
        answers.set(cseq!.number, known);
        call.habits.reInviteLines = known === 422 ? ['Min-SE: 5'] : agreed('5;refresher=uac');
        return known;
      };
      scene.ends.respond(invite, 200, call.localTag, farSdp, agreed('3;refresher=uac'));
    });
    const ids: string[] = [];
    await sweep(5, async () => {
      const { id } = dial();
      ids.push(id);
      await closed(id);
    });
    for (const call of ends) {
      await call.ended();
      expect([...new Set(refreshes(call))]).toEqual(['3;refresher=uac', '5;refresher=uac']);
    }
    for (const id of ids) expect(await rowOf(id)).toMatchObject({ status: 'completed', hangupCause: 'timeout' });
  });

  it('they are to refresh and never do: BYE of ours shortly before the session is over', async () => {
    callees((call, invite) => scene.ends.respond(invite, 200, call.localTag, farSdp, agreed('3;refresher=uas')));
    await sweep(5, async () => {
      const { id } = dial();
      await closed(id);
      expect(await rowOf(id)).toMatchObject({ status: 'completed', hangupCause: 'timeout' });
    });
  });

  it.runIf(process.env.FAULTS === 'long')(
    'of those who call us, 90 s: we refresh after 45, or hang up after 60',
    async () => {
      const timer = (refresher: string) => ({
        lines: ['Supported: timer', `Session-Expires: 90;refresher=${refresher}`],
      });
      const ours = scene.ends.call(demo, timer('uas'));
      const theirs = scene.ends.call(demo, timer('uac'));
      for (const call of [ours, theirs]) expect(await call.final()).toBe(200);
      expect((await ours.next('INVITE', undefined, 60_000)).get('session-expires')).toBe('90;refresher=uac');
      await theirs.ended(30_000);
      const lastedMs = theirs.endedAtMs! - theirs.confirmedAtMs!;
      expect(lastedMs).toBeGreaterThan(59_000);
      await ours.bye();
    },
    120_000,
  );
});
