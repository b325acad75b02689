/** One conference over several nodes on one PostgreSQL database: its audio by content, its rights, and what becomes of it when its node goes. */
import { randomBytes, randomUUID } from 'node:crypto';
import twilio from 'twilio';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { readWav } from '../../media/audio/wav.js';
import { NodePasses } from '../../sip/auth/node-pass.js';
import { type CallRecord, startTestApp, type TestApp } from '../support/app.js';
import { HandPhone } from '../support/joined-call.js';
import { databaseOf } from '../support/open-store.js';
import { asSetting, gatewayPorts } from '../support/port-ranges.js';
import { PostgresRelay } from '../support/postgres-relay.js';
import { amplitude, toneCaller, tonesHz } from '../support/tone-caller.js';
import { probeTone } from '../support/tone-probe.js';
import { type Answer, soon, type WebhookApp, webhookApp } from '../support/webhook-app.js';

type Caller = Awaited<ReturnType<typeof toneCaller>>;

const timersMs = { t1: 100, t2: 400, t4: 500 };
const limit = { timeout: 30_000 };
const nodes: TestApp[] = [];
/** Between each node and the database. */
const relays: PostgresRelay[] = [];
const callers: Caller[] = [];
/** Nodes that a test has stopped. */
const stopped = new Set<TestApp>();
const servers: WebhookApp[] = [];

beforeAll(async () => {
  const url = await databaseOf(randomBytes(8).toString('hex'));
  for (const name of ['one', 'two', 'three']) {
    const relay = await PostgresRelay.to(Number(new URL(url).port));
    relays.push(relay);
    // none shall take a port that another one has, and let it rest
    const from = gatewayPorts.from + nodes.length * 200;
    const environment = {
      ...{ TRUNKLINE_DATABASE_URL: relay.url(url), TRUNKLINE_NODE_NAME: name },
      TRUNKLINE_RTP_PORTS: asSetting({ from, to: from + 199 }),
    };
    nodes.push(await startTestApp({ ...environment, TRUNKLINE_ALLOW_PRIVATE_TARGETS: 'true' }, timersMs));
  }
}, 60_000);
afterEach(async () => {
  for (const each of callers.splice(0).reverse()) await each.close();
  for (const each of nodes) await soon(() => expect(each.live.count).toBe(0));
  await expect.poll(rows, limit).toEqual([]);
});
afterAll(async () => {
  for (const each of [...nodes].reverse()) if (!stopped.has(each)) await each.end();
  for (const { server } of servers) await server.close();
  for (const relay of relays) await relay.close();
});

const node = (index: number): TestApp => nodes[index] as TestApp;
const rows = () => node(2).store.conferenceOwners?.otherOwners({ organizationId: organization(), mode: 'live' });
const organization = () => node(0).first?.organizationId ?? '';
const xml = (name: string, attributes = '', dial = '') =>
  `<Response><Dial ${dial}><Conference beep="false" ${attributes}>${name}</Conference></Dial></Response>`;

async function application(answers: { [path: string]: Answer }, more: object = {}): Promise<WebhookApp> {
  const made = await webhookApp(node(0), answers, undefined, more);
  servers.push(made);
  for (const each of nodes)
    await expect.poll(() => each.store.phoneNumbers.findDialled(made.number, 'live'), limit).toBeTruthy();
  return made;
}

async function caller(at: number, number: string, frequencyHz: number): Promise<Caller> {
  const made = await toneCaller(node(at), number, frequencyHz);
  callers.push(made);
  return made;
}

function clientOf(at: number) {
  const client = twilio(`AC${organization().replaceAll('-', '')}`, node(at).key);
  client.api.baseUrl = node(at).httpUrl;
  return client;
}

/** Of the newest call that has entered a conference twice. */
async function eventsOfLast(at: number) {
  const { data } = await node(at).api<{ data: CallRecord[] }>('GET', '/v1/calls?limit=5');
  const told = await Promise.all(data.map(({ id }) => node(at).api<CallRecord>('GET', `/v1/calls/${id}`)));
  const again = told.find(({ events }) => events.some(({ event_data: about }) => about.rejoined === true));
  return again?.events ?? [];
}

const eventsOf = async (number: string, at: number) =>
  (await node(at).finishedCall(number, 20_000)).events.filter(({ event_type: type }) => type.startsWith('conference.'));

/** Of 50 ms, every 25 ms. */
const pieces = (channel: Int16Array) =>
  Array.from({ length: Math.max(0, Math.floor(channel.length / 200) - 1) }, (_, i) =>
    channel.subarray(i * 200, i * 200 + 400),
  );

async function recordingOf(at: number, number: string): Promise<ArrayBuffer> {
  const { id } = await node(at).finishedCall(number, 20_000);
  const read = () => node(at).api<{ recording_url: string | null }>('GET', `/v1/calls/${id}`);
  await expect.poll(async () => (await read()).recording_url, limit).toBeTruthy();
  return (await fetch((await read()).recording_url as string)).arrayBuffer();
}

it('callers of two nodes hear each other, and any node lists, mutes, holds and removes them', async () => {
  const steps = 'start end join leave mute hold';
  const attributes = `statusCallback="/steps" statusCallbackEvent="${steps}" record="record-from-start" recordingStatusCallback="/recorded"`;
  const [mine, other] = [
    await application({ '/start': xml('Daily', attributes) }),
    await application({ '/start': xml('Daily', '', 'action="/after"'), '/after': '<Response><Hangup/></Response>' }),
  ];
  const a = await caller(0, mine.number, tonesHz[0]);
  await a.untilHearsTone(440, 'our quiet tone', 0.1);
  const b = await caller(1, other.number, tonesHz[1]);
  await Promise.all([a.untilHears([0, 1, 0], 'b at a'), b.untilHears([1, 0, 0], 'a at b')]);
  const c = await caller(1, mine.number, tonesHz[2]);
  await Promise.all([
    a.untilHears([0, 1, 1], 'the others at a'),
    b.untilHears([1, 0, 1], 'the others at b'),
    c.untilHears([1, 1, 0], 'the others at c'),
  ]);
  for (const at of [0, 1, 2]) {
    const client = clientOf(at);
    const [daily] = await client.conferences.list();
    expect(daily).toMatchObject({ friendlyName: 'Daily', status: 'in-progress' });
    const participants = await client.conferences(daily!.sid).participants.list();
    expect(participants.map(({ muted, hold }) => [muted, hold])).toEqual(Array(3).fill([false, false]));
  }
  const [daily] = await clientOf(2).conferences.list();
  const ofB = () =>
    clientOf(2)
      .conferences(daily!.sid)
      .participants(other.form('/start').CallSid as string);
  expect(await ofB().update({ muted: true })).toMatchObject({ muted: true });
  await a.untilHears([0, 0, 1], 'not b, who is muted, at a');
  await ofB().update({ muted: false, hold: true });
  await b.untilHearsTone(440, 'the music of a participant on hold', 0.1);
  await ofB().update({ hold: false });
  await Promise.all([a.untilHears([0, 1, 1], 'b again at a'), b.untilHears([1, 0, 1], 'the others again at b')]);
  await ofB().remove();
  await b.untilLet();
  await a.untilHears([0, 0, 1], 'not b, who was removed, at a');
  await c.leave();
  await a.leave();
  await soon(() => expect(mine.forms('/steps').at(-1)?.StatusCallbackEvent).toBe('conference-end'));
  expect(mine.forms('/steps').map((form) => form.StatusCallbackEvent)).toEqual([
    ...['participant-join', 'participant-join', 'conference-start', 'participant-join'],
    ...['participant-mute', 'participant-unmute', 'participant-hold', 'participant-unhold'],
    ...['participant-leave', 'participant-leave', 'participant-leave', 'conference-end'],
  ]);
  expect(mine.forms('/steps').map((form) => Number(form.SequenceNumber))).toEqual(
    Array.from({ length: 12 }, (_, i) => i + 1),
  );
  expect(
    (await eventsOf(other.number, 2)).map(({ event_type: type, event_data: data }) => [type, data.reason]),
  ).toEqual([
    ['conference.joined', undefined],
    ['conference.started', undefined],
    ...Array(4).fill(['conference.updated', undefined]),
    ['conference.left', 'kicked'],
  ]);
  await soon(() => expect(other.form('/after')).toMatchObject({ DialCallStatus: 'answered' }));
  await soon(() => expect(mine.forms('/recorded')).toHaveLength(1));
  const bytes = await (await fetch(mine.form('/recorded').RecordingUrl as string)).arrayBuffer();
  const [mono = new Int16Array()] = readWav(new Uint8Array(bytes)).channels;
  const hasAll = () => {
    for (let at = 0; at + 1600 <= mono.length; at += 400)
      if (tonesHz.every((hz) => probeTone(mono.subarray(at, at + 1600), hz).amplitude / amplitude > 0.8)) return true;
    return false;
  };
  expect(hasAll()).toBe(true);
}, 90_000);

it('what is said or typed in a passage of one call is in no recording, at whichever node', async () => {
  const stored = (answer: string) => application({ '/start': answer }, { record: true });
  const first = await stored(xml('Bank', 'record="record-from-start" recordingStatusCallback="/recorded"'));
  const [second, third] = [await stored(xml('Bank')), await stored(xml('Bank'))];
  const a = await caller(0, first.number, tonesHz[0]);
  await a.untilHearsTone(440, 'our quiet tone', 0.1);
  const b = await caller(1, second.number, tonesHz[1]);
  const c = await caller(2, third.number, tonesHz[2]);
  await Promise.all([a.untilHears([0, 1, 1], 'the others at a'), c.untilHears([1, 1, 0], 'the others at c')]);
  const idOf = (made: WebhookApp) => String(made.form('/start').CallSid);
  const secretHz = 1500;
  const plainHz = 700;
  const saysUntilHeard = async (who: Caller, hz: number, ms: number, heardBy: Caller) => {
    who.say(hz, ms);
    await heardBy.untilHearsTone(hz, `${hz} Hz`, 0.8);
    await heardBy.phone.rtp.until(() => heardBy.level(hz, 4) < 0.1, `the end of ${hz} Hz`, 10_000);
  };
  const saysSecret = async (who: Caller, at: number, made: WebhookApp, heardBy: Caller) => {
    const { data } = await node(at).api<{ data: { id: string; to_number: string }[] }>('GET', '/v1/calls');
    const id = data.find((call) => call.to_number === made.number)?.id;
    expect(idOf(made)).toContain(id?.replaceAll('-', ''));
    await node(at).api('POST', `/v1/calls/${id}/redact`, { on: true });
    await saysUntilHeard(who, secretHz, 1000, heardBy);
    await node(at).api('POST', `/v1/calls/${id}/redact`, { on: false });
  };
  await saysSecret(b, 1, second, a); // at a guest's node
  await saysSecret(a, 0, first, c); // at the owner's
  await saysUntilHeard(a, plainHz, 2000, b);
  for (const each of [c, b, a]) await each.leave();
  await soon(() => expect(first.forms('/recorded')).toHaveLength(1));
  const files = [
    await (await fetch(first.form('/recorded').RecordingUrl as string)).arrayBuffer(),
    ...(await Promise.all([first, second, third].map(({ number }, at) => recordingOf(at, number)))),
  ];
  for (const bytes of files) {
    const channels = readWav(new Uint8Array(bytes)).channels;
    const loudest = (hz: number) =>
      Math.max(...channels.flatMap((channel) => pieces(channel).map((piece) => probeTone(piece, hz).amplitude)));
    expect(loudest(secretHz) / amplitude).toBeLessThan(0.1);
    expect(loudest(plainHz) / amplitude).toBeGreaterThan(0.8); // recorded again
  }
  for (const { number } of [first, second, third]) {
    const events = (await node(0).finishedCall(number, 20_000)).events.filter((each) =>
      each.event_type.startsWith('redaction.'),
    );
    expect(events.map((each) => each.event_data.source ?? each.event_data.reason)).toEqual(
      {
        [second.number]: ['api', 'stopped', 'bridge', 'stopped'],
        [first.number]: ['bridge', 'stopped', 'api', 'stopped'],
      }[number] ?? ['bridge', 'stopped', 'bridge', 'stopped'],
    );
  }
}, 90_000);

it('the limit of participants, the start and the end hold for all nodes together', async () => {
  const guest = await application({
    '/start': xml('Board', 'startConferenceOnEnter="false" maxParticipants="3"', 'action="/after"'),
    '/after': '<Response><Hangup/></Response>',
  });
  const chair = await application({
    '/start': xml('Board', 'endConferenceOnExit="true" maxParticipants="3"', 'hangupOnStar="true" action="/after"'),
    '/after': '<Response><Hangup/></Response>',
  });
  const [a, b] = [await caller(0, guest.number, tonesHz[0]), await caller(1, guest.number, tonesHz[1])];
  await Promise.all([a, b].map((each) => each.untilHearsTone(440, 'the music before the start', 0.1)));
  const c = await caller(2, chair.number, tonesHz[2]);
  await Promise.all([a.untilHears([0, 1, 1], 'all at a'), b.untilHears([1, 0, 1], 'all at b')]);
  const tooMany = await caller(1, guest.number, 700);
  await tooMany.untilLet();
  await soon(() => expect(guest.form('/after')).toMatchObject({ DialCallStatus: 'failed' }));
  c.press(10);
  await Promise.all([a.untilLet(), b.untilLet(), c.untilLet()]);
  await soon(() => expect(chair.form('/after')).toMatchObject({ DialCallStatus: 'answered' }));
}, 60_000);

it('of nodes that create a conference at the same moment one has it', async () => {
  const mine = await application({ '/start': xml('Race') });
  for (let round = 0; round < 3; round++) {
    const [a, b, c] = await Promise.all(tonesHz.map((hz, at) => caller(at, mine.number, hz)));
    await Promise.all([
      a!.untilHears([0, 1, 1], 'the others at a'),
      b!.untilHears([1, 0, 1], 'the others at b'),
      c!.untilHears([1, 1, 0], 'the others at c'),
    ]);
    expect(await clientOf(round).conferences.list()).toHaveLength(1);
    await Promise.all([a!.leave(), b!.leave(), c!.leave()]);
  }
}, 60_000);

it('an INVITE that does not come from a node of the installation enters no conference', async () => {
  const phone = await HandPhone.open(node(0).sip.addresses[0]?.port ?? 0);
  try {
    const forged = new NodePasses(randomBytes(32)).issue('conference', randomUUID(), 'x');
    const before = node(0).sip.counters().refused.blocked_source ?? 0;
    phone.invite('conference', {}, [`X-Trunkline-Node: ${forged}`]);
    expect((await phone.sip.next(403)).status).toBe(403);
    expect(node(0).sip.counters().refused.blocked_source).toBe(before + 1);
  } finally {
    await phone.close();
  }
});

it('sound from another node is late by little', async () => {
  const mine = await application({ '/start': xml('Late') });
  const speaker = await caller(0, mine.number, tonesHz[0]);
  const near = await caller(0, mine.number, tonesHz[1]);
  const far = await caller(1, mine.number, tonesHz[2]);
  await Promise.all([
    near.untilHears([1, 0, 1], 'the others at the node of the conference'),
    far.untilHears([1, 1, 0], 'the others at the other node'),
  ]);
  const laterMs: number[] = [];
  for (let round = 0; round < 5; round++) {
    const heardMs = async ({ phone, level }: Caller) => {
      await phone.rtp.until(() => level(700, 2) > 0.3, 'the new tone');
      return performance.now();
    };
    const heard = Promise.all([heardMs(near), heardMs(far)]);
    speaker.say(700, 200);
    const [nearMs, farMs] = await heard;
    laterMs.push(farMs - nearMs);
    const isOver = ({ phone, level }: Caller) => phone.rtp.until(() => level(700, 2) < 0.05, 'the end of the tone');
    await Promise.all([isOver(near), isOver(far)]);
  }
  console.log(`heard at the other node later by ${laterMs.map((ms) => ms.toFixed(0)).join(', ')} ms`);
  // packets go on as they come, through one more jitter buffer: a few frames at most, whatever the machine does beside
  expect(laterMs.toSorted((a, b) => a - b)[2]).toBeLessThan(100);
  await Promise.all([speaker.leave(), near.leave(), far.leave()]);
}, 60_000);

it('who enters while the database is gone hears music, and the others when it is back', async () => {
  const mine = await application({ '/start': xml('Later') });
  const a = await caller(0, mine.number, tonesHz[0]);
  await a.untilHearsTone(440, 'the music before the start', 0.1);
  for (const relay of relays) relay.goAway();
  const near = await caller(0, mine.number, tonesHz[1]);
  await near.untilHears([1, 0, 0], 'a, whose conference is at the same node');
  const far = await caller(1, mine.number, tonesHz[2]);
  await far.untilHearsTone(440, 'the music of a caller whose node cannot ask', 0.1);
  for (const relay of relays) relay.comeBack();
  await Promise.all([far.untilHears([1, 1, 0], 'the others at last'), a.untilHears([0, 1, 1], 'all others at a')]);
  await Promise.all([a.leave(), near.leave(), far.leave()]);
}, 60_000);

it('a node that lost its lease gives its conferences to the others', async () => {
  const mine = await application({ '/start': xml('Cut off') });
  const a = await caller(0, mine.number, tonesHz[0]);
  const b = await caller(1, mine.number, tonesHz[1]);
  const c = await caller(2, mine.number, tonesHz[2]);
  await Promise.all([b.untilHears([1, 0, 1], 'the others at b'), c.untilHears([1, 1, 0], 'the others at c')]);
  relays[0]?.goAway();
  await expect
    .poll(() => node(1).store.conferenceOwners?.otherOwners({ organizationId: organization(), mode: 'live' }), limit)
    .toEqual([]);
  await b.untilHears([1, 0, 1], 'the others at b, for its node can be reached');
  relays[0]?.comeBack();
  await a.untilLet(); // other nodes have closed its call
  await Promise.all([b.untilHears([0, 0, 1], 'c at b'), c.untilHears([0, 1, 0], 'b at c')]);
  await expect
    .poll(() => node(0).store.conferenceOwners?.otherOwners({ organizationId: organization(), mode: 'live' }), limit)
    .toHaveLength(1);
  await Promise.all([b.leave(), c.leave()]);
  const left = (await eventsOfLast(2)).filter(({ event_type: type }) => type === 'conference.left');
  expect(left.map(({ event_data: data }) => data.reason).at(0)).toMatch(/moved|node_lost/);
}, 90_000);

it('when the node of a conference leaves, the others come together at another one', async () => {
  const mine = await application({ '/start': xml('Moving') });
  const a = await caller(0, mine.number, tonesHz[0]);
  const b = await caller(1, mine.number, tonesHz[1]);
  const c = await caller(2, mine.number, tonesHz[2]);
  await Promise.all([b.untilHears([1, 0, 1], 'the others at b'), c.untilHears([1, 1, 0], 'the others at c')]);
  const [before] = await clientOf(1).conferences.list();
  await a.leave();
  await Promise.all([b.untilHears([0, 0, 1], 'c at b'), c.untilHears([0, 1, 0], 'b at c')]);
  stopped.add(node(0));
  await node(0).stop(0);
  await Promise.all([b.untilHears([0, 0, 1], 'c at b again'), c.untilHears([0, 1, 0], 'b at c again')]);
  await expect
    .poll(() => clientOf(2).conferences.list(), limit)
    .toMatchObject([{ sid: before!.sid, status: 'in-progress' }]);
  const d = await caller(1, mine.number, 700);
  await c.untilHearsTone(700, 'a new participant at c', 0.9);
  await Promise.all([b.leave(), c.leave(), d.leave()]);
}, 90_000);
