import twilio from 'twilio';
import { describe, expect, test } from 'vitest';
import type { CallRecord } from '../support/app.js';
import { tonesHz } from '../support/tone-caller.js';
import { soon, type WebhookApp } from '../support/webhook-app.js';
import { webhookScene } from '../support/webhook-scene.js';

const scene = webhookScene({ TRUNKLINE_MEDIA_THREADS: '2' });
const { application, caller } = scene;

const ofCall = (forms: Record<string, string>[], sid: string | undefined) =>
  forms.filter(({ CallSid }) => CallSid === sid);
const lastData = ({ server }: WebhookApp) =>
  server.requests.map((request) => JSON.parse(request.body) as { type: string; data: { duration?: number } }).at(-1);

describe('a queue', () => {
  test('tells who waits its position, and is emptied from the front', async () => {
    const { number, forms } = await application({
      '/start': '<Response><Enqueue waitUrl="/music" action="/after">Support</Enqueue></Response>',
      '/music': '<Response><Pause length="1"/></Response>',
      '/after': '<Response><Hangup/></Response>',
    });
    const desk = await application({
      '/start': '<Response><Dial action="/done"><Queue url="/hello">Support</Queue></Dial></Response>',
      '/hello': '<Response><Pause length="1"/><Gather/></Response>',
      '/done': '<Response><Hangup/></Response>',
    });
    const a = await caller(number, tonesHz[1]);
    await soon(() => expect(forms('/music')[0]).toMatchObject({ QueuePosition: '1', CurrentQueueSize: '1' }));
    const b = await caller(number, tonesHz[0]);
    const [first, second] = forms('/start').map(({ CallSid }) => CallSid);
    await soon(() =>
      expect(ofCall(forms('/music'), second)[0]).toMatchObject({
        QueuePosition: '2',
        CurrentQueueSize: '2',
        MaxQueueSize: '100',
      }),
    );
    const c = await caller(desk.number, tonesHz[2]);
    await Promise.all([a.untilHearsTone(tonesHz[2], 'the desk at a'), c.untilHearsTone(tonesHz[1], 'a at the desk')]);
    const { QueueSid } = forms('/music')[0] ?? {};
    expect(QueueSid).toMatch(/^QU[0-9a-f]{32}$/);
    expect(desk.form('/hello')).toMatchObject({
      CallSid: first,
      QueueSid,
      DequeingCallSid: desk.form('/start').CallSid,
    });
    await soon(() => expect(ofCall(forms('/music'), second).at(-1)).toMatchObject({ QueuePosition: '1' }));
    await c.leave();
    await a.untilLet();
    expect(ofCall(forms('/after'), first)).toMatchObject([
      { QueueResult: 'bridged', QueueSid, CallStatus: 'in-progress' },
    ]);
    await soon(() => expect(desk.form('/done')).toMatchObject({ DialCallStatus: 'completed', DialCallSid: first }));
    await b.leave();
    await soon(() => expect(ofCall(forms('/after'), second)).toMatchObject([{ QueueResult: 'hangup' }]));
    const { data } = await scene.app.api<{ data: { id: string; to_number: string }[] }>('GET', '/v1/calls?limit=100');
    const calls = await Promise.all(
      data
        .filter((call) => call.to_number === number)
        .map(({ id }) => scene.app.api<CallRecord>('GET', `/v1/calls/${id}`)),
    );
    const noted = calls.flatMap(({ events }) => events.filter(({ event_type: type }) => type === 'webhook.warning'));
    expect(noted).toMatchObject([{ event_data: { message: '"gather" has no effect before the connection.' } }]);
  });

  test('keeps the place of a caller whose connection did not come about', async () => {
    const { number, forms } = await application({
      '/start': '<Response><Enqueue waitUrl="/music" action="/after">Slow</Enqueue></Response>',
      '/music': '<Response><Pause length="1"/></Response>',
    });
    const desk = await application({
      '/start': '<Response><Dial action="/done"><Queue url="/hello">Slow</Queue></Dial></Response>',
      '/hello': '<Response><Pause length="60"/></Response>',
    });
    const a = await caller(number, tonesHz[1]);
    const c = await caller(desk.number, tonesHz[2]);
    await soon(() => expect(desk.forms('/hello')).toHaveLength(1));
    const before = forms('/music').length;
    await c.leave();
    await soon(() => expect(desk.form('/done')).toMatchObject({ DialCallStatus: 'canceled' }));
    await soon(() => expect(forms('/music').length).toBeGreaterThan(before));
    expect(forms('/music').at(-1)).toMatchObject({ QueuePosition: '1', CurrentQueueSize: '1' });
    await caller(desk.number, tonesHz[0]);
    await soon(() => expect(desk.forms('/hello')).toHaveLength(2));
    await a.leave();
    await soon(() => expect(forms('/after')).toMatchObject([{ QueueResult: 'bridging-in-process' }]));
  });

  test('in JSON: connects a desk that was there first, and lets the one who waits leave by a key', async () => {
    const wish = { action: 'enqueue', queue: 'J', wait_url: '/wait', max_size: 1, url: '/after' };
    const waiting = await application(
      {
        '/start': [wish],
        '/wait': [{ action: 'gather', num_digits: 1, timeout_s: 30, url: '/key' }],
        '/key': [{ action: 'leave' }],
        '/after': [],
      },
      {},
    );
    const full = await application({ '/start': [wish], '/after': [] }, {});
    const desk = await application(
      { '/start': [{ action: 'dial', queue: 'J', timeout_s: 30, time_limit_s: 4, url: '/done' }], '/done': [] },
      {},
    );
    const c = await caller(desk.number, tonesHz[2]);
    const a = await caller(waiting.number, tonesHz[1]);
    await Promise.all([a.untilHearsTone(tonesHz[2], 'the desk at a'), c.untilHearsTone(tonesHz[1], 'a at the desk')]);
    await Promise.all([a.untilLet(), c.untilLet()]);
    expect(lastData(waiting)).toMatchObject({
      type: 'call.dequeued',
      data: { result: 'bridged', name: 'J' },
    });
    expect(lastData(desk)).toMatchObject({
      type: 'call.dialed',
      data: { status: 'completed', to: ['queue:J'] },
    });
    expect(lastData(desk)?.data.duration).toBeGreaterThanOrEqual(4);
    const { events } = await scene.app.finishedCall(waiting.number);
    expect(
      events.filter(({ event_type: type }) => type.startsWith('queue.')).map((each) => each.event_data),
    ).toMatchObject([{ name: 'J', position: 1, size: 1 }, { result: 'bridged' }]);

    const before = waiting.paths().filter((path) => path === '/wait').length;
    const b = await caller(waiting.number, tonesHz[0]);
    await soon(() => expect(waiting.paths().filter((path) => path === '/wait').length).toBeGreaterThan(before));
    const third = await caller(full.number, tonesHz[2]);
    await third.untilLet();
    expect(lastData(full)).toMatchObject({ type: 'call.dequeued', data: { result: 'queue-full' } });
    b.press(5);
    await b.untilLet();
    expect(lastData(waiting)).toMatchObject({ type: 'call.dequeued', data: { result: 'leave' } });
  });

  test('is read, made, changed and emptied by the client of Twilio', async () => {
    const { number, form } = await application({
      '/start': '<Response><Enqueue waitUrl="" action="/after">Rest</Enqueue></Response>',
    });
    const desk = await application({
      '/start': '<Response><Dial timeout="5" action="/done"><Queue>Rest</Queue></Dial></Response>',
      '/done': '<Response><Hangup/></Response>',
    });
    const client = twilio(`AC${scene.app.first?.organizationId.replaceAll('-', '')}`, scene.app.key);
    client.api.baseUrl = scene.app.httpUrl;
    const made = await client.queues.create({ friendlyName: 'Rest', maxSize: 7 });
    expect(made).toMatchObject({ friendlyName: 'Rest', maxSize: 7, currentSize: 0 });
    await expect(client.queues.create({ friendlyName: 'Rest' })).rejects.toMatchObject({ status: 400 });
    await expect(client.queues(made.sid).update({ maxSize: 0 })).rejects.toMatchObject({ status: 400 });
    expect(await client.queues(made.sid).update({ maxSize: 3 })).toMatchObject({ maxSize: 3 });
    const a = await caller(number, tonesHz[0]);
    const { CallSid } = form('/start');
    await soon(async () => expect(await client.queues(made.sid).fetch()).toMatchObject({ currentSize: 1 }));
    expect((await client.queues.list()).map(({ sid }) => sid)).toContain(made.sid);
    expect(await client.queues(made.sid).members.list()).toMatchObject([{ callSid: CallSid, position: 1 }]);
    expect(
      await client
        .queues(made.sid)
        .members(CallSid as string)
        .fetch(),
    ).toMatchObject({ callSid: CallSid });
    await expect(client.queues(made.sid).remove()).rejects.toMatchObject({ status: 400 });
    await client
      .queues(made.sid)
      .members('Front')
      .update({ url: `${desk.server.url}/done` });
    await a.untilLet();
    await soon(() => expect(form('/after')).toMatchObject({ CallSid, QueueResult: 'redirected' }));
    await expect(client.queues(made.sid).members('Front').fetch()).rejects.toMatchObject({ status: 404 });
    const c = await caller(desk.number, tonesHz[2]);
    await c.untilLet();
    expect(desk.form('/done')).toMatchObject({ DialCallStatus: 'no-answer' });
    expect(await client.queues(made.sid).remove()).toBe(true);
    await expect(client.queues(made.sid).fetch()).rejects.toMatchObject({ status: 404 });
  });
});
