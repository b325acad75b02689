/** Two whole gateways on one PostgreSQL database: commands, events, settings and keys through either of them. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startTestApp, type TestApp } from '../support/app.js';
import { type FarCall, FarEnds } from '../support/far-ends.js';
import { demo } from '../support/fault-scene.js';
import { databaseOf } from '../support/open-store.js';
import { PostgresRelay } from '../support/postgres-relay.js';
import { webhookApp } from '../support/webhook-app.js';

const limit = { timeout: 20_000 };
const timersMs = { t1: 50, t2: 400, t4: 500 };
let one: TestApp;
let two: TestApp;
/** Between the first node and the database. */
let relay: PostgresRelay;
let ends: FarEnds;
let endsOfTwo: FarEnds;

beforeAll(async () => {
  const url = await databaseOf(randomBytes(8).toString('hex'));
  relay = await PostgresRelay.to(Number(new URL(url).port));
  const silent = { TRUNKLINE_RTP_FIRST_TIMEOUT_SEC: '300', TRUNKLINE_RTP_TIMEOUT_SEC: '300' }; // the phones send no audio
  one = await startTestApp({ TRUNKLINE_DATABASE_URL: relay.url(url), TRUNKLINE_NODE_NAME: 'one', ...silent }, timersMs);
  two = await startTestApp({ TRUNKLINE_DATABASE_URL: url, TRUNKLINE_NODE_NAME: 'two', ...silent }, timersMs);
  ends = await FarEnds.open(one.sip.addresses[0]!.port);
  endsOfTwo = await FarEnds.open(two.sip.addresses[0]!.port);
});
afterAll(async () => {
  relay.comeBack();
  await ends.close();
  await endsOfTwo.close();
  await two.end();
  await one.end();
  await relay.close();
});

/** A call of the first node, or of the one that these far ends call: answered, and its id. */
async function answered(number = demo, callers = ends): Promise<{ far: FarCall; id: string }> {
  const far = callers.call(number);
  expect(await far.final()).toBe(200);
  const scope = { organizationId: one.first?.organizationId ?? '', mode: 'live' } as const;
  const mine = async () => {
    const { data } = await two.store.records.list(scope, {}, { limit: 100, offset: 0 });
    return data.find((call) => call.sipCallId === far.callId)?.id;
  };
  await expect.poll(mine, limit).toBeTruthy();
  return { far, id: (await mine()) ?? '' };
}

interface Told {
  id: string;
  event_type: string;
  call_id: string;
}

/** Follows the events through a node, until `enough`. */
async function follow(app: TestApp, lastId: string | null, enough: (told: readonly Told[]) => boolean) {
  const told: Told[] = [];
  const ending = new AbortController();
  const response = await fetch(`${app.httpUrl}/v1/events`, {
    headers: { authorization: `Bearer ${app.key}`, ...(lastId === null ? {} : { 'last-event-id': lastId }) },
    signal: ending.signal,
  });
  let text = '';
  let isBegun!: () => void;
  const begun = new Promise<void>((resolve) => {
    isBegun = resolve;
  });
  const read = async () => {
    const decoder = new TextDecoder();
    for await (const bytes of response.body ?? []) {
      text += decoder.decode(bytes as Uint8Array, { stream: true });
      const blocks = text.split('\n\n');
      text = blocks.pop() ?? '';
      for (const block of blocks) {
        if (block.startsWith(': events')) isBegun();
        const [, data] = /^data: (.*)$/m.exec(block) ?? [];
        if (data !== undefined) told.push(JSON.parse(data) as Told);
        if (block.startsWith('event: reset')) throw new Error('the stream was reset');
      }
      if (enough(told)) break;
    }
    ending.abort();
    return told;
  };
  const all = read();
  all.catch(() => {});
  await begun;
  return { told, all };
}

const endOf = (told: readonly Told[], ids: readonly string[]) =>
  ids.every((id) => told.some((event) => event.call_id === id && event.event_type === 'call.completed'));

it('keys and the end of a call through the node that does not run it', async () => {
  const { far, id } = await answered();
  const call = await two.api<{ status: string }>('POST', `/v1/calls/${id}/dtmf`, { digits: '12' });
  expect(call.status).toBe('in_progress');
  const { events } = await two.api<{ events: { event_type: string }[] }>('GET', `/v1/calls/${id}`);
  expect(events.map(({ event_type }) => event_type)).toContain('dtmf.sent');
  expect(await two.api('POST', `/v1/calls/${id}/hangup`)).toMatchObject({ status: 'completed' });
  expect(await two.api('GET', `/v1/calls/${id}`)).toMatchObject({ status: 'completed', hangup_source: 'api' });
  await far.ended();
  expect(await two.api('POST', `/v1/calls/${id}/dtmf`, { digits: '1' }, 409)).toMatchObject({
    code: 'CALL_ALREADY_ENDED',
  });
});

it('a redirect and a failed transfer through the other node, with what the call says of them', async () => {
  const steered = await webhookApp(
    one,
    { '/start': [{ action: 'answer' }, { action: 'pause', seconds: 300 }] },
    { format: 'json' },
  );
  await expect.poll(() => two.store.phoneNumbers.findDialled(steered.number, 'live'), limit).toBeTruthy();
  const { far, id } = await answered(steered.number);
  const refused = await two.api<{ code: string }>('POST', `/v1/calls/${id}/transfer`, { to: 'sip:x@127.0.0.1:9' }, 409);
  expect(refused.code).toBe('CALL_COMMAND_FAILED');
  await two.api('POST', `/v1/calls/${id}/redirect`, { actions: [{ action: 'hangup' }] });
  await far.ended();
  await expect
    .poll(async () => (await two.api<{ status: string }>('GET', `/v1/calls/${id}`)).status, limit)
    .toBe('completed');
  await steered.server.close();
});

it('events of both nodes through either, in one order, and no hole when the reader moves to the other node', async () => {
  const ids: string[] = [];
  const before = await follow(two, null, (told) => told.some(({ event_type }) => event_type === 'call.answered'));
  const throughout = await follow(one, null, (told) => endOf(told, ids));
  const first = await answered();
  ids.push(first.id);
  const early = await before.all; // and this reader is gone
  const more = [await answered(demo, endsOfTwo), await answered()];
  ids.push(...more.map(({ id }) => id));
  const resumed = await follow(one, early.at(-1)?.id ?? '', (told) => endOf(told, ids));
  for (const { far } of [first, ...more]) await far.bye();
  const all = (await throughout.all).map(({ id }) => id);
  const parts = [...early, ...(await resumed.all)].map(({ id }) => id);
  const shared = Math.min(all.length, parts.length);
  expect(parts.slice(0, shared)).toEqual(all.slice(0, shared));
  expect(new Set(parts).size).toBe(parts.length);
});

it('a key that is revoked at one node is refused by the other', async () => {
  const { id, key } = await one.api<{ id: string; key: string }>('POST', '/v1/api-keys', {
    name: 'short',
    mode: 'live',
  });
  const status = async () =>
    (await fetch(`${two.httpUrl}/v1/calls`, { headers: { authorization: `Bearer ${key}` } })).status;
  await expect.poll(status, limit).toBe(200);
  await one.api('DELETE', `/v1/api-keys/${id}`);
  await expect.poll(status, limit).toBe(401);
});

it('a command to a node that does not answer fails with a sentence', async () => {
  const { far, id } = await answered();
  relay.goAway();
  const startedMs = performance.now();
  const failed = await two.api<{ error: string }>('POST', `/v1/calls/${id}/hangup`, undefined, 503);
  const tookMs = performance.now() - startedMs;
  console.log(`a command to a node that does not answer failed after ${Math.round(tookMs)} ms (aim: 1,000 ms)`);
  expect(tookMs).toBeLessThan(10_000);
  expect(failed.error).toMatch(/The node one that runs the call does not answer/);
  relay.comeBack();
  await expect.poll(() => one.store.writable(), limit).toBe(true);
  await far.bye();
  await expect.poll(() => one.live.count, limit).toBe(0);
});
