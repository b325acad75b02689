import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type TestApi, testApi } from '../support/api.js';
import { identityProvider } from '../support/identity-provider.js';

let api: TestApi;
let port: number;
const streams: IncomingMessage[] = [];

beforeEach(async () => {
  api = await testApi({ heartbeatMs: 20 });
  await api.app.listen({ host: '127.0.0.1', port: 0 });
  port = (api.app.server.address() as AddressInfo).port;
});
afterEach(async () => {
  for (const stream of streams.splice(0)) stream.destroy();
  await api.close();
});

interface Told {
  id?: string;
  event: string;
  data: { call_id?: string; event_type?: string; sequence?: number };
}

/** A reader of the stream: what it was told, and waiting for more. */
async function follow(key: string, lastEventId?: string) {
  const headers = {
    authorization: `Bearer ${key}`,
    ...(lastEventId !== undefined && { 'last-event-id': lastEventId }),
  };
  const stream = await new Promise<IncomingMessage>((resolve, reject) =>
    get({ host: '127.0.0.1', port, path: '/v1/events', headers }, resolve).on('error', reject),
  );
  streams.push(stream);
  stream.setEncoding('utf8');
  let text = '';
  let notice = () => {};
  stream.on('data', (chunk: string) => {
    text += chunk;
    notice();
  });
  const told = (): Told[] =>
    text
      .split('\n\n')
      .slice(0, -1)
      .filter((block) => !block.startsWith(':'))
      .map((block) => {
        const fields = Object.fromEntries(block.split('\n').map((line) => line.split(/: (.*)/s).slice(0, 2)));
        return { ...fields, data: JSON.parse(fields.data) };
      });
  const until = async (enough: () => boolean) => {
    while (!enough())
      await new Promise<void>((resolve) => {
        notice = resolve;
      });
  };
  await until(() => text.startsWith(': events'));
  return { stream, told, text: () => text, until };
}

const begin = (organizationId = api.a.organizationId) =>
  api.store.calls.begin({
    organizationId,
    mode: 'live',
    direction: 'inbound',
    fromNumber: 'x',
    toNumber: 'y',
    phoneNumberId: api.a.userId,
    endpointId: null,
  });
const finish = (id: string) =>
  api.store.calls.finish(id, {
    status: 'completed',
    hangupCause: 'normal_clearing',
    hangupSource: 'caller',
    durationSec: 0,
  });

describe('GET /v1/events', () => {
  it("tells the organization's events as they happen, and nobody else's", async () => {
    const reader = await follow(api.a.key);
    expect(reader.stream.headers['content-type']).toBe('text/event-stream; charset=utf-8');
    expect(reader.stream.headers['x-ratelimit-limit']).toBe('1000');
    const test = await follow(await api.addKey({ organizationId: api.a.organizationId, mode: 'test' }));
    finish(begin(api.b.organizationId));
    const id = begin();
    api.store.calls.event(id, 'call.routed', { endpoint_id: null });
    finish(id);
    await api.store.calls.flush();
    await reader.until(() => reader.told().length === 3);
    expect(reader.told().map(({ event, data }) => [event, data.call_id, data.sequence])).toEqual([
      ['call.initiated', id, 1],
      ['call.routed', id, 2],
      ['call.completed', id, 3],
    ]);
    const detail = await api.request('GET', `/v1/calls/${id}`);
    const data = detail.body.events.map((event: object) => ({ ...event, call_id: id }));
    expect(reader.told().map((told) => told.data)).toEqual(data);
    expect(test.told()).toEqual([]);
  });

  it('gives a sign of life', async () => {
    const reader = await follow(api.a.key);
    await reader.until(() => reader.text().includes(': still here\n\n'));
  });

  it('goes on after the last event the reader knows', async () => {
    const first = begin();
    finish(begin(api.b.organizationId));
    finish(first);
    const events = (await api.request('GET', `/v1/calls/${first}`)).body.events;
    const reader = await follow(api.a.key, events[0].id);
    await reader.until(() => reader.told().length === 1);
    const second = begin();
    await api.store.calls.flush();
    await reader.until(() => reader.told().length === 2);
    expect(reader.told().map(({ event, data }) => [event, data.call_id])).toEqual([
      ['call.completed', first],
      ['call.initiated', second],
    ]);
  });

  it('tells a long past in order, and what comes meanwhile after it, each once', async () => {
    const id = begin();
    for (let n = 0; n < 450; n += 1) api.store.calls.event(id, 'call.routed', { n });
    const [first] = (await api.request('GET', `/v1/calls/${id}`)).body.events;
    const following = follow(api.a.key, first.id);
    while (api.store.calls.feed.count({ organizationId: api.a.organizationId, mode: 'live' }) === 0)
      await new Promise((resolve) => setImmediate(resolve));
    api.store.calls.event(id, 'call.ringing');
    await api.store.calls.flush(); // the past has not been read yet: that takes another thread
    const reader = await following;
    await reader.until(() => reader.told().length >= 451);
    finish(id);
    await api.store.calls.flush();
    await reader.until(() => reader.told().at(-1)?.event === 'call.completed');
    const sequences = reader.told().map(({ data }) => data.sequence);
    expect(sequences).toEqual(Array.from({ length: 452 }, (_, n) => n + 2));
  });

  it('says reset when that event is unknown, or of another organization', async () => {
    const foreign = begin(api.b.organizationId);
    finish(foreign);
    const { events } = (await api.request('GET', `/v1/calls/${foreign}`, { key: api.b.key })).body;
    for (const lastId of [events[0].id, api.a.userId, 'nonsense']) {
      const reader = await follow(api.a.key, lastId);
      await reader.until(() => reader.told().length === 1);
      expect(reader.told()[0]?.event).toBe('reset');
    }
  });

  it('cuts off a reader that does not read, and forgets those that leave', async () => {
    const scope = { organizationId: api.a.organizationId, mode: 'live' } as const;
    const reader = await follow(api.a.key);
    reader.stream.pause();
    const closed = new Promise((resolve) => reader.stream.once('close', resolve));
    const id = begin();
    const data = { text: 'x'.repeat(100_000) };
    for (let n = 0; n < 400 && api.store.calls.feed.count(scope) > 0; n += 1) {
      api.store.calls.event(id, 'transcript.final', data);
      await api.store.calls.flush();
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(api.store.calls.feed.count(scope)).toBe(0);
    reader.stream.resume();
    reader.stream.on('error', () => {});
    await closed;
    const leaves = await follow(api.a.key);
    expect(api.store.calls.feed.count(scope)).toBe(1);
    leaves.stream.destroy();
    while (api.store.calls.feed.count(scope) > 0) await new Promise((resolve) => setImmediate(resolve));
  });
});

describe('an open stream', () => {
  const within = async (reader: Awaited<ReturnType<typeof follow>>): Promise<number> => {
    const sinceMs = performance.now();
    await once(reader.stream, 'end');
    return performance.now() - sinceMs;
  };

  it('ends within a second when its key is revoked, and no other stream does', async () => {
    const { record, key } = await api.store.apiKeys.create({
      userId: api.a.userId,
      organizationId: null,
      mode: 'live',
      name: 'Second',
    });
    const [reader, other] = [await follow(key), await follow(api.a.key)];
    expect((await api.request('DELETE', `/v1/api-keys/${record.id}`)).status).toBe(204);
    expect(await within(reader)).toBeLessThan(1_000);
    begin();
    await api.store.calls.flush();
    await other.until(() => other.told().length === 1);
    expect(reader.told()).toEqual([]);
    expect(api.store.calls.feed.count({ organizationId: api.a.organizationId, mode: 'live' })).toBe(1);
  });

  it('ends when another process revokes its key', async () => {
    const reader = await follow(api.a.key);
    await api.write('update api_keys set revoked_at = 1');
    api.clock.advance(1_000);
    expect(await within(reader)).toBeLessThan(1_000);
  });

  it('ends when its user is removed from the organization, though they have another one', async () => {
    const user = await api.store.organizations.createUser({ name: 'Ada' });
    await api.store.organizations.addMember(api.a.organizationId, user.id, 'member');
    api.clock.advance(1);
    await api.store.organizations.addMember(api.b.organizationId, user.id, 'member');
    const of = { userId: user.id, organizationId: null, mode: 'live', name: 'K' } as const;
    const { key } = await api.store.apiKeys.create(of);
    const reader = await follow(key);
    const removed = await api.request('DELETE', `/v1/organizations/${api.a.organizationId}/members/${user.id}`);
    expect(removed.status).toBe(204);
    expect(await within(reader)).toBeLessThan(1_000);
  });

  it('ends when its token expires', async () => {
    const provider = await identityProvider();
    const withTokens = await testApi({ tokens: provider.settings });
    await withTokens.app.listen({ host: '127.0.0.1', port: 0 });
    port = (withTokens.app.server.address() as AddressInfo).port;
    try {
      const ada = await withTokens.store.organizations.createUser({ name: 'Ada', subject: 'ada' });
      await withTokens.store.organizations.addMember(withTokens.a.organizationId, ada.id, 'member');
      const reader = await follow(await provider.token({ sub: 'ada' }, withTokens.clock.now()));
      withTokens.clock.advance(125_000); // a minute's life and a minute for clocks that differ
      expect(await within(reader)).toBeLessThan(1_000);
    } finally {
      provider.close();
      await withTokens.close();
    }
  });
});
