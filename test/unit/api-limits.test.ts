import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type TestApi, testApi } from '../support/api.js';
import { openStore } from '../support/open-store.js';

let api: TestApi;
const nowMs = Date.UTC(2026, 0, 15, 12);

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date', 'performance'], now: nowMs });
});
afterEach(async () => {
  vi.useRealTimers();
  await api.close();
});

/** Both clocks move on to this time. */
const goTo = (ms: number) => vi.advanceTimersByTime(ms - Date.now());
const get = (options = {}) => api.request('GET', '/v1/me', options);
const limits = ({ headers }: Awaited<ReturnType<typeof get>>) =>
  ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset'].map((name) => Number(headers[name]));

describe('requests of an organization', () => {
  it.each([
    ['free', 10, 1_000],
    ['pro', 50, 50_000],
    ['business', 200, 500_000],
    ['enterprise', 1_000, 10_000_000],
  ] as const)('%s: %i a second, %i a day', async (tier, perSecond, perDay) => {
    api = await testApi({ tier });
    const answer = await get();
    expect(limits(answer)).toEqual([perSecond, perSecond - 1, nowMs / 1000 + 1]);
    expect(answer.headers['ratelimit-policy']).toBe(`"second";q=${perSecond};w=1, "day";q=${perDay};w=86400`);
    expect(answer.headers.ratelimit).toBe(`"second";r=${perSecond - 1};t=1, "day";r=${perDay - 1};t=43200`);
  });

  it('are counted together over all its keys, and refused with the error body', async () => {
    api = await testApi({ tier: 'free' });
    const other = await api.addKey({ organizationId: api.a.organizationId });
    for (let i = 0; i < 10; i += 1) expect((await get({ key: i % 2 ? other : api.a.key })).status).toBe(200);
    const refused = await get();
    expect([refused.status, refused.body.code, refused.body.details]).toEqual([
      429,
      'RATE_LIMIT_EXCEEDED',
      { limited_by: 'second' },
    ]);
    expect(refused.headers['retry-after']).toBe('1');
    expect(limits(refused)).toEqual([10, 0, nowMs / 1000 + 1]);
    expect((await get({ key: api.b.key })).status).toBe(200);
    goTo(nowMs + 1000);
    expect((await get()).status).toBe(200);
  });

  it('pass the edge of a second without a second helping', async () => {
    api = await testApi({ tier: 'free' });
    goTo(nowMs + 950);
    for (let i = 0; i < 10; i += 1) expect((await get()).status).toBe(200);
    goTo(nowMs + 1_000);
    const refused = await get();
    expect([refused.status, refused.headers['retry-after'], limits(refused)]).toEqual([
      429,
      '1',
      [10, 0, nowMs / 1000 + 2],
    ]);
    goTo(nowMs + 1_949);
    expect((await get()).status).toBe(429);
    goTo(nowMs + 1_950);
    expect(limits(await get())).toEqual([10, 9, nowMs / 1000 + 3]);
  });

  it('never pass the limit when they come at once', async () => {
    api = await testApi({ tier: 'free' });
    const answers = await Promise.all(Array.from({ length: 40 }, () => get()));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(10);
  });

  it('are refused by the day when it is used up; what the second refuses is not charged to it', async () => {
    api = await testApi();
    const limited = await api.store.organizations.create({
      name: 'Own limits',
      tier: 'enterprise',
      limits: { requests_per_second: 2, requests_per_day: 5 },
    });
    const key = await api.addKey({ organizationId: limited.id });
    const statuses: number[] = [];
    for (let second = 0; second < 3; second += 1) {
      goTo(nowMs + second * 1000);
      for (let i = 0; i < 3; i += 1) statuses.push((await get({ key })).status);
    }
    // The third of each second is refused by the second; the day's five are over after five that passed.
    expect(statuses).toEqual([200, 200, 429, 200, 200, 429, 200, 429, 429]);
    goTo(nowMs + 10_000);
    const refused = await get({ key });
    expect([refused.status, refused.body.details]).toEqual([429, { limited_by: 'day' }]);
    expect(limits(refused)).toEqual([5, 0, nowMs / 1000 + 43_200]); // midnight UTC
    expect(refused.headers['retry-after']).toBe(String(43_200 - 10));
    goTo(nowMs + 43_200_000);
    expect((await get({ key })).status).toBe(200);
  });

  it('tell the state on errors too', async () => {
    api = await testApi({ tier: 'free' });
    for (const url of ['/v1/calls/0198aaaa-0000-7000-8000-00000000dead', '/v1/calls?page=0']) {
      const answer = await api.request('GET', url);
      expect(answer.status).toBeGreaterThanOrEqual(400);
      expect(limits(answer)[0]).toBe(10);
    }
    expect(limits(await get())).toEqual([10, 7, nowMs / 1000 + 1]);
  });

  it('count for paths and methods that do not exist too, against the organization and not the address', async () => {
    api = await testApi();
    for (const [method, url, status] of [
      ['GET', '/v1/nowhere', 404],
      ['PUT', '/v1/calls', 405],
    ] as const) {
      for (let i = 0; i < 30; i += 1) {
        const answer = await api.request(method, url, { remoteAddress: '203.0.113.7' });
        expect([answer.status, limits(answer)[0]]).toEqual([status, 1_000]);
      }
    }
    expect(limits(await get())[1]).toBe(1_000 - 61);
    const basic = Buffer.from(`AC${api.a.organizationId.replaceAll('-', '')}:${api.a.key}`).toString('base64');
    const headers = { authorization: `Basic ${basic}` };
    const twilio = await api.request('GET', '/2010-04-01/Accounts/x/Nothing.json', { headers });
    expect([twilio.status, limits(twilio)[1]]).toEqual([404, 1_000 - 62]);
    const free = await testApi({ tier: 'free' });
    for (let i = 0; i < 10; i += 1) expect((await free.request('GET', '/v1/nowhere')).status).toBe(404);
    expect((await free.request('GET', '/v1/nowhere')).status).toBe(429);
    await free.close();
  });

  it('of a foreign organization count against the own one, and stay 403', async () => {
    api = await testApi({ tier: 'free' });
    const headers = { 'x-organization-id': api.b.organizationId };
    for (let i = 0; i < 12; i += 1) expect((await get({ headers })).status).toBe(403);
    expect((await get()).status).toBe(429);
    expect((await get({ key: api.b.key })).status).toBe(200);
  });
});

describe('requests without a valid key', () => {
  it('are limited to 20 a second per address, and never stop a valid key', async () => {
    api = await testApi();
    const remoteAddress = '203.0.113.5';
    const ask = (key: string | null) => get({ key, remoteAddress });
    for (let i = 0; i < 20; i += 1) expect((await ask('wrong')).status).toBe(401);
    const refused = await ask('wrong');
    expect([refused.status, refused.body.code]).toEqual([429, 'RATE_LIMIT_EXCEEDED']);
    expect(refused.headers['retry-after']).toBe('1');
    expect((await api.request('GET', '/v1/nowhere', { key: null, remoteAddress })).status).toBe(429);
    expect((await api.request('GET', '/v1/nowhere', { remoteAddress })).status).toBe(404);
    expect((await ask(api.a.key)).status).toBe(200);
    expect((await api.request('GET', '/healthz', { remoteAddress })).status).toBe(200);
    expect((await get({ key: 'wrong', remoteAddress: '203.0.113.6' })).status).toBe(401);
  });

  it('go by X-Forwarded-For of trusted proxies only', async () => {
    const ask = (remoteAddress: string, i: number) =>
      get({ key: null, remoteAddress, headers: { 'x-forwarded-for': `198.51.100.${i}` } });
    api = await testApi({ trustedProxies: ['10.0.0.0/8'] });
    for (let i = 0; i < 25; i += 1) expect((await ask('10.0.0.1', i)).status).toBe(401);
    const spoofed = await Promise.all(Array.from({ length: 25 }, (_, i) => ask('203.0.113.9', i)));
    expect(spoofed.filter(({ status }) => status === 429)).toHaveLength(5);
  });
});

describe('the count of a day', () => {
  it('outlives the process', async () => {
    api = await testApi();
    const { id } = await api.store.organizations.create({
      name: 'D',
      tier: 'enterprise',
      limits: { requests_per_day: 3 },
    });
    const key = await api.addKey({ organizationId: id });
    expect((await get({ key })).status).toBe(200);
    expect((await get({ key })).status).toBe(200);
    api.clock.advance(1_000);
    await api.store.requestDays.flush();
    const other = await openStore({ file: api.file, clock: api.clock });
    const day = Math.floor(nowMs / 86_400_000);
    expect(await other.requestDays.read(id, day)).toBe(2);
    // Another process counts on, and both see all.
    expect(await other.requestDays.add(id, day)).toBe(3);
    await other.close();
    expect((await get({ key })).status).toBe(200);
    api.clock.advance(1_000);
    await api.store.requestDays.flush();
    const spent = await get({ key });
    expect([spent.status, spent.body.details]).toEqual([429, { limited_by: 'day' }]);
  });
});
