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

  const recordOf = (sid: string) => app.api<CallRecord>('GET', `/v1/calls/${callIdOf(sid)}`);

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
    expect(mine.forms('/amd')).toHaveLength(0);
    await soon(() => expect(mine.forms('/amd')).toHaveLength(1), 10_000);
    expect(mine.form('/amd')).toMatchObject({ CallSid: made.sid, AccountSid: account });
    expect(mine.form('/amd').AnsweredBy).toMatch(/^machine_start$|^unknown$/);
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
      [`Accounts/${account}/Recordings/RE1.json`, 'DELETE'],
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
