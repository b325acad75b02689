/** What media sessions tell, on a whole gateway: every kind of call has quality samples, and a listener that throws ends its call alone. */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import type { MediaEvent } from '../../media/engine.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { endJoined, type HandPhone, joinTwo, HandPhone as Phone } from '../support/joined-call.js';
import { addTrunk, placeOutbound } from '../support/outbound.js';
import { toneCaller } from '../support/tone-caller.js';
import { triedSinceMs } from '../support/tries.js';
import { soon, webhookApp } from '../support/webhook-app.js';

let app: TestApp;
const servers: { close(): Promise<unknown> }[] = [];

beforeAll(async () => {
  app = await startTestApp({}, { t1: 100, t2: 400, t4: 500 });
});
afterEach(() => vi.restoreAllMocks());
afterAll(async () => {
  for (const each of servers) await each.close();
  await app.end();
});

const pause = [{ action: 'answer' }, { action: 'pause', seconds: 60 }];

async function application(answer: object | string) {
  const made = await webhookApp(app, { '/start': answer }, typeof answer === 'string' ? { format: 'twiml' } : {});
  servers.push(made.server);
  return made;
}

/** Answers an INVITE that comes. */
async function takeCall(phone: HandPhone): Promise<void> {
  phone.answer(await phone.sip.next('INVITE'));
  await phone.sip.next('ACK');
}

async function letGo(phone: HandPhone): Promise<void> {
  phone.sip.respond(await phone.sip.next('BYE'), 200);
}

interface ListedCall {
  id: string;
  to_number: string;
  status: string;
  created_at: string;
}

async function listed(): Promise<ListedCall[]> {
  return (await app.api<{ data: ListedCall[] }>('GET', '/v1/calls')).data;
}

describe('every kind of call', () => {
  it('has quality samples of its media', async () => {
    const sipPort = app.sip.addresses[0]?.port ?? 0;
    const [scripted, conference] = [
      await application(pause),
      await application('<Response><Dial><Conference>room</Conference></Dial></Response>'),
    ];
    const [callee, outPhone] = [await Phone.open(sipPort), await Phone.open(sipPort)];
    const dialling = await application(
      `<Response><Dial><Sip>sip:desk@127.0.0.1:${callee.sip.port}</Sip></Dial></Response>`,
    );
    await addTrunk(app, [`sip:127.0.0.1:${outPhone.sip.port}`]);
    const called = takeCall(callee);
    const callers = [
      await toneCaller(app, '+15550100', 500), // the echo agent
      await toneCaller(app, scripted.number, 500),
      await toneCaller(app, conference.number, 500),
      await toneCaller(app, conference.number, 1100),
      await toneCaller(app, dialling.number, 500),
    ];
    await called;
    const joined = await joinTwo(app);
    const numbers = await app.api<{ data: { id: string; number: string }[] }>('GET', '/v1/phone-numbers');
    const numberId = numbers.data.find((each) => each.number === scripted.number)?.id ?? '';
    placeOutbound(app, { to: '+12025550777', numberId, endpointId: scripted.endpointId });
    await takeCall(outPhone);
    await Promise.all([joined.caller, outPhone].map(({ rtp }) => rtp.talk(30, (i) => new Uint8Array(160).fill(i))));
    // A sample is taken every 5 s.
    const answeredMs = performance.now();
    await soon(() => expect(performance.now() - answeredMs).toBeGreaterThan(5500), 20_000);
    await callers[4]?.leave();
    await letGo(callee);
    for (const caller of callers.slice(0, 4)) await caller.leave();
    await endJoined(app, joined);
    await outPhone.hangUp();
    await soon(() => expect(app.live.count).toBe(0));
    for (const phone of [callee, outPhone, ...callers.map((caller) => caller.phone)]) await phone.close();

    const calls = (await listed()).filter((call) => Date.parse(call.created_at) >= triedSinceMs());
    expect(calls.length).toBe(8);
    const counts: Record<string, number> = {};
    for (const { id, to_number: to } of calls) {
      const { samples } = await app.api<{ samples: { codec?: string }[] }>('GET', `/v1/calls/${id}/quality`);
      expect(
        samples.every(({ codec }) => codec === 'PCMU'),
        to,
      ).toBe(true);
      counts[`${to} ${id}`] = samples.length;
    }
    // One while it ran, and one at its end.
    for (const [call, count] of Object.entries(counts)) expect(count, call).toBeGreaterThanOrEqual(2);
  }, 60_000);
});

describe('an exception in a listener', () => {
  /** All that listen to the sessions that open from now on. */
  function listeners(): ((event: MediaEvent) => void)[] {
    const all: ((event: MediaEvent) => void)[] = [];
    const open = app.media.open.bind(app.media);
    vi.spyOn(app.media, 'open').mockImplementation(async (options) => {
      const session = await open(options);
      const onEvent = session.onEvent.bind(session);
      session.onEvent = (listener) => {
        all.push(listener);
        return onEvent(listener);
      };
      return session;
    });
    return all;
  }

  /** No event at all: whatever reads it throws. */
  const nothing = null as unknown as MediaEvent;

  it('ends a call that a webhook steers, and is in its record', async () => {
    const { number } = await application(pause);
    const listening = listeners();
    const caller = await toneCaller(app, number, 500);
    await soon(() => expect(listening).toHaveLength(1));
    for (const listener of listening) expect(() => listener(nothing)).not.toThrow();
    await caller.untilLet();
    const record = await app.finishedCall(number);
    await caller.phone.close();
    expect(record).toMatchObject({ hangup_cause: 'unspecified', hangup_source: 'system' });
    expect(JSON.stringify(record.events)).toContain('A fault of ours');
  });

  it('ends a call with an agent behind SIP, whichever leg it is of', async () => {
    const listening = listeners();
    for (const which of [0, 1]) {
      listening.length = 0;
      const { caller, agent } = await joinTwo(app);
      // One of the caller, one of the agent.
      await soon(() => expect(listening).toHaveLength(2));
      expect(() => listening[which]?.(nothing)).not.toThrow();
      await Promise.all([letGo(caller), letGo(agent)]);
      await soon(() => expect(app.live.count).toBe(0));
      await Promise.all([caller.close(), agent.close()]);
    }
  });
});
