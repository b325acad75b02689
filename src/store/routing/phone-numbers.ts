import { uuidv7 } from 'uuidv7';
import type { Clock } from '../database/clock.js';
import type { Database, Reads, Transaction } from '../database/database.js';
import { StoreError } from '../database/errors.js';
import type { PhoneNumberRow } from '../database/tables.js';
import type { Mode, Page, Scope, Slice } from '../tenants/scope.js';
import type { Endpoints } from './endpoints.js';
import type { RouteRule } from './route-rule.js';

export interface PhoneNumber {
  id: string;
  organizationId: string;
  mode: Mode;
  /** E.164 with `+`. */
  number: string;
  name: string;
  endpointId: string | null;
  fallbackEndpointId: string | null;
  routes: RouteRule[];
  status: 'active' | 'inactive';
  /** Gets the end of the number's inbound calls; null: that of the endpoint does. */
  statusCallbackUrl: string | null;
  statusCallbackMethod: 'GET' | 'POST';
  createdAt: Date;
  updatedAt: Date;
}

export interface PhoneNumberChange {
  name?: string;
  endpointId?: string | null;
  fallbackEndpointId?: string | null;
  routes?: RouteRule[];
  status?: 'active' | 'inactive';
  statusCallbackUrl?: string | null;
  statusCallbackMethod?: 'GET' | 'POST';
}

const ofNumber = 'select * from phone_numbers where number = ? and mode = ?';

export class PhoneNumbers {
  constructor(
    private readonly database: Database,
    private readonly clock: Clock,
    private readonly endpoints: Endpoints,
  ) {}

  /** Finds a dialled number, with or without `+`, in all organizations, from memory; it determines the organization of a call. */
  findDialled(dialled: string, mode: Mode): PhoneNumber | undefined {
    const digits = dialled.replace(/^\+/, '');
    if (!/^\d{1,32}$/.test(digits)) return undefined;
    const [row] = this.database.remembered('phone_numbers', { number: `+${digits}`, mode });
    return row && toPhoneNumber(row);
  }

  async list(scope: Scope, filter: { endpointId?: string; status?: string }, slice: Slice): Promise<Page<PhoneNumber>> {
    const filtered = this.within(scope)
      .$if(filter.endpointId !== undefined, (query) => query.where('endpoint_id', '=', filter.endpointId ?? ''))
      .$if(filter.status !== undefined, (query) =>
        query.where('status', '=', filter.status as PhoneNumberRow['status']),
      );
    const rows = await this.database.all(
      filtered.selectAll().orderBy('created_at', 'desc').orderBy('id', 'desc').limit(slice.limit).offset(slice.offset),
    );
    const counted = await this.database.get(filtered.select((is) => is.fn.countAll<number>().as('total')));
    return { data: rows.map(toPhoneNumber), total: counted?.total ?? 0 };
  }

  async get(scope: Scope, id: string, reads: Reads = this.database): Promise<PhoneNumber | undefined> {
    const row = await this.row(scope, id, reads);
    return row && toPhoneNumber(row);
  }

  /**
   * Throws `StoreError` `unknown_endpoint`, or `number_taken`: a number is unique per mode, in all organizations together.
   * Its `details.id` names the other record when it is the organization's own.
   */
  create(scope: Scope, number: PhoneNumberChange & { number: string }, within?: Transaction): Promise<PhoneNumber> {
    return this.database.transaction(async (transaction) => {
      await transaction.changedSettings();
      await this.requireEndpoints(scope, number, transaction);
      const taken = await transaction.row<PhoneNumberRow>(ofNumber, number.number, scope.mode);
      if (taken) {
        const details = taken.organization_id === scope.organizationId ? { id: taken.id } : {};
        throw new StoreError('number_taken', `The number ${number.number} is taken`, details);
      }
      const now = this.clock.now();
      const row: PhoneNumberRow = {
        id: uuidv7(),
        organization_id: scope.organizationId,
        mode: scope.mode,
        number: number.number,
        name: number.name ?? '',
        endpoint_id: number.endpointId ?? null,
        fallback_endpoint_id: number.fallbackEndpointId ?? null,
        routes: JSON.stringify(number.routes ?? []),
        status: number.status ?? 'active',
        status_callback_url: number.statusCallbackUrl ?? null,
        status_callback_method: number.statusCallbackMethod ?? 'POST',
        created_at: now,
        updated_at: now,
      };
      await transaction.run(transaction.sql.insertInto('phone_numbers').values(row));
      return toPhoneNumber(row);
    }, within);
  }

  update(scope: Scope, id: string, change: PhoneNumberChange): Promise<PhoneNumber | undefined> {
    return this.database.transaction(async (transaction) => {
      await transaction.changedSettings();
      if (!(await this.row(scope, id, transaction))) return undefined;
      await this.requireEndpoints(scope, change, transaction);
      const set: Partial<PhoneNumberRow> = {
        name: change.name,
        endpoint_id: change.endpointId,
        fallback_endpoint_id: change.fallbackEndpointId,
        routes: change.routes && JSON.stringify(change.routes),
        status: change.status,
        status_callback_url: change.statusCallbackUrl,
        status_callback_method: change.statusCallbackMethod,
        updated_at: this.clock.now(),
      };
      await transaction.run(transaction.sql.updateTable('phone_numbers').set(set).where('id', '=', id));
      return this.get(scope, id, transaction);
    });
  }

  delete(scope: Scope, id: string): Promise<boolean> {
    return this.database.transaction(async (transaction) => {
      await transaction.changedSettings();
      if (!(await this.row(scope, id, transaction))) return false;
      return (await transaction.run(transaction.sql.deleteFrom('phone_numbers').where('id', '=', id))) === 1;
    });
  }

  private async requireEndpoints(scope: Scope, change: PhoneNumberChange, reads: Reads): Promise<void> {
    await this.endpoints.requireOwn(scope, change.endpointId, 'endpoint_id', reads);
    await this.endpoints.requireOwn(scope, change.fallbackEndpointId, 'fallback_endpoint_id', reads);
    for (const [index, rule] of (change.routes ?? []).entries())
      await this.endpoints.requireOwn(scope, rule.endpoint_id, `routes.${index}.endpoint_id`, reads);
  }

  private within(scope: Scope) {
    return this.database.sql
      .selectFrom('phone_numbers')
      .where('organization_id', '=', scope.organizationId)
      .where('mode', '=', scope.mode);
  }

  private row(scope: Scope, id: string, reads: Reads = this.database): Promise<PhoneNumberRow | undefined> {
    return reads.get(this.within(scope).selectAll().where('id', '=', id));
  }
}

function toPhoneNumber(row: PhoneNumberRow): PhoneNumber {
  return {
    id: row.id,
    organizationId: row.organization_id,
    mode: row.mode,
    number: row.number,
    name: row.name,
    endpointId: row.endpoint_id,
    fallbackEndpointId: row.fallback_endpoint_id,
    routes: JSON.parse(row.routes) as RouteRule[],
    status: row.status,
    statusCallbackUrl: row.status_callback_url,
    statusCallbackMethod: row.status_callback_method,
    createdAt: new Date(row.created_at),
    updatedAt: new Date(row.updated_at),
  };
}
