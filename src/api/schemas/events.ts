/** Every event of a call: when it happens, and the fields of its `event_data`. */
import type { TSchema } from 'typebox';
import { hangupCauses } from '../../../sip/cause.js';
import type { EventType, terminalEvents } from '../../store/calls/event-types.js';
import { nullable, oneOf, Type, uuid } from './types.js';

type Described = EventType | (typeof terminalEvents)[keyof typeof terminalEvents];
type Fields = Record<string, TSchema>;

const text = (description: string) => Type.String({ description });
const flag = (description: string) => Type.Boolean({ description });
const ms = (description: string) => Type.Number({ description: `${description}, in milliseconds` });
const count = (description: string) => Type.Integer({ minimum: 0, description });
const { Optional } = Type;

const speaker = oneOf(['caller', 'agent'], { description: 'Who spoke' });
const sides = ['caller', 'callee', 'agent'] as const;
const sipStatus = Optional(Type.Integer({ description: 'The status of the SIP response that caused it' }));
const endpoint = { endpoint_id: uuid('The endpoint') };
const agent = {
  ...endpoint,
  provider: text('The provider of the endpoint, or its type'),
  attempt: Type.Integer({ minimum: 1, description: 'The number of the attempt' }),
};
const end = {
  hangup_cause: oneOf(hangupCauses, { description: 'The reason of the end' }),
  hangup_source: oneOf(['caller', 'callee', 'agent', 'api', 'system'], { description: 'Who ended the call' }),
  duration: count('The duration of the answered call, in seconds'),
  detail: Optional(text('The reason in words')),
  sip_status: sipStatus,
};
const verdict = Type.Object({
  rule: text('The rule'),
  verdict: oneOf(['matched', 'skipped', 'refused'], { description: 'What it decided' }),
  detail: text('The id of the number or endpoint, or the reason'),
});
const transfer = { to: text('The target: a number or a SIP URI') };
const transferFacts = {
  dialled_call_id: Optional(uuid('The call that was dialled')),
  refer_status: Optional(Type.Integer({ description: 'The SIP status with which the phone refused the REFER' })),
  notify_status: Optional(Type.Integer({ description: 'The SIP status that the phone reported for the target' })),
};
const queue = { queue_id: uuid('The queue'), name: text('The name of the queue') };
const conference = { conference_id: uuid('The conference'), name: text('The name of the conference') };
/** Absent in the recording of the whole call. */
const part = {
  recording_id: Optional(uuid("Of a recording that Twilio's REST API began; absent: that of the whole call")),
};
const recording = {
  recording_id: Optional(uuid('The recording; absent for that of the whole call')),
  source: Optional(text('What started it; absent for the recording of the whole call')),
};
const file = {
  ...recording,
  duration_ms: Type.Number({ description: 'The length of the file, in milliseconds' }),
  bytes: count('The size of the file'),
  recording_url: Optional(text('Where the recording can be fetched')),
};
const request = {
  ...endpoint,
  request: text('The type of the request, such as `call.incoming`'),
  duration_ms: ms('The time until the response'),
};
const funded = count('The seconds of talk that the reserved amount pays for');

export const eventTypes: Record<Described, readonly [when: string, data: Fields]> = {
  'call.initiated': [
    'The call record was created.',
    {
      from_number: text('The calling number'),
      to_number: text('The called number'),
      direction: oneOf(['inbound', 'outbound'], { description: 'The direction of the call' }),
      dialled: Optional(text('Inbound: the number as the carrier wrote it')),
      trunk: Optional(text('Inbound: the name of the trunk')),
      transport: Optional(text('Inbound: the SIP transport')),
      parent_call_id: Optional(uuid('The call that dialled this one')),
    },
  ],
  'call.routed': [
    'The destination of the call was selected.',
    {
      endpoint_id: nullable<string>(uuid('The endpoint; null if there is none')),
      rules: Optional(Type.Array(verdict, { description: 'Inbound: what each rule decided, in order' })),
      trunks: Optional(Type.Array(Type.String(), { description: 'Outbound: the names of the trunks, in order' })),
    },
  ],
  'call.ringing': ['The far end is ringing.', {}],
  'call.early_media': ['The far end sends audio before it answers.', {}],
  'call.answered': [
    'The call was answered.',
    { latency_ms: count('The time from the INVITE to the open media path, in milliseconds') },
  ],
  'call.held': ['One party put the other on hold.', { by: oneOf(sides, { description: 'Who holds' }) }],
  'call.resumed': ['The hold ended.', { by: oneOf(sides, { description: 'Who held' }) }],
  'call.rejected': ['Reserved: not sent today.', {}],
  'call.completed': ['The call ended after it was answered.', end],
  'call.failed': ['The call failed.', end],
  'call.busy': ['The far end was busy or declined the call.', end],
  'call.no_answer': ['The call was not answered in time.', end],
  'call.cost_settled': [
    'The cost of the call is final.',
    { cost: Type.Number({ description: 'Cents' }), duration: count('The billed seconds before rounding up') },
  ],
  'trunk.failed': [
    'A trunk or one of its gateways did not accept the call; the next one is tried.',
    {
      trunk_id: nullable<string>(uuid('The trunk; null for the simulator')),
      trunk: text('Its name'),
      reason: text('A code, such as `full`, `timeout` or `rejected`'),
      detail: Optional(text('The reason in words')),
      sip_status: sipStatus,
    },
  ],
  'agent.connecting': ['A connection to the agent is being opened.', agent],
  'agent.personalized': [
    'The answer of `pre_connect_url` changed the agent for this call.',
    {
      ...endpoint,
      fields: Type.Array(Type.String(), { description: 'The names of the settings that it changed' }),
      variables: count('The number of variables that it gave'),
    },
  ],
  'agent.connected': ['The agent is ready.', agent],
  'agent.disconnected': [
    'The connection to the agent ended.',
    {
      ...endpoint,
      by: oneOf(['hangup', 'failed', 'local'], {
        description: 'The agent hung up, the connection failed, or we closed it',
      }),
      close_code: nullable<number>(Type.Integer({ description: 'The close code of the WebSocket' })),
      detail: text('The reason in words'),
    },
  ],
  'agent.reconnected': ['The agent renewed its connection.', {}],
  'agent.failed': [
    'The agent could not be reached, or its connection was lost.',
    {
      ...endpoint,
      reason: text(
        'A code: `refused`, `timeout`, `unauthorized`, `blocked_address`, `protocol`, `circuit_open`, `lost`, or of SIP',
      ),
      message: text('The reason in words'),
      provider: Optional(text('The provider of the endpoint, or its type')),
      attempt: Optional(Type.Integer({ minimum: 1, description: 'The number of the attempt' })),
      sip_status: sipStatus,
    },
  ],
  'agent.failover': [
    'Another endpoint takes over the call.',
    { from_endpoint_id: uuid('The endpoint that failed'), to_endpoint_id: uuid('The endpoint that takes over') },
  ],
  'agent.warning': [
    'The agent reported a problem, or part of its work failed; the call continues.',
    { code: text('A code'), message: text('The problem in words'), queued_ms: Optional(ms('The audio that waits')) },
  ],
  'media.started': ['The first audio was received.', {}],
  'media.one_way': [
    'Audio flows in one direction only.',
    { direction: oneOf(['received'], { description: 'The direction that is silent' }) },
  ],
  'media.timeout': ['No audio was received for too long.', {}],
  'quality.degraded': ['Reserved: not sent today.', {}],
  'turn.completed': [
    'A party finished speaking.',
    {
      speaker,
      started_at: Type.String({ format: 'date-time', description: 'When it began to speak' }),
      duration_ms: ms('How long it spoke'),
      response_ms: nullable<number>(
        Type.Number({
          description: 'Milliseconds since the other side ended; null for a first turn or one over the other',
        }),
      ),
      talk_over: flag('Whether it began while the other side spoke'),
    },
  ],
  'barge_in.detected': [
    'The caller spoke over the agent.',
    { at_ms: ms('The time since the answer'), silence_ms: nullable<number>(ms('The time until the agent was silent')) },
  ],
  'dtmf.received': [
    'A key was pressed.',
    {
      digit: Optional(text('The key; absent when it is redacted')),
      redacted: Optional(flag('The key is not stored')),
      method: oneOf(['rfc4733', 'info', 'inband'], { description: 'How it came' }),
      duration_ms: Optional(ms('How long it was pressed')),
    },
  ],
  'dtmf.sent': [
    'Keys were sent.',
    {
      digits: Optional(text('The keys; absent when they are redacted')),
      redacted: Optional(flag('The keys are not stored')),
      source: text('Who sent them'),
    },
  ],
  'redaction.started': [
    'A passage began whose keys, spoken numbers and audio are not stored.',
    { source: text('Who asked for it: `api`, `agent`, `gather`, or `bridge`: a call that this one is connected with') },
  ],
  'redaction.ended': [
    'The redacted passage ended.',
    {
      reason: text('`stopped`, `limit` or `call_ended`'),
      from_ms: ms('Its begin, counted from the answer'),
      to_ms: ms('Its end, counted from the answer'),
    },
  ],
  'mark.reached': [
    'A mark of the agent was played or cleared.',
    { name: text('The name of the mark'), cleared: flag('Whether it was cleared before it was played') },
  ],
  'audio.cleared': [
    'Queued audio of the agent was dropped.',
    {
      heard_ms: ms('What was heard of it'),
      dropped_ms: ms('What was dropped'),
      items: Type.Array(
        Type.Object({
          item_id: nullable<string>(text('The id that the agent gave its utterance')),
          heard_ms: ms('What was heard of it'),
          dropped_ms: ms('What was dropped'),
        }),
        { description: 'The utterances' },
      ),
    },
  ],
  'transfer.started': [
    'The transfer of the call began.',
    { ...transfer, method: Optional(text('`replaces`')), source: text('Who asked for it') },
  ],
  'transfer.completed': [
    'The call was transferred.',
    { ...transfer, method: oneOf(['refer', 'bridge', 'replaces'], { description: 'How' }), ...transferFacts },
  ],
  'transfer.failed': [
    'The call could not be transferred.',
    {
      ...transfer,
      detail: text('The reason in words'),
      reason: Optional(text('A code')),
      method: Optional(oneOf(['refer', 'bridge', 'replaces'], { description: 'How it was tried' })),
      source: Optional(text('Who asked for it')),
      sip_status: sipStatus,
      ...transferFacts,
    },
  ],
  'conference.joined': [
    'The caller entered a conference.',
    {
      ...conference,
      label: Optional(text('The label of the participant')),
      muted: flag('Whether the participant is muted'),
      rejoined: Optional(flag('It was in the conference before: the conference has moved to another node')),
    },
  ],
  'conference.started': [
    'The conference started.',
    { ...conference, participants: count('The number of participants') },
  ],
  'conference.updated': [
    'A participant was muted or held.',
    { ...conference, muted: Optional(flag('Whether it is muted')), held: Optional(flag('Whether it is held')) },
  ],
  'conference.left': [
    'The caller left the conference.',
    {
      ...conference,
      reason: text('`left`, `kicked`, `conference_ended`; `moved` or `node_lost`: it enters again, at another node'),
    },
  ],
  'conference.ended': ['The conference ended.', { ...conference, reason: text('Why') }],
  'queue.entered': [
    'The caller waits in a queue.',
    {
      ...queue,
      position: count('The position in the queue, from 1'),
      size: count('How many calls wait, this one included'),
    },
  ],
  'queue.left': [
    'The caller does not wait in the queue any more.',
    {
      ...queue,
      result: text('`bridged`, `leave`, `redirected`, `redirected-from-bridged` or `error`'),
      waited_s: count('How many seconds it waited'),
    },
  ],
  'amd.completed': [
    'Answering machine detection finished.',
    {
      result: text('`human`, `machine`, `screening`, `fax`, `operator` or `unknown`'),
      reason: text(
        '`short_greeting`, `long_greeting`, `beep`, `fax_tone`, `sit_tone`, `words`, `silence`, `timeout` or `call_ended`',
      ),
      language: Optional(text('Of the words that decided it')),
      decided_ms: ms('The time from the answer to the decision'),
      greeting_ms: Optional(ms('The length of the greeting')),
      message_end: Optional(text('How the message ended: `beep`, `silence` or `timeout`')),
      message_end_ms: Optional(nullable<number>(Type.Number({ description: 'Milliseconds from the answer' }))),
      beep_hz: Optional(Type.Number({ description: 'The frequency of the beep' })),
      answered_by: text('The result in the words of Twilio, `screening` or `operator`'),
      action: text('What follows: `talk`, `leave_message`, `hang_up` or `press`'),
      early: Optional(flag('It was heard before the answer')),
    },
  ],
  'recording.started': ['A recording started.', recording],
  'recording.paused': ['The recording was paused; the audio from now on is not recorded.', part],
  'recording.resumed': ['The recording was resumed.', part],
  'recording.completed': ['The recording file is complete.', file],
  'recording.failed': [
    'The recording could not be written.',
    { ...file, duration_ms: Optional(file.duration_ms), message: text('The reason in words') },
  ],
  'transcript.final': [
    'An utterance was transcribed.',
    {
      speaker,
      text: text('What was said'),
      started_at: Optional(
        Type.String({ format: 'date-time', description: 'When it began; of transcripts written by `transcribe`' }),
      ),
      duration_ms: Optional(ms('How long it took, with up to 200 ms of silence before and after')),
    },
  ],
  'webhook.delivered': [
    'The webhook responded.',
    { ...request, actions: Type.Array(Type.String(), { description: 'The names of the actions' }) },
  ],
  'webhook.failed': [
    'The webhook did not respond, or its response was invalid; or an event was not accepted.',
    {
      message: text('The reason in words'),
      endpoint_id: Optional(endpoint.endpoint_id),
      request: Optional(request.request),
      duration_ms: Optional(request.duration_ms),
      delivery_id: Optional(uuid('The delivery of an event, if that failed')),
      event_type: Optional(text('The type of that event')),
      http_status: Optional(Type.Integer({ description: 'The HTTP status' })),
      where: Optional(text('Where the response is invalid')),
    },
  ],
  'webhook.warning': [
    'A part of the response has no effect.',
    { ...endpoint, message: text('The reason in words'), code: Optional(text('A code')) },
  ],
  'balance.reserved': [
    'An amount of the balance was reserved for the call.',
    { amount: Type.Number({ description: 'Cents' }), funded_seconds: funded },
  ],
  'balance.unasked': [
    'More of the balance cannot be reserved because the database does not answer; the call goes on for the grace.',
    { funded_seconds: funded, grace_seconds: count('The seconds of grace') },
  ],
  'balance.exhausted': ['The balance is exhausted; the call ends.', { funded_seconds: funded }],
};

/** `EventData_call.answered` */
export const eventDataName = (type: string) => `EventData_${type}`;

/** The data of each event type as JSON Schema. More fields may be added; `strict` refuses them, for tests. */
export function eventDataSchemas(strict = false): Record<string, object> {
  return Object.fromEntries(
    Object.entries(eventTypes).map(([type, [when, data]]) => {
      const schema = Type.Object(data, { additionalProperties: !strict, description: when });
      return [eventDataName(type), JSON.parse(JSON.stringify(schema)) as object];
    }),
  );
}

/** `trunk_id`, `sip_status?`; or: empty */
function fieldNames(data: Fields): string {
  const names = Object.entries(data).map(([name, schema]) => `\`${name}${'~optional' in schema ? '?' : ''}\``);
  return names.length === 0 ? 'empty' : names.join(', ');
}

export const eventTable = [
  '| event_type | when | event_data |',
  '|---|---|---|',
  ...Object.entries(eventTypes).map(([type, [when, data]]) => `| \`${type}\` | ${when} | ${fieldNames(data)} |`),
].join('\n');
