import twilio from 'twilio';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { callIdOf } from '../../src/api/twilio/resources.js';
import { openSimulatedCarrier, type SimulatedCarrier } from '../../src/simulator/carrier.js';
import { type CallRecord, startTestApp, type TestApp } from '../support/app.js';
import { phoneCalls } from '../support/caller.js';
import { addTrunk } from '../support/outbound.js';
import { soon, type WebhookApp, webhookApp } from '../support/webhook-app.js';

/** Twilio's own client, pointed at our server. */
let app: TestApp;
let carrier: SimulatedCarrier;
let client: ReturnType<typeof twilio>;
let mine: WebhookApp;
let account = '';

beforeAll(async () => {
  app = await startTestApp({}, { t1: 100, t2: 400, t4: 500 });
  carrier = await openSimulatedCarrier({ ringMs: 300, timersMs: { t1: 100 } });
  await addTrunk(app, [carrier.uri]);
  mine = await webhookApp(app, {
    '/start': '<Response><Pause length="20"/></Response>',
    '/elsewhere': '<Response><Pause length="1"/><Hangup/></Response>',
    '/outgoing': '<Response><Pause length="1"/><Hangup/></Response>',
  });
  account = `AC${app.first?.organizationId.replaceAll('-', '')}`;
  client = clientOf(account, app.key);
});
afterAll(async () => {
  await mine.server.close();
  await app.end();
  await carrier.close();
});

function clientOf(sid: string, key: string): ReturnType<typeof twilio> {
  const made = twilio(sid, key);
  made.api.baseUrl = app.httpUrl;
  return made;
}

/** Resolves when the call's record is final. */
const over = (sid: string) =>
  soon(async () => {
    const { status } = await client.calls(sid).fetch();
    expect(['completed', 'busy', 'failed', 'no-answer', 'canceled']).toContain(status);
  }, 15_000);

/** A call to us that runs until the client does something about it. */
async function whileCalled(work: (callSid: string) => Promise<void>) {
  const before = mine.forms('/start').length;
  const phone = phoneCalls(app, mine.number, { durationMs: 20_000 });
  await soon(() => expect(mine.forms('/start').length).toBe(before + 1), 5000);
  const sid = mine.form('/start').CallSid as string;
  await soon(async () => {
    const { status } = await client.calls(sid).fetch();
    expect(['ringing', 'in-progress']).toContain(status);
  });
  await work(sid);
  return (await phone).report();
}

const recordOf = (sid: string) => app.api<CallRecord>('GET', `/v1/calls/${callIdOf(sid)}`);

// Calls mostly wait; tests share no call.
describe.concurrent("Twilio's client", () => {
  test('reads a call, and ends it', async () => {
    let status = '';
    const report = await whileCalled(async (sid) => {
      const call = await client.calls(sid).fetch();
      expect(call).toMatchObject({ sid, accountSid: account, to: mine.number, direction: 'inbound', endTime: null });
      ({ status } = await client.calls(sid).update({ status: 'completed' }));
    });
    // the answer waits for the end; a call that was ended before any answer has failed
    expect(status).toBe('failed');
    expect(report.endedBy).not.toBe('caller');
  });

  test('sends a call elsewhere by Url and by Twiml', async () => {
    // A call that only waits is not answered yet: TwiML that speaks answers it.
    const talking = await webhookApp(app, {
      '/start': '<Response><Say>Hello.</Say><Pause length="20"/></Response>',
      '/elsewhere': '<Response><Pause length="1"/><Hangup/></Response>',
    });
    const run = async (change: (sid: string) => Promise<unknown>) => {
      const phone = phoneCalls(app, talking.number, { durationMs: 20_000 });
      const before = talking.forms('/start').length;
      await soon(() => expect(talking.forms('/start').length).toBe(before + 1), 5000);
      const sid = talking.form('/start').CallSid as string;
      await soon(async () => expect((await client.calls(sid).fetch()).status).toBe('in-progress'), 5000);
      await change(sid);
      const { endedBy } = (await phone).report();
      expect(endedBy).toBe('far side');
      return client.calls(sid).fetch();
    };
    const url = `${talking.server.url}/elsewhere`;
    const moved = await run((sid) => client.calls(sid).update({ url, method: 'POST' }));
    expect(moved).toMatchObject({ status: 'completed' });
    expect(talking.form('/elsewhere')).toMatchObject({ CallSid: moved.sid, CallStatus: 'in-progress' });
    const said = await run((sid) => client.calls(sid).update({ twiml: '<Response><Hangup/></Response>' }));
    expect(said.status).toBe('completed');
    await expect(client.calls(said.sid).update({ twiml: '<Response/>' })).rejects.toMatchObject({
      status: 400,
      code: 21220,
    });
    await expect(client.calls(said.sid).update({ status: 'completed' })).rejects.toMatchObject({ code: 20404 });
    await talking.server.close();
  });

  test('places a call with status callbacks, which asks its Url', async () => {
    const made = await client.calls.create({
      from: mine.number,
      to: '+12025550999',
      url: `${mine.server.url}/outgoing`,
      statusCallback: `${mine.server.url}/status`,
      statusCallbackEvent: ['initiated', 'ringing', 'answered', 'completed'],
    });
    expect(made).toMatchObject({ status: 'queued', direction: 'outbound-api', to: '+12025550999', from: mine.number });
    const steps = () => mine.forms('/status').flatMap((form) => (form.CallSid === made.sid ? [form.CallStatus] : []));
    await soon(() => expect(steps()).toHaveLength(4), 15_000);
    expect(steps()).toEqual(['initiated', 'ringing', 'in-progress', 'completed']);
    const asked = mine.forms('/outgoing').find((form) => form.CallSid === made.sid);
    expect(asked).toMatchObject({ CallStatus: 'in-progress' });
    const done = await client.calls(made.sid).fetch();
    // its document pauses for a second; what passed on a machine that was late
    const { duration, answered_at: from, completed_at: to } = await recordOf(made.sid);
    expect(duration).toBeGreaterThanOrEqual(1);
    expect(Math.abs(duration - (Date.parse(to ?? '') - Date.parse(from ?? '')) / 1000)).toBeLessThan(1);
    expect(done).toMatchObject({ status: 'completed', duration: String(duration) });
    expect(done.startTime).toBeInstanceOf(Date);
  });

  const warningsOf = async (sid: string) => {
    const { events } = await recordOf(sid);
    return events.filter((each) => each.event_type === 'webhook.warning').map((each) => each.event_data.message);
  };

  test.each<[number: string, mode: string, answeredBy: string]>([
    ['+15005550150', 'Enable', 'human'],
    ['+15005550160', 'Enable', 'machine_start'],
    ['+15005550160', 'DetectMessageEnd', 'machine_end_beep'],
  ])('%s with MachineDetection %s: the Url is asked when it is known that it is %s', async (to, mode, answeredBy) => {
    const detecting = await webhookApp(app, { '/outgoing': '<Response><Pause length="1"/><Hangup/></Response>' });
    const made = await client.calls.create({
      from: detecting.number,
      to,
      url: `${detecting.server.url}/outgoing`,
      machineDetection: mode,
    });
    await soon(() => expect(detecting.forms('/outgoing')).toHaveLength(1), 30_000);
    const form = detecting.form('/outgoing');
    expect(form).toMatchObject({ CallSid: made.sid, AnsweredBy: answeredBy, CallStatus: 'in-progress' });
    expect(Number(form.MachineDetectionDuration)).toBeGreaterThan(500);
    await soon(async () => expect((await client.calls(made.sid).fetch()).answeredBy).toBe(answeredBy), 10_000);
    await over(made.sid);
    await detecting.server.close();
  });

  test('asks at once with AsyncAmd, and tells who answered later; a limit makes it unknown', async () => {
    const made = await client.calls.create({
      from: mine.number,
      to: '+15005550160',
      twiml: '<Response><Pause length="5"/></Response>',
      machineDetection: 'Enable',
      asyncAmd: 'true',
      asyncAmdStatusCallback: `${mine.server.url}/amd`,
      machineDetectionTimeout: 3,
      machineDetectionSilenceTimeout: 3000,
      sendDigits: '1',
    });
    await soon(async () => expect((await client.calls(made.sid).fetch()).status).toBe('in-progress'), 5000);
    const told = () => mine.forms('/amd').filter((form) => form.CallSid === made.sid);
    expect(told()).toHaveLength(0);
    await soon(() => expect(told()).toHaveLength(1), 10_000);
    expect(told()[0]).toMatchObject({ AccountSid: account });
    expect(told()[0]?.AnsweredBy).toMatch(/^machine_start$|^unknown$/);
    await over(made.sid);
    expect(await warningsOf(made.sid)).toEqual([
      'SendDigits of the request has no effect',
      'MachineDetectionSilenceTimeout of the request has no effect',
    ]);
  });

  test('calls a number as people write it in the country of From', async () => {
    const twiml = '<Response><Hangup/></Response>';
    const made = await client.calls.create({ from: mine.number, to: '(202) 555-0998', twiml });
    expect(made.to).toBe('+12025550998');
    await over(made.sid);
  });

  test('reads its own errors on paths that are not there', async () => {
    const ask = (path: string, method: string, key: string) =>
      fetch(`${app.httpUrl}/2010-04-01/${path}`, {
        method,
        headers: { authorization: `Basic ${Buffer.from(`${account}:${key}`).toString('base64')}` },
      });
    for (const [path, method] of [
      [`Accounts/${account}/Applications.json`, 'GET'],
      [`Accounts/${account}/Messages.json`, 'POST'],
      [`Accounts/${account}/Transcriptions/TR1.json`, 'DELETE'],
      ['Accounts.json', 'GET'],
    ] as const) {
      const response = await ask(path, method, app.key);
      expect(response.status).toBe(404);
      expect(response.headers.get('content-type')).toContain('application/json');
      const body = (await response.json()) as { message: string };
      expect(body).toMatchObject({ code: 20404, status: 404, more_info: 'https://www.twilio.com/docs/errors/20404' });
      expect(body.message).toContain(`/2010-04-01/${path} was not found`);
    }
    expect((await ask('Accounts.json', 'GET', 'trunkline_live_wrong')).status).toBe(401);
    await expect(client.applications.list()).rejects.toMatchObject({ status: 404, code: 20404 });
  });

  test('places a call with its Twiml, and one that is busy', async () => {
    const twiml = '<Response><Pause length="1"/><Hangup/></Response>';
    const made = await client.calls.create({ from: mine.number, to: '+12025550998', twiml });
    await soon(async () => expect((await client.calls(made.sid).fetch()).status).toBe('completed'), 10_000);
    const busy = await client.calls.create({ from: mine.number, to: '+15005550486', twiml });
    await soon(async () => expect((await client.calls(busy.sid).fetch()).status).toBe('busy'), 10_000);
  });

  test('is told in words of its own what is wrong', async () => {
    const twiml = '<Response><Hangup/></Response>';
    const from = mine.number;
    const wrong: [() => Promise<unknown>, object][] = [
      [() => clientOf(account, 'trunkline_live_wrong').calls('CA').fetch(), { status: 401, code: 20003 }],
      [
        () =>
          clientOf(`AC${'0'.repeat(32)}`, app.key)
            .calls('CA')
            .fetch(),
        { status: 403, code: 20003 },
      ],
      [() => client.calls(`CA${'0'.repeat(32)}`).fetch(), { status: 404, code: 20404 }],
      [
        () => client.calls.create({ from, to: '+12025550998', twiml: '<Response><Dance/></Response>' }),
        { status: 400 },
      ],
      [() => client.calls.create({ from, to: '+12025550998' } as never), { status: 400 }],
      [() => client.calls.create({ from, to: 'mum', twiml }), { status: 400, code: 21211 }],
      [() => client.calls.create({ from: '+19995550000', to: '+12025550998', twiml }), { code: 21210 }],
      [() => client.calls.create({ from, to: '+12025550998', url: 'file:///etc/passwd' }), { status: 400 }],
    ];
    for (const [ask, refusal] of wrong) await expect(ask()).rejects.toMatchObject(refusal);
    const dance = client.calls.create({ from, to: '+12025550998', twiml: '<Response>\n<Dance/></Response>' });
    await expect(dance).rejects.toThrow('line 2: <Dance>');
  });
});

describe("the lists of Twilio's client", () => {
  let number: string;
  let sids: string[];
  let parent: string;
  let child: string;

  /** Four calls: two that were said something, one that was recorded and dialled another one, and that one. */
  beforeAll(async () => {
    const { number: own, server } = await webhookApp(app, {
      '/start': '<Response><Say>Hello.</Say></Response>',
      '/dial': '<Response><Record timeout="1" maxLength="1" playBeep="false" action="/then"/></Response>',
      '/then': '<Response><Dial><Number>+12025550777</Number></Dial></Response>',
    });
    number = own;
    for (let i = 0; i < 2; i++) await phoneCalls(app, number, { durationMs: 20_000 });
    const made = await client.calls.create({
      from: number,
      to: '+12025550778',
      url: `${server.url}/dial`,
      record: true,
    });
    parent = made.sid;
    await soon(async () => expect((await client.calls.list({ parentCallSid: parent })).length).toBe(1), 30_000);
    child = (await client.calls.list({ parentCallSid: parent }))[0]?.sid ?? '';
    await client.calls(parent).update({ status: 'completed' });
    await over(parent);
    await over(child);
    sids = (await client.calls.list({ to: number })).map(({ sid }) => sid);
    return () => server.close();
  }, 90_000);

  test('calls by exact number, status, parent and time', async () => {
    expect(sids).toHaveLength(2);
    expect(await client.calls.list({ to: number.slice(0, -1) })).toEqual([]);
    const [one] = await client.calls.list({ parentCallSid: parent });
    expect(one).toMatchObject({ sid: child, parentCallSid: parent, direction: 'outbound-dial', to: '+12025550777' });
    const from = await client.calls.list({ from: number });
    expect(from.map(({ sid }) => sid)).toContain(parent);
    expect(from.map(({ sid }) => sid)).not.toContain(sids[0]);
    expect((await client.calls.list({ to: number, status: 'completed' })).map(({ sid }) => sid)).toEqual(sids);
    expect(await client.calls.list({ to: number, status: 'busy' })).toEqual([]);
    expect(await client.calls.list({ to: number, status: 'queued' })).toEqual([]);
    const [hourAgo, inAnHour] = [-3_600_000, 3_600_000].map((ms) => new Date(Date.now() + ms));
    expect(await client.calls.list({ to: number, startTimeAfter: hourAgo, startTimeBefore: inAnHour })).toHaveLength(2);
    expect(await client.calls.list({ to: number, startTimeAfter: inAnHour })).toEqual([]);
    expect(await client.calls.list({ to: number, endTimeAfter: hourAgo })).toHaveLength(2);
    expect(await client.calls.list({ to: number, endTimeBefore: hourAgo })).toEqual([]);
    await expect(client.calls.list({ status: 'sleeping' as 'busy' })).rejects.toMatchObject({ status: 400 });
  });

  test('page by page, each call once, newest first', async () => {
    const all = (await client.calls.list({ from: number })).map(({ sid }) => sid);
    const single = (await client.calls.list({ from: number, pageSize: 1 })).map(({ sid }) => sid);
    expect(single).toEqual(all);
    expect(all.length).toBeGreaterThanOrEqual(2);
    const first = await client.calls.page({ to: number, pageSize: 1 });
    expect(first.instances.map(({ sid }) => sid)).toEqual([sids[0]]);
    const second = await first.nextPage();
    expect(second?.instances.map(({ sid }) => sid)).toEqual([sids[1]]);
    expect(second?.nextPageUrl).toBeUndefined();
    expect(await client.calls.list({ to: number, limit: 1 })).toHaveLength(1);
    const each: string[] = [];
    await new Promise<void>((resolve, reject) =>
      client.calls.each({
        to: number,
        pageSize: 1,
        callback: (call) => each.push(call.sid),
        done: (error?: Error) => (error ? reject(error) : resolve()),
      }),
    );
    expect(each).toEqual(sids);
  });

  test('recordings: their call, their source and their audio; one is deleted', async () => {
    const ofCall = () => client.calls(parent).recordings.list();
    await soon(async () => expect(await ofCall()).toHaveLength(2), 15_000);
    const listed = await client.recordings.list({ callSid: parent });
    expect(listed.map(({ source }) => source).sort()).toEqual(['OutboundAPI', 'RecordVerb']);
    expect((await client.recordings.list({ limit: 1000 })).map(({ sid }) => sid)).toEqual(
      expect.arrayContaining(listed.map(({ sid }) => sid)),
    );
    for (const { sid, source } of listed) {
      const recording = await client.recordings(sid).fetch();
      expect(recording).toMatchObject({ callSid: parent, source, status: 'completed' });
      expect(recording.channels).toBe(source === 'RecordVerb' ? 1 : 2);
      const authorization = `Basic ${Buffer.from(`${account}:${app.key}`).toString('base64')}`;
      const path = `/2010-04-01/Accounts/${account}/Recordings/${sid}`;
      for (const url of [`${app.httpUrl}${path}`, `${app.httpUrl}${path}.wav`]) {
        const audio = await fetch(url, { headers: { authorization } });
        expect(audio.headers.get('content-type')).toBe('audio/wav');
        expect(Buffer.from(await audio.arrayBuffer()).toString('latin1', 0, 4)).toBe('RIFF');
      }
    }
    const [gone] = listed;
    expect(await client.recordings(gone?.sid ?? '').remove()).toBe(true);
    await expect(client.recordings(gone?.sid ?? '').fetch()).rejects.toMatchObject({ code: 20404 });
    expect(await ofCall()).toHaveLength(1);
  });

  test('another organization sees none of it, and deletes none', async () => {
    const { store } = app;
    const { id: organizationId } = await store.organizations.create({ name: 'Elsewhere', tier: 'enterprise' });
    const { id: userId } = await store.organizations.createUser({ name: 'Elsewhere' });
    await store.organizations.addMember(organizationId, userId, 'owner');
    const { key } = await store.apiKeys.create({ userId, organizationId, mode: 'live', name: 'Elsewhere' });
    const other = clientOf(`AC${organizationId.replaceAll('-', '')}`, key);
    expect(await other.calls.list()).toEqual([]);
    expect(await other.calls.list({ parentCallSid: parent })).toEqual([]);
    expect(await other.recordings.list()).toEqual([]);
    const [kept] = await client.calls(parent).recordings.list();
    await expect(other.recordings(kept?.sid ?? '').remove()).rejects.toMatchObject({ code: 20404 });
    expect(await client.calls(parent).recordings.list()).toHaveLength(1);
  });

  test('a call is recorded as its endpoint says, unless the request says otherwise', async () => {
    const answers = { '/start': '<Response><Say>Hello.</Say></Response>' };
    const recording = await webhookApp(app, answers, undefined, { record: true });
    await phoneCalls(app, recording.number, { durationMs: 20_000 });
    const recordings = async (sid: string) => (await client.calls(sid).recordings.list()).map(({ source }) => source);
    const inbound = recording.form('/start').CallSid ?? '';
    await over(inbound);
    await soon(async () => expect(await recordings(inbound)).toEqual(['OutboundAPI']), 15_000);
    const twiml = '<Response><Pause length="1"/></Response>';
    const made = await client.calls.create({ from: recording.number, to: '+12025550779', twiml, record: false });
    await over(made.sid);
    const { events } = await recordOf(made.sid);
    expect(events.map(({ event_type: type }) => type)).not.toContain('recording.started');
    await recording.server.close();
  });

  test('conferences and queues are paged too', async () => {
    for (const name of ['page-a', 'page-b', 'page-c']) await client.queues.create({ friendlyName: name });
    const names = (await client.queues.list({ pageSize: 2 })).map(({ friendlyName }) => friendlyName);
    expect(names.filter((name) => name.startsWith('page-')).sort()).toEqual(['page-a', 'page-b', 'page-c']);
    expect(await client.conferences.list({ pageSize: 1 })).toEqual([]);
    for (const { sid, friendlyName } of await client.queues.list())
      if (friendlyName.startsWith('page-')) await client.queues(sid).remove();
  });
});
