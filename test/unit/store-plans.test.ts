import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadDriver } from '../../src/store/sqlite/driver.js';
import { Store } from '../../src/store/store.js';

/** What the thread of calls asks of tables that grow is answered from an index that has just what is asked, also before SQLite knows any figures. */

let dir: string;
let database: InstanceType<ReturnType<typeof loadDriver>>;
beforeAll(async () => {
  dir = mkdtempSync(path.join(tmpdir(), 'trunkline-plans-'));
  const file = path.join(dir, 'trunkline.db');
  await (await Store.open({ file })).close();
  database = new (loadDriver())(file, { readonly: true });
});
afterAll(() => {
  database.close();
  rmSync(dir, { recursive: true });
});

const own = 'organization_id = ? and mode = ?';
const newest = 'order by created_at desc, id desc limit 20';
const between = 'created_at < ? and created_at >= ?';
const questions: Record<string, [sql: string, index: string]> = {
  'a page of calls': [`select id from calls where ${own} and ${between} ${newest}`, 'calls_newest'],
  'of a status': [`select id from calls where ${own} and status = ? and ${between} ${newest}`, 'calls_by_status'],
  'of a direction': [
    `select id from calls where ${own} and direction = ? and ${between} ${newest}`,
    'calls_by_direction',
  ],
  'of a number': [
    `select id from calls where ${own} and phone_number_id = ? and ${between} ${newest}`,
    'calls_by_number',
  ],
  'of a status and direction': [
    `select id from calls where ${own} and status = ? and direction = ? and ${between} ${newest}`,
    'calls_by_status',
  ],
  'of all three': [
    `select id from calls where ${own} and status = ? and direction = ? and phone_number_id = ? and ${between} ${newest}`,
    'calls_by_number',
  ],
  'running calls': [`select count(*) from calls where ${own} and status = 'in_progress'`, 'calls_by_status'],
  'calls from a number': ['select id from calls where from_number >= ? and from_number < ?', 'calls_by_from_number'],
  'calls to a number': ['select id from calls where to_number >= ? and to_number < ?', 'calls_by_to_number'],
  'deliveries of a call': [
    `select * from webhook_deliveries where ${own} and call_id = ? ${newest}`,
    'webhook_deliveries_by_call',
  ],
  'deliveries of an endpoint': [
    `select id from webhook_deliveries where ${own} and endpoint_id = ? limit 200`,
    'webhook_deliveries_by_endpoint',
  ],
  'what goes with an endpoint': [
    'select id from webhook_deliveries where endpoint_id = ?',
    'webhook_deliveries_by_endpoint',
  ],
};

describe('the plan of', () => {
  it.each(Object.entries(questions))('%s is its index, in order', (_name, [sql, index]) => {
    const values = Array((sql.match(/\?/g) ?? []).length).fill('x');
    const plan = database.prepare(`explain query plan ${sql}`).all(...values) as { detail: string }[];
    expect(plan.map(({ detail }) => detail.replace('COVERING ', ''))).toEqual([
      expect.stringMatching(new RegExp(`^SEARCH \\w+ USING INDEX ${index} `)),
    ]);
  });
});
