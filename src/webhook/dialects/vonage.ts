/** Vonage: JSON requests, call control objects (NCCO) in answers, and signatures as JWT. */
import { InstructionError } from '../actions.js';
import { vonageHeaders } from '../signature.js';
import { uuidOf } from '../twilio-parameters.js';
import type { WebhookRequest } from '../webhook-request.js';
import type { Dialect, FormFields, Occasion, Signer } from './dialect.js';
import { parseNcco } from './ncco.js';
import { withoutPlus } from './plivo.js';

export const vonage: Dialect = {
  firstMethod: 'GET',
  body: 'json',
  userAgent: 'Vonage Trunkline',
  accept: 'application/json',
  fields: (fields, occasion, data) => ({
    ...callFields(fields),
    ...resultFields(fields, occasion, data),
    ...(firstRequests.has(occasion) ? {} : { timestamp: new Date().toISOString() }),
  }),
  sign: (signer, { body }) => jwt(signer, body),
  signStream: (signer) => jwt(signer, undefined),
  read(text, type, where) {
    if (type !== 'application/json' && type !== 'text/json') return undefined;
    const body: unknown = parsed(text);
    // Applications answer events with `[]`, `{}`, `{"status": "ok"}` or nothing.
    return Array.isArray(body) && body.length > 0 ? parseNcco(body, where) : null;
  },
  emptyAnswer: 'goes_on',
};

function jwt({ id, organizationId, secret }: Signer, body: string | undefined) {
  return vonageHeaders(secret, Date.now(), body, { applicationId: id, apiKey: organizationId });
}

const firstRequests: ReadonlySet<Occasion> = new Set(['call.incoming', 'call.outgoing']);

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new InstructionError('body', `is not JSON (${(error as Error).message.slice(0, 100)})`);
  }
}

/** https://developer.vonage.com/en/voice/voice-api/webhook-reference */
function callFields(fields: FormFields): { [name: string]: string } {
  const { CallSid, ParentCallSid, From, To } = fields;
  if (CallSid === undefined) return {};
  return {
    from: withoutPlus(From),
    to: withoutPlus(To),
    uuid: uuidOf(CallSid),
    conversation_uuid: `CON-${uuidOf(ParentCallSid ?? CallSid)}`,
    ...Object.fromEntries(Object.entries(fields).filter(([name]) => name.startsWith('SipHeader_'))),
  };
}

const statuses: { [status: string]: string } = {
  initiated: 'started',
  ringing: 'ringing',
  'in-progress': 'answered',
  answered: 'completed',
  completed: 'completed',
  busy: 'busy',
  'no-answer': 'timeout',
  canceled: 'cancelled',
  failed: 'failed',
};

function resultFields(
  fields: FormFields,
  occasion: Occasion,
  data: WebhookRequest['data'],
): { [name: string]: unknown } {
  if (firstRequests.has(occasion)) return {};
  if (occasion === 'call.notified') return { payload: data.payload };
  if (occasion === 'call.gathered') return inputFields(fields, data.reason === 'timeout');
  if (fields.RecordingUrl !== undefined && fields.DialCallStatus === undefined) return recordedFields(fields);
  if (fields.DialCallStatus !== undefined) return { status: statuses[fields.DialCallStatus] ?? 'failed' };
  if (occasion === 'status') return statusFields(fields);
  return {};
}

function inputFields(
  { Digits = '', SpeechResult, Confidence }: FormFields,
  timedOut: boolean,
): { [name: string]: unknown } {
  return {
    dtmf: { digits: Digits === '' ? null : Digits, timed_out: timedOut && SpeechResult === undefined },
    speech:
      SpeechResult === undefined
        ? { results: [], timeout_reason: null }
        : { results: [{ text: SpeechResult, confidence: Confidence ?? '' }], timeout_reason: 'end_on_silence_timeout' },
  };
}

function recordedFields({ RecordingUrl, RecordingSid = '', RecordingDuration = '0', RecordingStartTime }: FormFields) {
  const ms = Number(RecordingDuration) * 1000;
  const startMs = Date.parse(RecordingStartTime ?? '') || Date.now() - ms;
  return {
    recording_url: RecordingUrl,
    recording_uuid: uuidOf(RecordingSid),
    start_time: new Date(startMs).toISOString(),
    end_time: new Date(startMs + ms).toISOString(),
  };
}

function statusFields({ CallStatus = '', Direction, CallDuration, AnsweredBy }: FormFields): {
  [name: string]: unknown;
} {
  return {
    status: AnsweredBy === undefined ? (statuses[CallStatus] ?? CallStatus) : AnsweredBy.split('_')[0],
    direction: Direction === 'inbound' ? 'inbound' : 'outbound',
    ...(CallDuration === undefined ? {} : { duration: CallDuration }),
  };
}
