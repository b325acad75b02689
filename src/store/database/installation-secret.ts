import { randomBytes } from 'node:crypto';
import type { Database } from './database.js';

/** 32 random bytes under this name: the same for all processes of this database, and after a restart. Made when they are first asked for. */
export async function installationSecret(database: Database, name: string): Promise<Buffer> {
  const { sql } = database;
  const find = sql.selectFrom('installation_secrets').select('secret').where('name', '=', name);
  const found =
    (await database.get(find)) ??
    (await database.transaction(async (transaction) => {
      const values = { name, secret: randomBytes(32).toString('hex') };
      const add = sql.insertInto('installation_secrets').values(values);
      await transaction.run(add.onConflict((conflict) => conflict.doNothing()));
      return (await transaction.get(find)) ?? values;
    }));
  return Buffer.from(found.secret, 'hex');
}
