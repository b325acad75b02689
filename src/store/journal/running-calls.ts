import type { Reads } from '../database/database.js';
import { boundOf } from '../database/ids.js';
import type { Scope } from '../tenants/scope.js';

/** No call lasts so long: `max_call_sec` is a week at most. Months before need not be looked into. */
const longerThanAnyCallMs = 31 * 86_400_000;
const running =
  "select count(*) as running from calls where organization_id = ? and mode = ? and status = 'in_progress' and id >= ?";

/** Calls in progress, in all processes. */
export async function countRunning(reads: Reads, { organizationId, mode }: Scope): Promise<number> {
  const oldestId = boundOf(Date.now() - longerThanAnyCallMs);
  const counted = await reads.row<{ running: number }>(running, organizationId, mode, oldestId);
  return counted?.running ?? 0;
}
