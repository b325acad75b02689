import { loadDriver } from '../../src/store/sqlite/driver.js';
import { query } from '../support/postgres-server.js';

const tables = [
  ...['calls', 'call_events', 'phone_numbers', 'call_dialogs', 'rates', 'call_funds', 'ledger', 'webhook_deliveries'],
  ...['call_traces', 'call_quality', 'recordings'],
];

export interface Attempts {
  /** Records of a node that refused the INVITE, or stood still with it, before another one answered. */
  unanswered: number;
  /** Of a node that stood still, and answered when the proxy had given the call to another one; the caller's side ended it. */
  answeredTwice: number;
}

/**
 * Copies what calls leave from PostgreSQL into a SQLite file, for the one judge of the nine promises. Behind a proxy an INVITE may meet several
 * nodes: the record of the one that answered first is the call's, and the others lose its Call-ID here.
 */
export async function recordsFile(databaseUrl: string, file: string): Promise<Attempts> {
  const Driver = loadDriver();
  const database = new Driver(file, {});
  try {
    for (const table of tables) {
      const named = `select column_name as name from information_schema.columns where table_name = '${table}'`;
      const columns = (await query(databaseUrl, named)).map(({ name }) => String(name));
      database.exec(`create table ${table} (${columns.join(', ')})`);
      const insert = database.prepare(`insert into ${table} values (${columns.map(() => '?').join(', ')})`);
      for (const row of await query(databaseUrl, `select * from ${table}`))
        insert.run(...columns.map((name) => row[name] as never));
    }
    const first = `select id from (select id, row_number() over (
      partition by sip_call_id order by answered_at is null, answered_at, id) as place from calls) where place = 1`;
    const others = (answered: string) =>
      `sip_call_id is not null and id not in (${first}) and answered_at is ${answered}`;
    const counted = (which: string) =>
      (database.prepare(`select count(*) as n from calls where ${which}`).all() as { n: number }[])[0]?.n ?? 0;
    const attempts = { unanswered: counted(others('null')), answeredTwice: counted(others('not null')) };
    database.exec(`update calls set sip_call_id = null where sip_call_id is not null and id not in (${first})`);
    return attempts;
  } finally {
    database.close();
  }
}
