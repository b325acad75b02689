import type { ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { pino } from 'pino';
import { Webhook } from 'standardwebhooks';
import { validateRequestWithBody } from 'twilio';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { createSafeHttp } from '../../net/http.js';
import { StoreError } from '../../src/store/database/errors.js';
import { EventSender } from '../../src/webhook/event-sender.js';
import { type TestApi, testApi } from '../support/api.js';
import { type ReceivedRequest, type Receiver, startReceiver } from '../support/receiver.js';

let api: TestApi;
let sender: EventSender;
const receivers: Receiver[] = [];
const dead: string[] = [];

const newSender = (deliveries = api.store.webhookDeliveries) =>
  new EventSender({
    deliveries,
    endpoints: api.store.endpoints,
    http: createSafeHttp({ allowPrivate: true }),
    clock: api.clock,
    log: pino({ level: 'silent' }),
    onDead: (delivery) => dead.push(delivery.id),
  });

beforeEach(async () => {
  dead.length = 0;
  api = await testApi({ allowPrivateTargets: true, onWebhookRetry: () => sender.wake() });
  sender = newSender();
  api.store.calls.onWritten = () => sender.wake();
  sender.start();
});
afterEach(async () => {
  await sender.stop();
  await api.close();
  for (const receiver of receivers.splice(0)) await receiver.close();
});

async function receiver(...how: Parameters<typeof startReceiver>): Promise<Receiver> {
  const started = await startReceiver(...how);
  receivers.push(started);
  return started;
}

async function endpointFor(url: string): Promise<{ id: string; secret: string }> {
  const { body, status } = await api.request('POST', '/v1/endpoints', {
    body: { name: 'W', type: 'webhook', target: `${url}/calls`, provider_config: { events_url: `${url}/events` } },
  });
  expect(status).toBe(201);
  return { id: body.id, secret: body.webhook_secret };
}

async function begin(endpointId: string): Promise<string> {
  const id = api.store.calls.begin({
    organizationId: api.a.organizationId,
    mode: 'live',
    direction: 'inbound',
    fromNumber: '+12025550199',
    toNumber: '+15550100',
    phoneNumberId: '0198aaaa-0000-7000-8000-000000000001',
    endpointId,
  });
  await api.store.calls.flush(); // of calls that begin together some are written 20 ms later
  return id;
}
const end = { status: 'completed', hangupCause: 'normal_clearing', hangupSource: 'caller', durationSec: 0 } as const;
const bodyOf = (request: ReceivedRequest) => JSON.parse(request.body);
const deliveries = async (query = '') => (await api.request('GET', `/v1/webhook-deliveries${query}`)).body;

describe('events of a call', () => {
  test('arrive signed, in order, each once, and are on record', async () => {
    const server = await receiver();
    const { id, secret } = await endpointFor(server.url);
    const callId = await begin(id);
    api.store.calls.event(callId, 'call.ringing');
    api.store.calls.event(callId, 'dtmf.received', { digit: '5' });
    api.store.calls.event(callId, 'webhook.failed', { message: 'never delivered itself' });
    api.store.calls.finish(callId, end);
    await api.store.calls.flush();
    await vi.waitFor(() => expect(server.requests).toHaveLength(4), 5000);
    const types = server.requests.map((request) => bodyOf(request).type);
    expect(types).toEqual(['call.initiated', 'call.ringing', 'dtmf.received', 'call.completed']);
    const { body } = await api.request('GET', `/v1/calls/${callId}`);
    for (const request of server.requests) {
      expect(request.path).toBe('/events');
      const sent = bodyOf(request);
      const event = body.events.find((each: { id: string }) => each.id === sent.id);
      expect(sent).toEqual({
        id: event.id,
        type: event.event_type,
        created_at: event.created_at,
        organization_id: api.a.organizationId,
        call_id: callId,
        sequence: event.sequence,
        data: event.event_data,
      });
      const headers = request.headers as Record<string, string>;
      expect(headers['webhook-id']).toBe(event.id);
      // The package checks the time against its own clock; ours stands in another year.
      expect(headers['webhook-timestamp']).toBe(String(Math.floor(api.clock.now() / 1000)));
      const at = new Date(Number(headers['webhook-timestamp']) * 1000);
      expect(headers['webhook-signature']).toBe(new Webhook(secret).sign(event.id, at, request.body));
    }
    const listed = await deliveries(`?call_id=${callId}`);
    expect(listed.total).toBe(4);
    expect(listed.data.every((each: { status: string }) => each.status === 'delivered')).toBe(true);
    expect(listed.data[0].attempts).toMatchObject([{ http_status: 204, error: null }]);
    await vi.waitFor(() => expect(server.connections).toBe(0));
  });

  test('of an endpoint that speaks TwiML are signed as Twilio signs JSON, too', async () => {
    const server = await receiver();
    const config = { format: 'twiml', events_url: `${server.url}/events?a=1` };
    const { body } = await api.request('POST', '/v1/endpoints', {
      body: { name: 'T', type: 'webhook', target: server.url, provider_config: config },
    });
    await begin(body.id);
    sender.wake();
    await vi.waitFor(() => expect(server.requests).toHaveLength(1), 5000);
    const [request] = server.requests as [ReceivedRequest];
    expect(request.path).toMatch(/^\/events\?a=1&bodySHA256=[0-9a-f]{64}$/);
    const signature = String(request.headers['x-twilio-signature']);
    const url = `${server.url}${request.path}`;
    expect(validateRequestWithBody(body.webhook_secret, signature, url, request.body)).toBe(true);
    expect(validateRequestWithBody(body.webhook_secret, signature, url, `${request.body} `)).toBe(false);
  });

  test('of endpoints without events_url go nowhere', async () => {
    const { body } = await api.request('POST', '/v1/endpoints', {
      body: { name: 'W', type: 'webhook', target: 'http://127.0.0.1:1/' },
    });
    await begin(body.id);
    expect((await deliveries()).total).toBe(0);
  });

  test('of another organization are not shown and not retried', async () => {
    const server = await receiver();
    await begin((await endpointFor(server.url)).id);
    const [{ id }] = (await deliveries()).data;
    const foreign = await api.request('GET', '/v1/webhook-deliveries', { key: api.b.key });
    expect(foreign.body.total).toBe(0);
    const retried = await api.request('POST', `/v1/webhook-deliveries/${id}/retry`, { key: api.b.key });
    expect(retried.status).toBe(404);
  });

  test('go when their call is deleted', async () => {
    const { id } = await endpointFor('http://127.0.0.1:1');
    const callId = await begin(id);
    api.store.calls.finish(callId, end);
    expect((await deliveries()).total).toBe(2);
    expect((await api.request('DELETE', `/v1/calls/${callId}`)).status).toBe(204);
    expect((await deliveries()).total).toBe(0);
  });
});

describe('a receiver that fails', () => {
  test.each([500, 503, 408, 425, 429])(
    'with %i is asked six times in growing distances, then given up',
    async (status) => {
      const server = await receiver((_request, response) => void response.writeHead(status).end());
      const callId = await begin((await endpointFor(server.url)).id);
      const atMs: number[] = [];
      for (let attempts = 1; attempts <= 6; attempts += 1) {
        await vi.waitFor(async () => {
          const [{ attempts: made }] = (await deliveries()).data;
          expect(made).toHaveLength(attempts);
        });
        atMs.push(api.clock.now());
        if (attempts === 6) break;
        const [{ next_attempt_at }] = (await deliveries()).data;
        api.clock.advance(Date.parse(next_attempt_at) - api.clock.now() + 1000);
      }
      const gapsMs = atMs.slice(1).map((at, index) => at - (atMs[index] ?? 0));
      [5, 20, 80, 320, 1280].forEach((seconds, index) => {
        expect(gapsMs[index]).toBeGreaterThan(seconds * 800 - 1);
        expect(gapsMs[index]).toBeLessThan(seconds * 1200 + 2001);
      });
      const [delivery] = (await deliveries()).data;
      expect(delivery).toMatchObject({ status: 'failed', call_id: callId, next_attempt_at: null });
      expect(new Set(server.requests.map((request) => request.headers['webhook-id'])).size).toBe(1);
      expect(dead).toEqual([delivery.id]);
    },
  );

  test('with 404 or a redirect is given up at once', async () => {
    for (const status of [404, 302]) {
      const server = await receiver((_request, response) => void response.writeHead(status, { location: '/x' }).end());
      await begin((await endpointFor(server.url)).id);
      await vi.waitFor(async () => expect((await deliveries()).data[0].status).toBe('failed'));
      expect(server.requests).toHaveLength(1);
    }
  });

  test('is left alone as long as Retry-After says', async () => {
    const server = await receiver((_request, response) => void response.writeHead(503, { 'retry-after': '120' }).end());
    await begin((await endpointFor(server.url)).id);
    await vi.waitFor(async () => expect((await deliveries()).data[0].attempts).toHaveLength(1));
    const [delivery] = (await deliveries()).data;
    expect(Date.parse(delivery.next_attempt_at) - api.clock.now()).toBe(120_000);
    api.clock.advance(119_000);
    expect(server.requests).toHaveLength(1);
    api.clock.advance(2000);
    await vi.waitFor(() => expect(server.requests).toHaveLength(2));
  });

  test('holds up the later events of the same call, not those of others', async () => {
    let broken = true;
    let first: string | null = null;
    const server = await receiver((request, response) => {
      const call = bodyOf(request).call_id;
      first ??= call;
      response.writeHead(broken && call === first ? 500 : 204).end();
    });
    const { id } = await endpointFor(server.url);
    const one = await begin(id);
    api.store.calls.event(one, 'call.ringing');
    await vi.waitFor(() => expect(server.requests).toHaveLength(1));
    const two = await begin(id);
    api.store.calls.event(two, 'call.ringing');
    api.clock.advance(60); // the journal writes
    await vi.waitFor(() => expect(server.requests).toHaveLength(3));
    broken = false;
    api.clock.advance(10_000);
    await vi.waitFor(() => expect(server.requests).toHaveLength(5));
    const of = (call: string) => server.requests.map(bodyOf).filter((body) => body.call_id === call);
    expect(of(one).map((body) => body.sequence)).toEqual([1, 1, 2]);
    expect(of(two).map((body) => body.sequence)).toEqual([1, 2]);
  });

  test('by never answering blocks no other endpoint', async () => {
    const silent = await receiver(() => {});
    const server = await receiver();
    const slow = await endpointFor(silent.url);
    for (let i = 0; i < 20; i += 1) await begin(slow.id);
    api.clock.advance(20); // so many at once share a commit
    await vi.waitFor(() => {
      sender.wake();
      expect(silent.connections).toBe(8);
    });
    await begin((await endpointFor(server.url)).id);
    sender.wake();
    await vi.waitFor(() => expect(server.requests).toHaveLength(1));
    expect(silent.connections).toBe(8);
  });

  test('by an endless answer, a bomb or ten thousand headers costs it its delivery, and no connection stays', async () => {
    const answers: { [path: string]: (response: ServerResponse) => void } = {
      '/endless': (response) => {
        response.writeHead(200);
        const more = () => {
          while (response.write(' '.repeat(65_536)));
          response.once('drain', more);
        };
        more();
      },
      '/bomb': (response) =>
        void response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(Buffer.alloc(50_000_000))),
      '/headers': (response) => {
        for (let i = 0; i < 10_000; i += 1) response.setHeader(`x-${i}`, 'y');
        response.writeHead(200).end();
      },
      '/invalid': (response) => void response.writeHead(200).end(Buffer.from([0xff, 0xfe, 0xc3, 0x28])),
    };
    const server = await receiver((request, response) => answers[request.path]?.(response));
    for (const path of Object.keys(answers)) {
      const { body } = await api.request('POST', '/v1/endpoints', {
        body: {
          name: path,
          type: 'webhook',
          target: server.url,
          provider_config: { events_url: `${server.url}${path}` },
        },
      });
      await begin(body.id);
    }
    sender.wake();
    const attempts = async () =>
      (await deliveries()).data.map(
        (each: { attempts: { http_status: number | null; error: string | null }[] }) => each.attempts[0],
      );
    await vi.waitFor(async () => expect((await attempts()).filter(Boolean)).toHaveLength(4), 5000);
    const told = (await attempts()).map((attempt: { error: string | null }) => attempt.error);
    expect(told.filter((error: string | null) => error === null)).toHaveLength(1); // what is in a 2xx does not matter
    expect(told.filter((error: string | null) => error?.includes('larger than'))).toHaveLength(2);
    await vi.waitFor(() => expect(server.connections).toBe(0));
  });

  test('by 410 gets no more until its endpoint is changed', async () => {
    let status = 410;
    const server = await receiver((_request, response) => void response.writeHead(status).end());
    const { id } = await endpointFor(server.url);
    await begin(id);
    await vi.waitFor(async () =>
      expect((await api.request('GET', `/v1/endpoints/${id}`)).body.events_disabled_at).not.toBeNull(),
    );
    await begin(id);
    expect((await deliveries()).total).toBe(1);
    status = 204;
    const changed = await api.request('PATCH', `/v1/endpoints/${id}`, { body: { name: 'Back' } });
    expect(changed.body.events_disabled_at).toBeNull();
    await begin(id);
    sender.wake();
    await vi.waitFor(() => expect(server.requests).toHaveLength(2));
  });
});

describe('the API', () => {
  test('retries a dead delivery under the same id', async () => {
    let status = 400;
    const server = await receiver((_request, response) => void response.writeHead(status).end());
    await begin((await endpointFor(server.url)).id);
    await vi.waitFor(async () => expect((await deliveries('?status=failed')).total).toBe(1));
    status = 200;
    const [{ id }] = (await deliveries()).data;
    const { body } = await api.request('POST', `/v1/webhook-deliveries/${id}/retry`);
    expect(body).toMatchObject({ id, status: 'pending' });
    await vi.waitFor(async () => expect((await deliveries('?status=delivered')).total).toBe(1));
    expect(server.requests.map((request) => request.headers['webhook-id'])).toEqual([id, id]);
    expect((await deliveries()).data[0].attempts).toHaveLength(2);
  });

  test('rotates the secret: both sign for a day, then the new one alone', async () => {
    const server = await receiver();
    const { id, secret: old } = await endpointFor(server.url);
    const { body } = await api.request('POST', `/v1/endpoints/${id}/rotate-secret`);
    expect(body.webhook_secret).toMatch(/^whsec_/);
    expect(body.webhook_secret).not.toBe(old);
    const signers = async (count: number) => {
      sender.wake();
      await vi.waitFor(() => expect(server.requests).toHaveLength(count));
      const request = server.requests[count - 1] as ReceivedRequest;
      const headers = request.headers as Record<string, string>;
      const at = new Date(Number(headers['webhook-timestamp']) * 1000);
      const signatures = (headers['webhook-signature'] ?? '').split(' ');
      return [body.webhook_secret, old].map((secret) =>
        signatures.includes(new Webhook(secret).sign(headers['webhook-id'] ?? '', at, request.body)),
      );
    };
    await begin(id);
    expect(await signers(1)).toEqual([true, true]);
    api.clock.set(api.clock.now() + 86_400_001);
    await begin(id);
    expect(await signers(2)).toEqual([true, false]);
  });
});

test('what a stopped sender had in flight is sent again by the next one, under the same id', async () => {
  let silent = true;
  const server = await receiver((_request, response) => {
    if (!silent) response.writeHead(204).end();
  });
  await begin((await endpointFor(server.url)).id);
  sender.wake();
  await vi.waitFor(() => expect(server.requests).toHaveLength(1));
  await sender.stop();
  await vi.waitFor(() => expect(server.connections).toBe(0));
  silent = false;
  sender = newSender();
  sender.start();
  api.clock.advance(13_000);
  await vi.waitFor(() => expect(server.requests).toHaveLength(2));
  expect(new Set(server.requests.map((request) => request.headers['webhook-id'])).size).toBe(1);
});

describe('a delivery that was accepted while the database cannot be written', () => {
  /** The outbox, whose `record` fails `times` times: before it writes, or after it has written. */
  const failing = (times: number, how: 'before' | 'after') => {
    const { webhookDeliveries } = api.store;
    const state = { failed: 0, deliveries: Object.create(webhookDeliveries) as typeof webhookDeliveries };
    state.deliveries.record = async (...asked) => {
      const fails = state.failed < times;
      if (fails) state.failed += 1;
      if (!fails || how === 'after') await webhookDeliveries.record(...asked);
      if (fails) throw new StoreError('unavailable', 'The database cannot be used right now');
    };
    return state;
  };
  const restartWith = async (deliveries: TestApi['store']['webhookDeliveries']) => {
    await sender.stop();
    sender = newSender(deliveries);
    sender.start();
  };
  const asTimePasses = async (done: () => Promise<void>) =>
    vi.waitFor(
      async () => {
        api.clock.advance(500);
        await done();
      },
      { timeout: 10_000, interval: 20 },
    );

  test.each(['before', 'after'] as const)('reaches the receiver once (failures come %s the write)', async (how) => {
    const server = await receiver();
    const outbox = failing(2, how);
    await restartWith(outbox.deliveries);
    await begin((await endpointFor(server.url)).id);
    await asTimePasses(async () => expect((await deliveries('?status=delivered')).total).toBe(1));
    await asTimePasses(async () => expect(outbox.failed).toBe(2));
    api.clock.advance(60_000); // any lease has ended
    sender.wake();
    await begin((await endpointFor(`${server.url}/other`)).id); // once this one arrives, the first would have been repeated
    await asTimePasses(async () => expect((await deliveries('?status=delivered')).total).toBe(2));
    expect(server.requests.map(({ path }) => path)).toEqual(['/events', '/other/events']);
    expect((await deliveries()).data[1].attempts).toHaveLength(1);
  });

  test('is not repeated even when the database stays locked for longer than its lease', async () => {
    const server = await receiver();
    const outbox = failing(40, 'before');
    await restartWith(outbox.deliveries);
    await begin((await endpointFor(server.url)).id);
    await asTimePasses(async () => expect((await deliveries('?status=delivered')).total).toBe(1));
    expect(outbox.failed).toBe(40); // more than 30 s
    expect(server.requests).toHaveLength(1);
  });

  test('keeps a sender that stops from ending no longer than it may', async () => {
    const server = await receiver();
    const outbox = failing(1e9, 'before');
    await restartWith(outbox.deliveries);
    await begin((await endpointFor(server.url)).id);
    await vi.waitFor(() => expect(outbox.failed).toBeGreaterThan(0));
    await sender.stop(100);
    expect(server.requests).toHaveLength(1);
  });
});

test('an endpoint gets eight requests at once at most, also when the last of the ones before ends during a claim', async () => {
  let open = 0;
  let most = 0;
  const answers: ServerResponse[] = [];
  const server = await receiver((_request, response) => {
    open += 1;
    most = Math.max(most, open);
    answers.push(response);
  });
  const answerAll = (): void => {
    for (const response of answers.splice(0)) {
      open -= 1;
      response.writeHead(204).end();
    }
  };
  const { webhookDeliveries } = api.store;
  const slow = Object.create(webhookDeliveries) as typeof webhookDeliveries;
  let recorded = 0;
  let hold: Promise<unknown> | null = null;
  slow.record = async (...asked) => {
    await webhookDeliveries.record(...asked);
    recorded += 1;
  };
  slow.claim = async (...asked) => {
    const claimed = await webhookDeliveries.claim(...asked);
    await hold;
    return claimed;
  };
  await sender.stop();
  sender = newSender(slow);
  sender.start();
  const { id } = await endpointFor(server.url);
  await begin(id);
  await vi.waitFor(() => expect(open).toBe(1));
  let release = (): void => {};
  hold = new Promise<void>((resolve) => {
    release = resolve;
  });
  for (let call = 0; call < 20; call += 1) await begin(id); // a claim of seven of them waits
  answerAll();
  await vi.waitFor(() => expect(recorded).toBe(1));
  hold = null;
  release();
  await vi.waitFor(
    () => {
      sender.wake();
      if (open >= 7 || recorded + open === 21) setTimeout(answerAll, 100); // full, or the rest
      expect(recorded).toBe(21);
    },
    { timeout: 10_000, interval: 20 },
  );
  expect(most).toBeLessThanOrEqual(8);
});
