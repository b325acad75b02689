import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type CallFilter, dayMs } from '../../src/store/calls/call-counts.js';
import { loadDriver } from '../../src/store/sqlite/driver.js';
import { Store } from '../../src/store/store.js';
import { FakeClock } from '../support/fake-clock.js';

/** Counts and pages against what plain SQL over the calls says, over random calls; many of them at the edges of UTC days. */

const firstDay = 20_000;
const days = 8;
const statuses = ['completed', 'failed', 'in_progress', 'no_answer', 'busy'] as const;
const numbers = ['0198aaaa-0000-7000-8000-000000000001', '0198aaaa-0000-7000-8000-000000000002'];
let dir: string;
let store: Store;
let other: InstanceType<ReturnType<typeof loadDriver>>;
let organizations: string[];

beforeAll(async () => {
  dir = mkdtempSync(path.join(tmpdir(), 'trunkline-counts-'));
  const file = path.join(dir, 'trunkline.db');
  store = await Store.open({ file, clock: new FakeClock((firstDay + days) * dayMs) });
  organizations = [];
  for (const name of ['A', 'B']) organizations.push((await store.organizations.create({ name, tier: 'free' })).id);
  const Driver = loadDriver();
  other = new Driver(file);
  const edge = fc.constantFrom(0, 1, dayMs - 1, dayMs / 2, 3_600_000, 3_599_999);
  const call = fc.record({
    organization: fc.constantFrom(...organizations),
    mode: fc.constantFrom('live' as const, 'test' as const),
    direction: fc.constantFrom('inbound' as const, 'outbound' as const),
    status: fc.constantFrom(...statuses),
    number: fc.constantFrom(...numbers),
    atMs: fc
      .tuple(fc.integer({ min: 0, max: days - 1 }), fc.oneof(edge, fc.integer({ min: 0, max: dayMs - 1 })))
      .map(([day, ms]) => (firstDay + day) * dayMs + ms),
    deleted: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
  });
  for (const c of fc.sample(call, { numRuns: 1500, seed: 7 })) {
    const id = store.calls.begin({
      organizationId: c.organization,
      mode: c.mode,
      direction: c.direction,
      fromNumber: 'x',
      toNumber: 'y',
      phoneNumberId: c.number,
      endpointId: null,
      createdAt: new Date(c.atMs),
    });
    if (c.status === 'in_progress') continue;
    const end = { hangupCause: 'normal_clearing', hangupSource: 'caller', durationSec: 1 } as const;
    store.calls.finish(id, { status: c.status, ...end });
    if (c.deleted) await store.records.delete({ organizationId: c.organization, mode: c.mode }, id);
  }
  expect(await store.calls.flush()).toBe(true);
});
afterAll(async () => {
  await store.close();
  other.close();
  rmSync(dir, { recursive: true });
});

const filters = fc.record(
  {
    status: fc.constantFrom(...statuses),
    direction: fc.constantFrom('inbound' as const, 'outbound' as const),
    phoneNumberId: fc.constantFrom(...numbers),
    firstDay: fc.integer({ min: firstDay - 1, max: firstDay + days }),
    lastDay: fc.integer({ min: firstDay - 1, max: firstDay + days }),
  },
  { requiredKeys: [] },
);
const scopes = fc.record({
  organizationId: fc.nat(1).map((n) => organizations[n] ?? ''),
  mode: fc.constantFrom('live' as const, 'test' as const),
});

type Asked = CallFilter & { organizationId: string; mode: string };
const where = `where organization_id = @organizationId and mode = @mode
  and (@status is null or status = @status) and (@direction is null or direction = @direction)
  and (@phoneNumberId is null or phone_number_id = @phoneNumberId)
  and (@firstDay is null or created_at >= @firstDay * ${dayMs}) and (@lastDay is null or created_at < (@lastDay + 1) * ${dayMs})`;
const nothing = { status: null, direction: null, phoneNumberId: null, firstDay: null, lastDay: null };
const truth = (sql: string, asked: Asked) => other.prepare(sql).all({ ...nothing, ...asked }) as never[];

describe('counts kept beside the calls', () => {
  it('are what SQL counts, by status and by day', async () => {
    await fc.assert(
      fc.asyncProperty(scopes, filters, async (scope, filter) => {
        const counted = truth(`select status, count(*) as n from calls ${where} group by 1`, { ...scope, ...filter });
        const expected = Object.fromEntries(statuses.map((status) => [status, 0]));
        for (const { status, n } of counted as { status: string; n: number }[]) expected[status] = n;
        expect(await store.records.stats(scope, filter)).toEqual(expected);

        const span = { ...filter, firstDay: filter.firstDay ?? firstDay, lastDay: filter.lastDay ?? firstDay + days };
        const daily = truth(
          `select created_at / ${dayMs} as day, status, count(*) as n from calls ${where} group by 1, 2`,
          {
            ...scope,
            ...span,
          },
        ) as { day: number; status: string; n: number }[];
        const trends = await store.records.trends(scope, span);
        expect(trends).toHaveLength(Math.max(0, span.lastDay - span.firstDay + 1));
        trends.forEach(({ date, ...counts }, index) => {
          const day = span.firstDay + index;
          expect(date).toBe(new Date(day * dayMs).toISOString().slice(0, 10));
          const found = daily.filter((row) => row.day === day).map(({ status, n }) => [status, n]);
          expect(counts).toEqual({
            ...Object.fromEntries(statuses.map((status) => [status, 0])),
            ...Object.fromEntries(found),
          });
        });
      }),
      { numRuns: 60 },
    );
  });

  it('find every page of a list', async () => {
    await fc.assert(
      fc.asyncProperty(
        scopes,
        filters,
        fc.integer({ min: 1, max: 100 }),
        fc.nat(500),
        async (scope, filter, limit, offset) => {
          const all = truth(`select id from calls ${where} order by created_at desc, id desc`, {
            ...scope,
            ...filter,
          }) as {
            id: string;
          }[];
          const { data, total } = await store.records.list(scope, filter, { limit, offset });
          expect(total).toBe(all.length);
          expect(data.map(({ id }) => id)).toEqual(all.slice(offset, offset + limit).map(({ id }) => id));
        },
      ),
      { numRuns: 100 },
    );
  });
});
