/** Calls found by their ids in a way that lets a database with months of calls look into the right ones only. */
import { type Expression, type Kysely, sql as raw, type SqlBool } from 'kysely';
import type { Tables } from '../database/tables.js';
import type { Scope } from '../tenants/scope.js';

/** The condition that the call with the id in this column is of the scope. A join may read all calls of all months; this reads one. */
export function isOfScope(sql: Kysely<Tables>, { organizationId, mode }: Scope, column: string): Expression<SqlBool> {
  const owner = sql
    .selectFrom('calls')
    .select('calls.organization_id')
    .where('calls.id', '=', raw.ref<string>(column))
    .where('calls.mode', '=', mode);
  return raw<SqlBool>`(${owner}) = ${organizationId}`;
}

/** Filled up, so that there are few statements of different length. */
export function toPowerOfTwo<T>(values: readonly T[], filler: T): T[] {
  const length = 2 ** Math.ceil(Math.log2(values.length));
  return [...values, ...Array<T>(length - values.length).fill(filler)];
}
