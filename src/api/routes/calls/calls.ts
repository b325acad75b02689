import type { CallCommand, CallCommands } from '../../../call/core/command.js';
import type { CallFilter } from '../../../store/calls/call-counts.js';
import type { CallSummary, TraceEntry } from '../../../store/calls/call-records.js';
import type { Store } from '../../../store/store.js';
import type { Scope } from '../../../store/tenants/scope.js';
import { type Action, type FollowUp, InstructionError } from '../../../webhook/actions.js';
import { parseActionList } from '../../../webhook/json-actions.js';
import type { Caller } from '../../auth/caller.js';
import { ApiError, invalid, notFound } from '../../errors.js';
import { presentCall, presentCallDetail } from '../../present/present.js';
import { tracePcap } from '../../present/trace-pcap.js';
import { traceText } from '../../present/trace-text.js';
import type { RecordingFiles } from '../../recordings/recording-files.js';
import type { RecordingUrls } from '../../recordings/recording-urls.js';
import { askedDays, trendDays } from '../../request/days.js';
import { phoneNumberOf } from '../../request/phone-number.js';
import { type Route, route } from '../../route.js';
import { targetProblem } from '../../rules/targets.js';
import { callsQuery, dtmfBody, redactBody, redirectBody, traceQuery, transferBody } from '../../schemas/calls.js';
import { idParams, ref, Type } from '../../schemas/types.js';

export interface CallRoutesOptions {
  store: Store;
  recordingUrls: RecordingUrls;
  recordingFiles: RecordingFiles;
  liveCalls: CallCommands;
  /** Whether targets may be private, loopback and link-local hosts. */
  allowPrivateTargets: boolean;
  /** Returns the SIP messages of a running call by its SIP Call-ID. */
  liveTrace?: (sipCallId: string) => TraceEntry[];
  now: () => number;
}

const tag = 'Calls';
export const callAnswer = { status: 200, description: 'The call.', schema: ref('Call') };

export function callRoutes(options: CallRoutesOptions): Route[] {
  const { store, recordingUrls, now } = options;
  return [
    route({
      method: 'GET',
      path: '/v1/calls',
      operationId: 'listCalls',
      tag,
      summary: 'List or count calls',
      description:
        'Without `action`: a page of calls, newest first. With `action=stats`: the number of calls by status. With `action=trends`: the number of calls by status for each UTC day; the last 30 days by default, at most 366 days. All filters apply to all three.',
      access: 'member',
      query: callsQuery,
      answer: {
        status: 200,
        description: 'A page of calls, the counts by status, or the counts by day.',
        schema: Type.Unsafe<unknown>({ anyOf: [ref('CallList'), ref('CallStats'), ref('CallTrends')] }),
      },
      handle: async ({ query, caller }) => {
        const { page, limit, action } = query;
        const days = askedDays(query);
        const filter: CallFilter = {
          status: query.status,
          direction: query.direction,
          phoneNumberId: query.phone_number_id?.toLowerCase(),
          ...days,
        };
        if (action === 'stats') return store.records.stats(caller.scope, filter);
        if (action === 'trends') return store.records.trends(caller.scope, { ...filter, ...trendDays(days, now()) });
        const { data, total } = await store.records.list(caller.scope, filter, { limit, offset: (page - 1) * limit });
        return {
          data: data.map((call) => presentCall(call, recordingUrls)),
          total,
          page,
          limit,
          total_pages: Math.ceil(total / limit),
        };
      },
    }),
    route({
      method: 'GET',
      path: '/v1/calls/:id',
      operationId: 'getCall',
      tag,
      summary: 'Get a call',
      description: 'The call with its events, quality metrics, turns and transcript.',
      access: 'member',
      params: idParams,
      answer: { status: 200, description: 'The call detail.', schema: ref('CallDetail') },
      handle: async ({ params, caller, reply }) => {
        const call = await store.records.record(caller.scope, params.id.toLowerCase());
        if (!call) throw notFound('Call');
        reply.type('application/json; charset=utf-8').serializer(String); // already serialized
        return presentCallDetail(call, recordingUrls);
      },
    }),
    route({
      method: 'DELETE',
      path: '/v1/calls/:id',
      operationId: 'deleteCall',
      tag,
      summary: 'Delete a call record',
      description:
        'Removes the record with its events, transcript, trace and recording. A running call must be hung up first.',
      access: 'admin',
      params: idParams,
      answer: { status: 204, description: 'The record was deleted.', schema: null },
      errors: ['CALL_IN_PROGRESS'],
      handle: async ({ params, caller }) => {
        const id = params.id.toLowerCase();
        const call = await store.records.get(caller.scope, id);
        if (call && call.status !== 'in_progress') {
          const files = (await store.recordings.ofCall(caller.scope, id)).map(({ file }) => file);
          // Delete the files first: a file left behind would have no record that refers to it.
          for (const file of [...files, ...(call.recordingUrl === null ? [] : [call.recordingUrl])])
            await options.recordingFiles.remove(file);
        }
        const outcome = await store.records.delete(caller.scope, id);
        if (outcome === 'not_found') throw notFound('Call');
        if (outcome === 'in_progress') throw new ApiError('CALL_IN_PROGRESS', undefined, { call_id: id });
      },
    }),
    route({
      method: 'POST',
      path: '/v1/calls/:id/hangup',
      operationId: 'hangupCall',
      tag,
      summary: 'Hang up a call',
      description:
        'Ends a running call and returns it in its final state. The response is sent when the call has ended, or after 2 s (then with `in_progress`: the far end has not confirmed the end). A call that has already ended is returned unchanged.',
      access: 'member',
      params: idParams,
      answer: callAnswer,
      errors: ['CALL_COMMAND_FAILED'],
      handle: ({ params, caller }) => command(options, caller, params.id, { kind: 'hangup' }),
    }),
    route({
      method: 'POST',
      path: '/v1/calls/:id/dtmf',
      operationId: 'sendDtmf',
      tag,
      summary: 'Send DTMF',
      description: 'Sends keys to the phone of an answered call. The response is sent when all keys have been sent.',
      access: 'member',
      params: idParams,
      body: dtmfBody,
      answer: callAnswer,
      errors: ['CALL_ALREADY_ENDED', 'CALL_NOT_ANSWERED', 'CALL_COMMAND_FAILED'],
      handle: ({ params, body, caller }) =>
        command(options, caller, params.id, {
          kind: 'dtmf',
          digits: body.digits.replace(/[a-d]/g, (key) => key.toUpperCase()),
        }),
    }),
    route({
      method: 'POST',
      path: '/v1/calls/:id/redact',
      operationId: 'redactCall',
      tag,
      summary: 'Redact a passage',
      description:
        'Begins or ends a passage of an answered call, for card numbers, PINs and the like. Meanwhile keys and spoken numbers are not in events, transcript and webhooks, and recordings are silent in both directions; the agent, and the webhook that gathers, still get them. The events `redaction.started` and `redaction.ended` say when. Beginning again replaces the options and restarts the limit; ending twice has no effect.',
      access: 'member',
      params: idParams,
      body: redactBody,
      answer: callAnswer,
      errors: ['CALL_ALREADY_ENDED', 'CALL_NOT_ANSWERED', 'CALL_COMMAND_FAILED'],
      handle: ({ params, body, caller }) => {
        const { on, max_s: limitSec, transcript, streams } = body;
        const terms = {
          ...(limitSec !== undefined && { limitMs: limitSec * 1000 }),
          ...(transcript !== undefined && { transcript }),
          ...(streams !== undefined && { streams }),
        };
        return command(options, caller, params.id, { kind: 'redaction', ...(on ? { on, ...terms } : { on }) });
      },
    }),
    route({
      method: 'POST',
      path: '/v1/calls/:id/transfer',
      operationId: 'transferCall',
      tag,
      summary: 'Transfer',
      description:
        'Transfers an answered call to another number or SIP address: by REFER to its phone or, if REFER is refused, by a second call that is bridged with it (with its own record, as for `dial`). The response is sent when the transfer has succeeded or failed. The destination rules of outbound calls apply. The events `transfer.*` report the progress.',
      access: 'member',
      params: idParams,
      body: transferBody,
      answer: callAnswer,
      errors: ['INVALID_PHONE_NUMBER', 'CALL_ALREADY_ENDED', 'CALL_NOT_ANSWERED', 'CALL_COMMAND_FAILED'],
      handle: ({ params, body, caller }) =>
        command(options, caller, params.id, { kind: 'transfer', to: transferTarget(body.to) }),
    }),
    route({
      method: 'POST',
      path: '/v1/calls/:id/redirect',
      operationId: 'redirectCall',
      tag,
      summary: 'Redirect',
      description:
        'Makes an answered call of a webhook endpoint stop its current actions and run these `actions`, or those that the server at `url` returns. Give exactly one of the two.',
      access: 'member',
      params: idParams,
      body: redirectBody,
      answer: callAnswer,
      errors: ['CALL_ALREADY_ENDED', 'CALL_NOT_ANSWERED', 'CALL_COMMAND_FAILED'],
      handle: ({ params, body, caller }) =>
        command(options, caller, params.id, {
          kind: 'redirect',
          to: redirectTarget(body, options.allowPrivateTargets),
        }),
    }),
    route({
      method: 'GET',
      path: '/v1/calls/:id/quality',
      operationId: 'getCallQuality',
      tag,
      summary: 'Get the quality samples of a call',
      description: 'The quality metrics of the call, sampled every 5 seconds.',
      access: 'member',
      params: idParams,
      answer: { status: 200, description: 'The samples.', schema: ref('CallQuality') },
      handle: async ({ params, caller }) => {
        const id = params.id.toLowerCase();
        const samples = await store.records.qualitySamples(caller.scope, id);
        if (!samples) throw notFound('Call');
        return { call_id: id, samples };
      },
    }),
    route({
      method: 'GET',
      path: '/v1/calls/:id/trace',
      operationId: 'getCallTrace',
      tag,
      summary: 'Get the SIP messages of a call',
      description:
        'Every SIP message of the call, oldest first, with credentials masked; as JSON, as plain text, or as a capture file.',
      access: 'member',
      params: idParams,
      query: traceQuery,
      answer: {
        status: 200,
        description:
          'The messages. With `format=text`: `text/plain`; with `format=pcap`: `application/vnd.tcpdump.pcap`.',
        schema: ref('CallTrace'),
        alsoAs: ['text/plain', 'application/vnd.tcpdump.pcap'],
      },
      handle: async ({ params, query, caller, reply }) => {
        const call = await store.records.get(caller.scope, params.id.toLowerCase());
        if (!call) throw notFound('Call');
        const messages = await sipMessages(options, caller.scope, call);
        if (query.format === 'pcap') {
          reply
            .type('application/vnd.tcpdump.pcap')
            .header('content-disposition', `attachment; filename="${call.id}.pcap"`);
          return tracePcap(messages);
        }
        if (query.format === 'json') return { call_id: call.id, sip_call_id: call.sipCallId, messages };
        reply.type('text/plain; charset=utf-8');
        return traceText(messages);
      },
    }),
  ];
}

/** Returns the current messages of a running call, or the stored ones of a call that has ended. */
export async function sipMessages(
  { store, liveTrace }: CallRoutesOptions,
  scope: Scope,
  call: CallSummary,
): Promise<TraceEntry[]> {
  if (call.status === 'in_progress' && call.sipCallId !== null) return liveTrace?.(call.sipCallId) ?? [];
  return (await store.records.trace(scope, call.id)) ?? [];
}

/** Passes a command to the running call and returns the record afterwards. */
export async function command(
  { store, liveCalls, recordingUrls }: CallRoutesOptions,
  caller: Caller,
  id: string,
  asked: CallCommand,
) {
  const read = async () => {
    const call = await store.records.get(caller.scope, id.toLowerCase());
    if (!call) throw notFound('Call');
    return call;
  };
  const ended = (call: CallSummary) => {
    if (asked.kind === 'hangup') return presentCall(call, recordingUrls);
    throw new ApiError('CALL_ALREADY_ENDED', undefined, { call_id: call.id });
  };
  const before = await read();
  if (before.status !== 'in_progress') return ended(before);
  const result = await liveCalls.command(before.id, asked);
  if (result.ok) return presentCall(await read(), recordingUrls);
  if (result.code === 'not_answered') throw new ApiError('CALL_NOT_ANSWERED', undefined, { call_id: before.id });
  if (result.code === 'failed') throw new ApiError('CALL_COMMAND_FAILED', result.message, { call_id: before.id });
  const after = await read();
  if (after.status !== 'in_progress') return ended(after); // the call ended meanwhile
  const message = result.code === 'unreachable' ? result.message : 'Another process of this installation runs the call';
  throw new ApiError('SERVICE_UNAVAILABLE', message, { call_id: before.id }, { 'retry-after': '1' });
}

/** Throws 400 with the invalid field. */
function redirectTarget(
  { url, actions }: { url?: string; actions?: unknown[] },
  allowPrivate: boolean,
): { next: FollowUp } | { actions: Action[] } {
  if ((url === undefined) === (actions === undefined))
    throw invalid({
      path: url === undefined ? 'url' : 'actions',
      message: 'exactly one of url and actions is required',
    });
  if (url !== undefined) {
    const message = targetProblem(url, { schemes: ['http', 'https'], allowPrivate });
    if (message) throw invalid({ path: 'url', message });
    return { next: { url, method: 'POST' } };
  }
  try {
    return { actions: parseActionList(actions, 'about:blank') };
  } catch (error) {
    if (error instanceof InstructionError) throw invalid({ path: error.where, message: error.problem });
    throw error;
  }
}

function transferTarget(to: string): string {
  if (!/^(sips?|tel):/i.test(to)) return phoneNumberOf(to, 'to');
  if (/^tel:/i.test(to)) return phoneNumberOf(to.slice(4), 'to');
  const message = targetProblem(to, { schemes: ['sip', 'sips'], allowPrivate: true });
  if (message) throw new ApiError('VALIDATION_ERROR', `to: ${message}`, { fields: [{ path: 'to', message }] });
  return to;
}
