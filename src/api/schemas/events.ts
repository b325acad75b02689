import type { EventType, terminalEvents } from '../../store/calls/event-types.js';

type Described = EventType | (typeof terminalEvents)[keyof typeof terminalEvents];

/** Every event of a call: when it happens and the fields of its `event_data` (those marked `?` are optional). */
export const eventDescriptions: Record<Described, readonly [when: string, data: string]> = {
  'call.initiated': [
    'The call record was created.',
    '`from_number`, `to_number`, `direction`, and more facts about its origin',
  ],
  'call.routed': ['The destination of the call was selected.', '`endpoint_id`, `rules` (inbound), `trunks` (outbound)'],
  'call.ringing': ['The far end is ringing.', 'empty'],
  'call.early_media': ['The far end sends audio before it answers.', 'empty'],
  'call.answered': ['The call was answered.', '`latency_ms` and facts about the answer'],
  'call.held': ['One party put the other on hold.', '`by` (`caller`, `agent`)'],
  'call.resumed': ['The hold ended.', '`by` (`caller`, `agent`)'],
  'call.rejected': ['Reserved: not sent today.', 'empty'],
  'call.completed': ['The call ended after it was answered.', '`hangup_cause`, `hangup_source`, `duration` (seconds)'],
  'call.failed': ['The call failed.', '`hangup_cause`, `hangup_source`, `duration`, `sip_status?`'],
  'call.busy': [
    'The far end was busy or declined the call.',
    '`hangup_cause`, `hangup_source`, `duration`, `sip_status?`',
  ],
  'call.no_answer': [
    'The call was not answered in time.',
    '`hangup_cause`, `hangup_source`, `duration`, `sip_status?`',
  ],
  'call.cost_settled': ['The cost of the call is final.', '`cost` (cents), `duration` (seconds)'],
  'trunk.failed': [
    'A trunk did not accept the call; the next trunk is tried.',
    '`trunk_id`, `trunk`, `reason`, `sip_status?`',
  ],
  'agent.connecting': ['A connection to the agent is being opened.', '`endpoint_id`, `provider?`, `attempt?`'],
  'agent.personalized': [
    'The answer of `pre_connect_url` changed the agent for this call.',
    '`endpoint_id`, `fields` (names), `variables` (their number)',
  ],
  'agent.connected': ['The agent is ready.', '`endpoint_id`, `provider?`, `attempt?`'],
  'agent.disconnected': ['The connection to the agent ended.', '`endpoint_id`, `by`, `close_code`, `detail`'],
  'agent.reconnected': ['The agent renewed its connection.', 'empty'],
  'agent.failed': [
    'The agent could not be reached, or its connection was lost.',
    '`endpoint_id`, `reason`, `message`, `attempt?`, `sip_status?`',
  ],
  'agent.failover': ['Another endpoint takes over the call.', '`from_endpoint_id`, `to_endpoint_id`'],
  'agent.warning': [
    'The agent reported a problem, or part of its work failed; the call continues.',
    '`code`, `message`',
  ],
  'media.started': ['The first audio was received.', 'empty'],
  'media.one_way': ['Audio flows in one direction only.', '`direction`'],
  'media.timeout': ['No audio was received for too long.', 'empty'],
  'quality.degraded': ['Reserved: not sent today.', 'empty'],
  'turn.completed': [
    'A party finished speaking.',
    '`speaker`, `started_at`, `duration_ms`, `response_ms`, `talk_over`',
  ],
  'barge_in.detected': ['The caller spoke over the agent.', '`at_ms`, `silence_ms`'],
  'dtmf.received': ['A key was pressed.', '`digit`, `method`, `duration_ms?`'],
  'dtmf.sent': ['Keys were sent.', '`digits`, `source`'],
  'mark.reached': ['A mark of the agent was played or cleared.', '`name`, `cleared`'],
  'audio.cleared': ['Queued audio of the agent was dropped.', '`heard_ms`, `dropped_ms`, `items`'],
  'transfer.started': ['The transfer of the call began.', '`to`, `source`'],
  'transfer.completed': ['The call was transferred.', '`to`, `method` (`refer`, `bridge`)'],
  'transfer.failed': ['The call could not be transferred.', '`to`, `detail`, `reason?`, `sip_status?`'],
  'conference.joined': ['The caller entered a conference.', '`label?`, `muted`'],
  'conference.started': ['The conference started.', '`participants`'],
  'conference.updated': ['A participant was muted or held.', '`muted?`, `held?`'],
  'conference.left': ['The caller left the conference.', '`reason`'],
  'conference.ended': ['The conference ended.', '`reason`'],
  'amd.completed': [
    'Answering machine detection finished.',
    '`result`, `reason`, `decided_ms`, `greeting_ms?`, `message_end?`, `message_end_ms?`, `beep_hz?`',
  ],
  'recording.started': ['A recording started.', '`recording_id?`, `source?`'],
  'recording.paused': ['The recording was paused; the audio from now on is not recorded.', 'none'],
  'recording.resumed': ['The recording was resumed.', 'none'],
  'recording.completed': [
    'The recording file is complete.',
    '`duration_ms`, `bytes?`, `recording_id?`, `recording_url?`',
  ],
  'recording.failed': ['The recording could not be written.', '`message`, `bytes?`, `recording_id?`'],
  'transcript.final': ['An utterance was transcribed.', '`speaker`, `text`'],
  'webhook.delivered': ['The webhook responded.', '`endpoint_id`, `request`, `duration_ms`, `actions`'],
  'webhook.failed': [
    'The webhook did not respond, or its response was invalid.',
    '`endpoint_id`, `request`, `duration_ms`, `message`, and where the response is invalid',
  ],
  'webhook.warning': ['A part of the response has no effect.', '`endpoint_id`, `message`'],
  'balance.reserved': ['An amount of the balance was reserved for the call.', '`amount` (cents), `funded_seconds`'],
  'balance.unasked': [
    'More of the balance cannot be reserved because the database does not answer; the call goes on for the grace.',
    '`funded_seconds`, `grace_seconds`',
  ],
  'balance.exhausted': ['The balance is exhausted; the call ends.', '`funded_seconds`'],
};

export const eventTable = [
  '| event_type | when | event_data |',
  '|---|---|---|',
  ...Object.entries(eventDescriptions).map(([type, [when, data]]) => `| \`${type}\` | ${when} | ${data} |`),
].join('\n');
