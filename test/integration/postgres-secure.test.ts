import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Store } from '../../src/store/store.js';
import { type PostgresServer, query, startPostgres } from '../support/postgres-server.js';
import { server as certified, tlsFile } from '../support/tls.js';

/** A server that asks for a password and speaks TLS with a certificate of an authority of its own. */
let server: PostgresServer;
const password = 'p4ss word%';

beforeAll(async () => {
  server = await startPostgres({ password, ...certified });
});
afterAll(() => server?.stop());

const address = (parameters: string) => `${server.url('postgres')}?${parameters}`;
const refusal = async (url: string) =>
  Store.open({ url }).then(
    async (store) => {
      await store.close();
      return 'it was opened';
    },
    (error: Error & { code: string }) => `${error.code}: ${error.message}`,
  );

describe('a database with verify-full', () => {
  it('is used over TLS on every connection, when its authority is named', async () => {
    const store = await Store.open({ url: address(`sslmode=verify-full&sslrootcert=${tlsFile('authority.pem')}`) });
    await store.organizations.create({ name: 'A', tier: 'free' });
    await store.calls.flush();
    const connections = await query(
      server.url('postgres'),
      `select application_name as name, ssl from pg_stat_ssl join pg_stat_activity using (pid)
       where application_name like 'trunkline%' order by 1`,
    );
    expect([...new Set(connections.map(({ name }) => name))]).toEqual(
      expect.arrayContaining(['trunkline', 'trunkline journal', 'trunkline notifications']),
    );
    expect(connections.every(({ ssl }) => ssl)).toBe(true);
    await store.close();
  });

  it('is refused in a sentence when its certificate is not trusted', async () => {
    for (const authority of ['', `&sslrootcert=${tlsFile('stranger.pem')}`]) {
      const refused = await refusal(address(`sslmode=verify-full${authority}`));
      expect(refused).toMatch(
        /^cannot_open: The certificate of the PostgreSQL server is not trusted: .*sslrootcert=FILE/,
      );
      expect(refused).not.toContain('p4ss');
    }
  });
});

it('a wrong password is named without being shown', async () => {
  const url = new URL(server.url('postgres'));
  url.password = 'wrong-secret';
  const refused = await refusal(url.href);
  expect(refused).toMatch(/^cannot_open: PostgreSQL refuses the user or the password of database_url/);
  expect(refused).not.toContain('wrong-secret');
  url.password = '';
  expect(await refusal(url.href)).toMatch(/^cannot_open: PostgreSQL refuses the user or the password of database_url/);
});
