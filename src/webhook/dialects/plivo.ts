/** Plivo: forms with its own names, Plivo XML, and signatures of version 3. */
import { plivoHeaders } from '../signature.js';
import { uuidOf } from '../twilio-parameters.js';
import { parseTwiml } from '../twiml.js';
import { type Dialect, type FormFields, type Occasion, xmlTypes } from './dialect.js';
import { plivoXml } from './plivo-xml.js';

export const plivo: Dialect = {
  firstMethod: 'POST',
  body: 'form',
  userAgent: 'Plivo Trunkline',
  accept: 'application/xml, text/xml',
  fields: (fields, occasion) =>
    fields.ConferenceSid !== undefined && occasion === 'status'
      ? conferenceFields(fields)
      : fields.ParentCallSid !== undefined && occasion === 'status'
        ? dialledLegFields(fields)
        : { ...callFields(fields), ...resultFields(fields, occasion) },
  sign: ({ secret }, { url, body }, sent) => plivoHeaders(secret, url, body === undefined ? null : sent),
  signStream: ({ secret }, url) => plivoHeaders(secret, url, null),
  read: (text, type, { url }) => (xmlTypes.has(type) ? parseTwiml(text, url, plivoXml) : undefined),
  emptyAnswer: 'hangs_up',
};

/** Plivo writes numbers without `+`. */
export function withoutPlus(number: string | undefined): string {
  return (number ?? '').replace(/^\+(?=\d)/, '');
}

const hangupCauses: { [status: string]: string } = {
  completed: 'NORMAL_CLEARING',
  busy: 'USER_BUSY',
  'no-answer': 'NO_ANSWER',
  canceled: 'ORIGINATOR_CANCEL',
  failed: 'NORMAL_TEMPORARY_FAILURE',
};

/** https://www.plivo.com/docs/voice/xml/request */
function callFields(fields: FormFields): { [name: string]: string } {
  const { CallSid, AccountSid, From, To, CallStatus = '', Direction, CallerName } = fields;
  if (CallSid === undefined) return {};
  const uuid = uuidOf(CallSid);
  const isInbound = Direction === 'inbound';
  const ended = fields.CallDuration !== undefined;
  return {
    CallUUID: uuid,
    ParentAuthID: AccountSid ?? '',
    From: withoutPlus(From),
    To: withoutPlus(To),
    CallStatus: CallStatus === 'canceled' ? 'cancel' : CallStatus,
    Direction: isInbound ? 'inbound' : 'outbound',
    ...(CallerName === undefined ? {} : { CallerName }),
    ...(isInbound ? {} : { ALegUUID: uuid, ALegRequestUUID: uuid, RequestUUID: uuid }),
    ...(ended && {
      Event: 'Hangup',
      Duration: fields.CallDuration ?? '0',
      BillDuration: fields.CallDuration ?? '0',
      HangupCause: hangupCauses[CallStatus] ?? 'NORMAL_CLEARING',
    }),
    ...Object.fromEntries(
      Object.entries(fields).flatMap(([name, value]) =>
        name.startsWith('SipHeader_') ? [[name.replace('SipHeader_', 'SIP-H-'), value]] : [],
      ),
    ),
    ...(fields.AnsweredBy === undefined ? {} : { Machine: String(fields.AnsweredBy.startsWith('machine')) }),
  };
}

const startingEvents: ReadonlySet<Occasion> = new Set(['call.incoming', 'call.outgoing']);

/** What an element reports to its `action`, or to its callback. */
function resultFields(fields: FormFields, occasion: Occasion): { [name: string]: string } {
  if (startingEvents.has(occasion)) return { Event: 'StartApp' };
  if (occasion === 'call.redirected') return { Event: 'Redirect' };
  if (fields.RecordingUrl !== undefined && fields.DialCallStatus === undefined) return recordedFields(fields);
  if (fields.SpeechResult !== undefined)
    return {
      Event: 'GetInput',
      InputType: 'speech',
      Speech: fields.SpeechResult,
      SpeechConfidenceScore: fields.Confidence ?? '',
      Digits: '',
    };
  if (fields.DialCallStatus !== undefined) return dialledFields(fields);
  if (fields.Digits !== undefined) return { Event: 'GetInput', InputType: 'dtmf', Digits: fields.Digits, Speech: '' };
  if (fields.StreamSid !== undefined) return streamFields(fields);
  if (fields.StreamStatus !== undefined)
    return { Event: fields.StreamStatus === 'stream-error' ? 'DroppedStream' : 'StopStream' };
  return {};
}

function recordedFields(fields: FormFields): { [name: string]: string } {
  const { RecordingUrl = '', RecordingSid = '', RecordingDuration = '0', Digits, TranscriptionText } = fields;
  const ms = Number(RecordingDuration) * 1000;
  const startMs = Date.parse(fields.RecordingStartTime ?? '') || Date.now() - ms;
  return {
    Event: 'RecordStop',
    RecordUrl: RecordingUrl,
    RecordFile: RecordingUrl,
    RecordingID: uuidOf(RecordingSid),
    RecordingDuration,
    RecordingDurationMs: String(ms),
    RecordingStartMs: String(startMs),
    RecordingEndMs: String(startMs + ms),
    RecordingEndReason: Digits === 'hangup' ? 'hangup' : Digits ? 'FinishedOnKey' : 'MaxSilence',
    ...(Digits === undefined || Digits === 'hangup' ? {} : { Digits }),
    ...(TranscriptionText === undefined ? {} : { transcription: TranscriptionText, type: 'auto' }),
  };
}

function dialledFields(fields: FormFields): { [name: string]: string } {
  const { DialCallStatus = '', DialCallSid, CallSid = '' } = fields;
  const status =
    DialCallStatus === 'answered' ? 'completed' : DialCallStatus === 'canceled' ? 'cancel' : DialCallStatus;
  return {
    DialStatus: status,
    DialRingStatus: String(status === 'completed' || status === 'no-answer'),
    DialHangupCause: hangupCauses[DialCallStatus] ?? 'NORMAL_CLEARING',
    DialALegUUID: uuidOf(CallSid),
    DialBLegUUID: DialCallSid === undefined ? '' : uuidOf(DialCallSid),
  };
}

/** A callee of a `<Dial>`, for its `callbackUrl`: https://www.plivo.com/docs/voice/xml/dial */
function dialledLegFields(fields: FormFields): { [name: string]: string } {
  const { CallSid = '', ParentCallSid = '', CallStatus = '', From, To } = fields;
  const isAnswer = CallStatus === 'in-progress';
  return {
    CallUUID: uuidOf(ParentCallSid),
    Event: isAnswer ? 'DialAnswer' : 'DialHangup',
    DialAction: isAnswer ? 'answer' : 'hangup',
    DialALegUUID: uuidOf(ParentCallSid),
    DialBLegUUID: uuidOf(CallSid),
    DialBLegFrom: withoutPlus(From),
    DialBLegTo: withoutPlus(To),
    DialBLegStatus: isAnswer ? 'answer' : 'hangup',
    ...(isAnswer
      ? {}
      : { DialBLegDuration: fields.CallDuration ?? '0', DialBLegBillDuration: fields.CallDuration ?? '0' }),
    ...(isAnswer ? {} : { DialBLegHangupCause: hangupCauses[CallStatus] ?? 'NORMAL_CLEARING' }),
  };
}

const conferenceActions: { [event: string]: [event: string, action: string] } = {
  'participant-join': ['ConferenceEnter', 'enter'],
  'participant-leave': ['ConferenceExit', 'exit'],
  'conference-start': ['ConferenceStart', 'start'],
  'conference-end': ['ConferenceEnd', 'end'],
};

function conferenceFields(fields: FormFields): { [name: string]: string } {
  const { ConferenceSid = '', FriendlyName = '', CallSid, StatusCallbackEvent = '' } = fields;
  const [event, action] = conferenceActions[StatusCallbackEvent] ?? [];
  return {
    ConferenceName: FriendlyName,
    ConferenceUUID: uuidOf(ConferenceSid),
    ...(CallSid === undefined ? {} : { CallUUID: uuidOf(CallSid), ConferenceMemberID: uuidOf(CallSid) }),
    ...(event === undefined ? {} : { Event: event }),
    ...(action === undefined ? {} : { ConferenceAction: action }),
    ...(fields.RecordingUrl === undefined ? {} : recordedFields(fields)),
  };
}

const streamEvents: { [event: string]: string } = {
  'stream-started': 'StartStream',
  'stream-stopped': 'StopStream',
  'stream-error': 'DroppedStream',
};

function streamFields({ StreamSid = '', StreamName, StreamEvent = '', StreamError, Timestamp }: FormFields) {
  return {
    Event: streamEvents[StreamEvent] ?? StreamEvent,
    StreamID: StreamSid,
    ...(StreamName === undefined ? {} : { Name: StreamName }),
    ...(StreamError === undefined ? {} : { Reason: StreamError }),
    Timestamp: Timestamp ?? '',
  };
}
