/** The list of calls. */
import type { CallSummary } from '../../store/calls/call-records.js';
import type { CallSearchFilter } from '../../store/calls/call-search.js';
import { refuse } from './form.js';
import { AskedPage, periodOf, type Query, queryOf } from './pages.js';
import { callIdOf, presentTwilioCall } from './resources.js';
import type { TwilioAnswer, TwilioRoute } from './route.js';

export const listRoutes: TwilioRoute[] = [{ method: 'GET', path: 'Calls.json', handle: listCalls }];

async function listCalls(...[request, { scope }, { store }]: Parameters<TwilioRoute['handle']>): TwilioAnswer {
  const query = queryOf(request);
  const page = new AskedPage(request);
  await store.calls.flush();
  const filter = await filterOf(query, async (id) => store.records.get(scope, id));
  const calls = filter === null ? [] : await store.longReads.ask('listCalls', scope, filter, page.after, page.size + 1);
  const items = calls.map((call) => ({
    place: { createdMs: call.createdAt.getTime(), id: call.id },
    shown: presentTwilioCall(call, call.parentCallId, call.answeredBy),
  }));
  return { status: 200, body: page.of('calls', items) };
}

/** null: no call is like that. */
async function filterOf(
  query: Query,
  get: (id: string) => Promise<CallSummary | undefined>,
): Promise<CallSearchFilter | null> {
  const { From: from, To: to, ParentCallSid: parent, Status: status } = query;
  const started = periodOf(query, 'StartTime');
  const ended = periodOf(query, 'EndTime');
  const parentCallId = parent === undefined ? undefined : callIdOf(parent);
  const state = status === undefined ? {} : statuses[status];
  if (state === undefined) refuse('Status', `must be one of ${Object.keys(statuses).join(', ')}`);
  if (state === null || parentCallId === null) return null;
  const dialling = parentCallId === undefined ? undefined : await get(parentCallId);
  if (parentCallId !== undefined && dialling === undefined) return null;
  return {
    ...state,
    ...started,
    // A call dials while it runs: what is older or newer need not be read.
    ...(dialling && { fromMs: Math.max(started.fromMs ?? 0, dialling.createdAt.getTime()) }),
    ...(dialling?.completedAt && {
      beforeMs: Math.min(started.beforeMs ?? Number.MAX_SAFE_INTEGER, dialling.completedAt.getTime() + 1),
    }),
    ...(from && { fromNumber: from }),
    ...(to && { toNumber: to }),
    ...(parentCallId !== undefined && { parentCallId }),
    ...(ended.fromMs !== undefined && { endedFromMs: ended.fromMs }),
    ...(ended.beforeMs !== undefined && { endedBeforeMs: ended.beforeMs }),
  };
}

/** Twilio's statuses; null: no call of ours has it, because a call is dialled as soon as it is asked for. */
const statuses: { [status: string]: CallSearchFilter | null } = {
  queued: null,
  ringing: { status: 'in_progress', isAnswered: false },
  'in-progress': { status: 'in_progress', isAnswered: true },
  completed: { status: 'completed' },
  busy: { status: 'busy' },
  failed: { status: 'failed' },
  'no-answer': { status: 'no_answer', isCanceled: false },
  canceled: { status: 'no_answer', isCanceled: true },
};
