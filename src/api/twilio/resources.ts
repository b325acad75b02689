/** Converts records to the resources of Twilio's REST API. */

import type { ShownConference, ShownParticipant } from '../../call/conference/conferences-of-all-nodes.js';
import type { RecordingStatus } from '../../call/core/command.js';
import type { CallQueue } from '../../call/queue/call-queue.js';
import type { QueueMember } from '../../call/queue/queue-member.js';
import type { CallSummary } from '../../store/calls/call-records.js';
import type { ListedRecording } from '../../store/calls/recording-list.js';
import {
  accountSid,
  callSid,
  conferenceSid,
  queueSid,
  recordingSid,
  twilioAnsweredBy,
} from '../../webhook/twilio-parameters.js';
import type { ApiError } from '../errors.js';

export const version = '2010-04-01';

/** The call id of a sid: `CA` and the UUID without dashes; null if it is not a sid. */
export function callIdOf(sid: string): string | null {
  return uuidOf('CA', sid);
}

export function conferenceIdOf(sid: string): string | null {
  return uuidOf('CF', sid);
}

export function queueIdOf(sid: string): string | null {
  return uuidOf('QU', sid);
}

export function recordingIdOf(sid: string): string | null {
  return uuidOf('RE', sid);
}

export function organizationIdOf(sid: string): string | null {
  return uuidOf('AC', sid);
}

function uuidOf(prefix: string, sid: string): string | null {
  const parts = /^([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})$/.exec(sid.slice(2).toLowerCase());
  return sid.startsWith(prefix) && parts !== null ? parts.slice(1).join('-') : null;
}

const finalStatus = { completed: 'completed', busy: 'busy', no_answer: 'no-answer', failed: 'failed' } as const;

export function presentTwilioCall(call: CallSummary, parentCallId: string | null, answeredBy: string | null) {
  const account = accountSid(call.organizationId);
  const sid = callSid(call.id);
  const uri = `/${version}/Accounts/${account}/Calls/${sid}`;
  const isOver = call.completedAt !== null;
  return {
    sid,
    account_sid: account,
    parent_call_sid: parentCallId === null ? null : callSid(parentCallId),
    from: call.fromNumber,
    from_formatted: call.fromNumber,
    to: call.toNumber,
    to_formatted: call.toNumber,
    phone_number_sid: `PN${call.phoneNumberId.replaceAll('-', '')}`,
    direction: call.direction === 'inbound' ? 'inbound' : parentCallId === null ? 'outbound-api' : 'outbound-dial',
    status: statusOf(call),
    duration: isOver ? String(call.durationSec) : null,
    price: isOver ? String(-call.costMicrocents / 100_000_000) : null,
    price_unit: 'USD',
    start_time: call.createdAt.toUTCString(),
    end_time: call.completedAt?.toUTCString() ?? null,
    date_created: call.createdAt.toUTCString(),
    date_updated: (call.completedAt ?? call.answeredAt ?? call.createdAt).toUTCString(),
    answered_by: answeredBy === null ? null : twilioAnsweredBy(answeredBy),
    forwarded_from: null,
    caller_name: null,
    group_sid: null,
    trunk_sid: null,
    annotation: null,
    queue_time: '0',
    api_version: version,
    uri: `${uri}.json`,
    subresource_uris: { recordings: `${uri}/Recordings.json` },
  };
}

export function presentConference({ id, name, scope, status, createdAt }: ShownConference) {
  const account = accountSid(scope.organizationId);
  const uri = `/${version}/Accounts/${account}/Conferences/${conferenceSid(id)}`;
  return {
    sid: conferenceSid(id),
    account_sid: account,
    friendly_name: name,
    status,
    region: null,
    date_created: createdAt.toUTCString(),
    date_updated: createdAt.toUTCString(),
    api_version: version,
    reason_conference_ended: null,
    call_sid_ending_conference: null,
    uri: `${uri}.json`,
    subresource_uris: { participants: `${uri}/Participants.json` },
  };
}

export function presentParticipant({ scope, id }: ShownConference, participant: ShownParticipant) {
  const { callId, label, muted, held, endsRoom, startsRoom, joinedAt } = participant;
  return {
    ...participantIn(scope.organizationId, id, callId),
    label,
    muted,
    hold: held,
    end_conference_on_exit: endsRoom,
    start_conference_on_enter: startsRoom,
    status: 'connected',
    date_created: joinedAt.toUTCString(),
    date_updated: joinedAt.toUTCString(),
  };
}

/** The fields of every participant, including one that is still being called. */
export function participantIn(organizationId: string, conferenceId: string, callId: string) {
  const account = accountSid(organizationId);
  const [conference, call] = [conferenceSid(conferenceId), callSid(callId)];
  return {
    account_sid: account,
    conference_sid: conference,
    call_sid: call,
    coaching: false,
    call_sid_to_coach: null,
    queue_time: '0',
    api_version: version,
    uri: `/${version}/Accounts/${account}/Conferences/${conference}/Participants/${call}.json`,
  };
}

export function presentQueue(queue: CallQueue) {
  const { id, name, scope, maxSize, members, averageWaitSec, createdAt, updatedAt } = queue;
  const account = accountSid(scope.organizationId);
  const uri = `/${version}/Accounts/${account}/Queues/${queueSid(id)}`;
  return {
    sid: queueSid(id),
    account_sid: account,
    friendly_name: name,
    current_size: members.length,
    max_size: maxSize,
    average_wait_time: averageWaitSec,
    date_created: createdAt.toUTCString(),
    date_updated: updatedAt.toUTCString(),
    uri: `${uri}.json`,
    subresource_uris: { members: `${uri}/Members.json` },
  };
}

export function presentQueueMember(queue: CallQueue, member: QueueMember) {
  const account = accountSid(queue.scope.organizationId);
  const [sid, call] = [queueSid(queue.id), callSid(member.party.call.id)];
  return {
    call_sid: call,
    queue_sid: sid,
    date_enqueued: member.enteredAt.toUTCString(),
    position: queue.positionOf(member),
    wait_time: member.waitedSec,
    uri: `/${version}/Accounts/${account}/Queues/${sid}/Members/${call}.json`,
  };
}

const channels: { [source: string]: number } = { RecordVerb: 1, Conference: 1 };
const sources: { [source: string]: string } = {
  record: 'RecordVerb',
  dial: 'DialVerb',
  conference: 'Conference',
  start: 'StartCallRecordingTwiML',
  api: 'StartCallRecordingAPI',
};

/** `status`: of a recording that is still made. */
export function presentRecording(
  { id, callId, durationMs, createdAt, source }: Omit<ListedRecording, 'file'>,
  organizationId: string,
  status: RecordingStatus | 'completed' = 'completed',
) {
  const account = accountSid(organizationId);
  const sid = recordingSid(id);
  const uri = `/${version}/Accounts/${account}/Recordings/${sid}`;
  const name = source === null ? 'OutboundAPI' : (sources[source] ?? source);
  return {
    sid,
    account_sid: account,
    call_sid: callSid(callId),
    conference_sid: null,
    channels: channels[name] ?? 2,
    source: name,
    status,
    duration: status === 'completed' ? String(Math.round(durationMs / 1000)) : null,
    start_time: createdAt.toUTCString(),
    date_created: createdAt.toUTCString(),
    date_updated: createdAt.toUTCString(),
    price: null,
    price_unit: 'USD',
    error_code: null,
    encryption_details: null,
    media_url: uri,
    api_version: version,
    uri: `${uri}.json`,
    subresource_uris: {},
  };
}

function statusOf(call: CallSummary): string {
  if (call.status === 'in_progress') return call.answeredAt === null ? 'ringing' : 'in-progress';
  if (call.status === 'no_answer' && call.direction === 'outbound' && call.hangupCause === 'originator_cancel')
    return 'canceled';
  return finalStatus[call.status];
}

/** Twilio's error codes. */
const codes: { [code: string]: number } = {
  UNAUTHORIZED: 20003,
  FORBIDDEN: 20003,
  NOT_FOUND: 20404,
  METHOD_NOT_ALLOWED: 20004,
  RATE_LIMIT_EXCEEDED: 20429,
  INVALID_PHONE_NUMBER: 21211,
  CALLER_ID_NOT_ALLOWED: 21210,
  DESTINATION_NOT_ALLOWED: 21215,
  CALL_ALREADY_ENDED: 21220,
  CALL_COMMAND_FAILED: 21220,
};

/** An error in Twilio's format. */
export function twilioError(error: ApiError) {
  const { details } = error;
  const [first] = (details?.fields as { path: string; message: string }[] | undefined) ?? [];
  const isFrom = error.code === 'INVALID_PHONE_NUMBER' && details?.field === 'From';
  const code = isFrom ? 21212 : (codes[error.code] ?? 20001);
  return {
    code,
    message: first === undefined ? error.message : `${first.path} ${first.message}`,
    more_info: `https://www.twilio.com/docs/errors/${code}`,
    // Twilio's API has no 409.
    status: error.status === 409 ? 400 : error.status,
  };
}
