import { get, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type TestApi, testApi } from '../support/api.js';

/** Tokens of the event stream, as a browser's EventSource redeems them: one GET without any header of its own. */

let api: TestApi;
let port: number;
const streams: IncomingMessage[] = [];
beforeEach(async () => {
  api = await testApi();
  await api.app.listen({ host: '127.0.0.1', port: 0 });
  port = (api.app.server.address() as AddressInfo).port;
});
afterEach(async () => {
  for (const stream of streams.splice(0)) stream.destroy();
  await api.close();
});

const issue = async (key = api.a.key, headers: Record<string, string> = {}) => {
  const { status, body } = await api.request('POST', '/v1/events/token', { key, headers });
  expect(status).toBe(200);
  return body as { token: string; expires_at: string };
};

/** As EventSource: `readyState` is closed for good after any status but 200. */
class EventSourceLike {
  status = 0;
  isClosed = false;
  readonly types: string[] = [];
  private text = '';

  constructor(token: string) {
    const headers = { accept: 'text/event-stream', 'cache-control': 'no-store' };
    const path = `/v1/events?token=${encodeURIComponent(token)}`;
    get({ host: '127.0.0.1', port, path, headers }, (stream) => {
      streams.push(stream);
      this.status = stream.statusCode ?? 0;
      stream.setEncoding('utf8');
      stream.on('data', (chunk: string) => {
        this.text += chunk;
        const blocks = this.text.split('\n\n');
        this.text = blocks.pop() ?? '';
        for (const block of blocks) {
          const type = /^event: (.*)$/m.exec(block)?.[1];
          if (type) this.types.push(type);
        }
      });
      stream.on('close', () => {
        this.isClosed = true;
      });
      stream.on('error', () => {});
    });
  }

  static async open(token: string): Promise<EventSourceLike> {
    const source = new EventSourceLike(token);
    await expect.poll(() => source.status).not.toBe(0);
    return source;
  }
}

const begin = async (organizationId: string) => {
  const id = api.store.calls.begin({
    ...{ organizationId, mode: 'live', direction: 'inbound', fromNumber: 'x', toNumber: 'y' },
    ...{ phoneNumberId: api.a.userId, endpointId: null },
  });
  await api.store.calls.flush();
  return id;
};

describe('a token of the event stream', () => {
  it('opens a stream with the rights of its key, and no other', async () => {
    const { token, expires_at } = await issue();
    expect(Date.parse(expires_at) - api.clock.now()).toBe(60_000);
    const source = await EventSourceLike.open(token);
    expect(source.status).toBe(200);
    await begin(api.b.organizationId);
    await begin(api.a.organizationId);
    await expect.poll(() => source.types).toEqual(['call.initiated']);
  });

  it('acts in the organization that was chosen when it was issued', async () => {
    await api.store.organizations.addMember(api.b.organizationId, api.a.userId, 'member');
    const { token } = await issue(api.a.key, { 'x-organization-id': api.b.organizationId });
    const source = await EventSourceLike.open(token);
    await begin(api.a.organizationId);
    await begin(api.b.organizationId);
    await begin(api.b.organizationId);
    await expect.poll(() => source.types.length).toBe(2);
  });

  it('works once', async () => {
    const { token } = await issue();
    expect((await EventSourceLike.open(token)).status).toBe(200);
    expect((await EventSourceLike.open(token)).status).toBe(401);
  });

  it('works for a minute', async () => {
    const [early, late] = [await issue(), await issue()];
    api.clock.advance(59_999);
    expect((await EventSourceLike.open(early.token)).status).toBe(200);
    api.clock.advance(1);
    expect((await EventSourceLike.open(late.token)).status).toBe(401);
  });

  it('must be one that was issued', async () => {
    await issue();
    for (const token of ['', 'x', 'A'.repeat(32), 'trunkline_live_x'])
      expect((await EventSourceLike.open(token)).status, token).toBe(401);
    expect((await EventSourceLike.open('x'.repeat(129))).status).toBe(401);
  });

  it('opens nothing else', async () => {
    const { token } = await issue();
    for (const url of ['/v1/me', '/v1/calls', '/v1/calls/export'])
      expect((await api.request('GET', `${url}?token=${token}`, { key: null })).status, url).toBe(401);
    expect((await api.request('POST', `/v1/events/token?token=${token}`, { key: null })).status).toBe(401);
    expect((await api.request('GET', '/v1/me', { key: token })).status).toBe(401);
    expect((await api.request('GET', '/v1/events', { key: token })).status).toBe(401);
    expect((await EventSourceLike.open(token)).status).toBe(200); // none of this used it up
  });

  it('is worth nothing after its key, and its stream ends with the key', async () => {
    const create = async () =>
      (await api.request('POST', '/v1/api-keys', { body: { name: 'Short', mode: 'live' } })).body;
    const [first, second] = [await create(), await create()];
    const early = await issue(first.key);
    await api.request('DELETE', `/v1/api-keys/${first.id}`);
    expect((await EventSourceLike.open(early.token)).status).toBe(401);
    const source = await EventSourceLike.open((await issue(second.key)).token);
    expect(source.status).toBe(200);
    await api.request('DELETE', `/v1/api-keys/${second.id}`);
    await expect.poll(() => source.isClosed).toBe(true);
  });
});
