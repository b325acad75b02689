import { type Database, type Execute, type Reads, Statements } from '../database/database.js';
import { StoreError } from '../database/errors.js';
import { type LongReader, type LongReads, longReads } from '../database/long-reads.js';
import type { Scope } from '../tenants/scope.js';
import type { Connections } from './connections.js';
import { postgresDialect } from './dialect.js';
import { postgresQueries } from './queries.js';

const mostWaiting = 100;
const mostOfOne = 10;

/** Questions that may take long, on connections of their own; the server ends them at the connections' limit. */
export class PooledLongReads implements LongReader {
  private readonly asking = new Map<string, number>();
  private isClosed = false;

  constructor(private readonly connections: Connections) {}

  async ask<N extends keyof LongReads>(
    name: N,
    ...asked: Parameters<LongReads[N]>
  ): Promise<Awaited<ReturnType<LongReads[N]>>> {
    if (this.isClosed) throw new StoreError('unavailable', 'The server is stopping');
    const of = asked[0] as Scope | string;
    const organizationId = typeof of === 'string' ? of : of.organizationId;
    const own = this.asking.get(organizationId) ?? 0;
    const all = [...this.asking.values()].reduce((sum, n) => sum + n, 0);
    if (all >= mostWaiting || own >= mostOfOne)
      throw new StoreError('too_many', 'Too many long queries are running at once');
    this.asking.set(organizationId, own + 1);
    try {
      return await this.connections.use((_, execute) => {
        const reads = longReads(new ReadsInSnapshot(execute));
        const method = reads[name] as (...asked: unknown[]) => Promise<unknown>;
        return method(...asked) as Promise<Awaited<ReturnType<LongReads[N]>>>;
      });
    } catch (error) {
      const { code } = ((error as Error).cause ?? {}) as { code?: string };
      if (code === '57014') throw new StoreError('too_slow', 'The query takes longer than 10 s');
      throw error;
    } finally {
      const left = (this.asking.get(organizationId) ?? 1) - 1;
      if (left > 0) this.asking.set(organizationId, left);
      else this.asking.delete(organizationId);
    }
  }

  close(): void {
    this.isClosed = true;
  }
}

/** One connection; a snapshot within a snapshot is the same one. */
class ReadsInSnapshot extends Statements implements Database {
  readonly #execute: Execute;
  #isOpen = false;

  constructor(execute: Execute) {
    super(postgresQueries, execute, postgresDialect);
    this.#execute = execute;
  }

  transaction(): Promise<never> {
    return Promise.reject(new Error('these connections do not write'));
  }

  async snapshot<T>(work: (reads: Reads) => Promise<T>): Promise<T> {
    if (this.#isOpen) return work(this);
    this.#isOpen = true;
    await this.#execute('begin isolation level repeatable read read only', [], 'changes');
    try {
      return await work(this);
    } finally {
      this.#isOpen = false;
      await this.#execute('rollback', [], 'changes').catch(() => {}); // lost with its connection
    }
  }

  remembered(): never {
    throw new Error('this connection remembers nothing');
  }
}
