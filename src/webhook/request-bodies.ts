/** The requests to webhooks, as JSON and in Twilio's form. */

import {
  answeredByFields,
  type CallState,
  callSid,
  conferenceSid,
  queueSid,
  recordingSid,
  transcriptionSid,
} from './twilio-parameters.js';
import type { WebhookRequest } from './webhook-request.js';

/** A call begins: incoming, or outgoing and just answered. */
export function startQuestion(
  call: Pick<CallState, 'direction' | 'from' | 'to' | 'answeredBy'>,
  headers: Readonly<Record<string, string>>,
): WebhookRequest {
  const { direction, from, to, answeredBy } = call;
  return {
    type: direction === 'inbound' ? 'call.incoming' : 'call.outgoing',
    data: { from_number: from, to_number: to, direction, headers, ...(answeredBy && { answered_by: answeredBy.by }) },
    // Custom header fields, as Twilio passes them on.
    fields: {
      ...Object.fromEntries(
        Object.entries(headers)
          .filter(([name]) => name.startsWith('x-'))
          .map(([name, value]) => [`SipHeader_${name.replace(/(^|-)\w/g, (start) => start.toUpperCase())}`, value]),
      ),
      ...(answeredBy && answeredByFields(answeredBy)),
    },
  };
}

/** The gathered input: keys or speech. */
export interface Gathered {
  digits: string;
  /** null: no speech was asked for, or none was heard. */
  speech: string | null;
  reason: 'finish_key' | 'num_digits' | 'timeout' | 'speech';
}

export function gatheredQuestion({ digits, speech, reason }: Gathered): WebhookRequest {
  return {
    type: 'call.gathered',
    data: { digits, ...(speech === null ? {} : { speech }), reason },
    // An engine that gives no confidence is taken to be sure.
    fields: speech === null ? { Digits: digits } : { SpeechResult: speech, Confidence: '1.0' },
  };
}

/** A recording that is complete. */
export interface MadeRecording {
  id: string;
  /** The URL of the file, which needs no API key. */
  url: string;
  durationMs: number;
  startedAt: Date;
  channels: 1 | 2;
  /** One sentence when it could not be made. */
  error: string | null;
}

export function recordedQuestion(
  recording: MadeRecording,
  reason: 'finish_key' | 'silence' | 'max_length' | 'hangup',
  key: string,
): WebhookRequest {
  return {
    type: 'call.recorded',
    data: {
      recording_id: recording.id,
      recording_url: recording.url,
      duration: seconds(recording.durationMs),
      reason,
      digits: key,
    },
    fields: { ...recordingFields(recording), Digits: reason === 'hangup' ? 'hangup' : key },
  };
}

/** Reports the words of a recording; `text` null: they could not be recognized. */
export function transcribedQuestion(recording: MadeRecording, text: string | null): WebhookRequest {
  const status = text === null ? 'failed' : 'completed';
  return {
    type: 'call.transcribed',
    data: { recording_id: recording.id, recording_url: recording.url, status, ...(text === null ? {} : { text }) },
    fields: {
      ...recordingFields(recording),
      TranscriptionSid: transcriptionSid(recording.id),
      TranscriptionStatus: status,
      ...(text === null ? {} : { TranscriptionText: text }),
    },
  };
}

export function recordingFields(recording: MadeRecording): { [name: string]: string } {
  return {
    RecordingSid: recordingSid(recording.id),
    RecordingUrl: recording.url,
    RecordingDuration: String(seconds(recording.durationMs)),
  };
}

/** The fields of a `recordingStatusCallback`. */
export function recordingStatusFields(
  status: 'in-progress' | 'completed' | 'absent',
  recording: MadeRecording,
  source: 'RecordVerb' | 'DialVerb' | 'Conference' | 'StartCallRecordingTwiML' | 'StartCallRecordingAPI',
): { [name: string]: string } {
  const { RecordingSid, ...made } = recordingFields(recording);
  return {
    RecordingSid: RecordingSid as string,
    ...(status === 'completed' ? made : {}),
    RecordingStatus: status,
    RecordingChannels: String(recording.channels),
    RecordingStartTime: recording.startedAt.toUTCString(),
    RecordingSource: source,
    RecordingTrack: recording.channels === 1 ? 'inbound' : 'both',
  };
}

/** Rounds to seconds, at least one for non-empty audio. */
function seconds(ms: number): number {
  return ms === 0 ? 0 : Math.max(1, Math.round(ms / 1000));
}

/** Requests the instructions for a phone that was dialled and has answered, before it is connected. */
export function screeningQuestion({
  from,
  to,
  parentCallId,
}: Pick<CallState, 'from' | 'to' | 'parentCallId'>): WebhookRequest {
  return {
    type: 'call.screening',
    data: { from_number: from, to_number: to, parent_call_id: parentCallId },
    fields: {},
  };
}

/** The result of a `dial`. */
export interface Dialled {
  status: 'completed' | 'busy' | 'no-answer' | 'failed' | 'canceled';
  to: string[];
  /** The call that was joined, or the last that failed. */
  callId: string | null;
  /** From the answer. */
  durationSec: number;
  recording: MadeRecording | null;
}

export function dialledQuestion({ status, to, callId, durationSec, recording }: Dialled): WebhookRequest {
  return {
    type: 'call.dialed',
    data: {
      status,
      to,
      duration: durationSec,
      ...(callId === null ? {} : { dialed_call_id: callId }),
      ...(recording === null
        ? {}
        : {
            recording_id: recording.id,
            recording_url: recording.url,
            recording_duration: seconds(recording.durationMs),
          }),
    },
    fields: {
      ...(callId === null ? {} : { DialCallSid: callSid(callId) }),
      DialCallStatus: status,
      DialBridged: String(status === 'completed'),
      ...(status === 'completed' && { DialCallDuration: String(durationSec) }),
      ...(recording === null ? {} : recordingFields(recording)),
    },
  };
}

/** The conference in requests about its participants. */
export interface ConferenceFacts {
  id: string;
  name: string;
}

/** Requests the hold music of a conference. */
export function waitingQuestion({ id, name }: ConferenceFacts): WebhookRequest {
  return {
    type: 'conference.waiting',
    data: { conference_id: id, name },
    fields: { ConferenceSid: conferenceSid(id), FriendlyName: name },
  };
}

/** Reports that the caller left the conference, or that it was full. */
export function conferencedQuestion(
  { id, name }: ConferenceFacts,
  status: 'answered' | 'failed',
  durationSec: number,
): WebhookRequest {
  return {
    type: 'call.conferenced',
    data: { status: status === 'answered' ? 'completed' : 'failed', conference_id: id, name, duration: durationSec },
    fields: { DialCallStatus: status, DialBridged: String(status === 'answered') },
  };
}

/** A call that waits in a queue, and its queue. */
export interface QueueFacts {
  id: string;
  name: string;
  /** From 1. */
  position: number;
  waitedSec: number;
  /** Of all calls that wait now. */
  averageWaitSec: number;
  size: number;
  maxSize: number;
}

/** Requests what a caller hears who waits in a queue. */
export function waitingInQueueQuestion(facts: QueueFacts): WebhookRequest {
  const { id, name, position, waitedSec, averageWaitSec, size, maxSize } = facts;
  return {
    type: 'queue.waiting',
    data: {
      ...{ queue_id: id, name, position, waited_s: waitedSec },
      ...{ average_wait_s: averageWaitSec, size, max_size: maxSize },
    },
    fields: {
      ...{ QueueSid: queueSid(id), QueuePosition: String(position), QueueTime: String(waitedSec) },
      ...{ AvgQueueTime: String(averageWaitSec), CurrentQueueSize: String(size), MaxQueueSize: String(maxSize) },
    },
  };
}

/** Requests what a caller hears who has waited in a queue, before it is connected with the call that dialled the queue. */
export function whisperQuestion(
  { id, name }: { id: string; name: string },
  waitedSec: number,
  diallerCallId: string,
): WebhookRequest {
  return {
    type: 'queue.whisper',
    data: { queue_id: id, name, waited_s: waitedSec, dequeuing_call_id: diallerCallId },
    fields: { QueueSid: queueSid(id), QueueTime: String(waitedSec), DequeingCallSid: callSid(diallerCallId) },
  };
}

/** Twilio's `QueueResult`. */
export type QueueResult =
  | 'bridged'
  | 'bridging-in-process'
  | 'leave'
  | 'hangup'
  | 'redirected'
  | 'redirected-from-bridged'
  | 'queue-full'
  | 'error';

/** Reports how the wait in a queue ended. `queue` null: there was none. */
export function dequeuedQuestion(
  queue: { id: string; name: string } | null,
  result: QueueResult,
  waitedSec: number,
): WebhookRequest {
  return {
    type: 'call.dequeued',
    data: {
      result,
      ...(queue === null ? {} : { queue_id: queue.id, name: queue.name }),
      waited_s: waitedSec,
    },
    fields: {
      QueueResult: result,
      ...(queue === null ? {} : { QueueSid: queueSid(queue.id) }),
      QueueTime: String(waitedSec),
    },
  };
}

/** Reports that the callee of a `dial` sent REFER. */
export function referredQuestion(to: string): WebhookRequest {
  return { type: 'call.referred', data: { refer_to: to }, fields: { ReferTransferTarget: to } };
}

/** Reports that the list has come to a `notify`. */
export function notifiedQuestion(payload: unknown): WebhookRequest {
  return { type: 'call.notified', data: { payload }, fields: {} };
}

/** Reports the end of the stream or agent of a `connect`. */
export function connectedQuestion(status: 'hangup' | 'failed', detail: string, durationSec: number): WebhookRequest {
  return {
    type: 'call.disconnected',
    data: { status: status === 'failed' ? 'failed' : 'completed', detail, duration: durationSec },
    fields: { StreamStatus: status === 'failed' ? 'stream-error' : 'stream-stopped' },
  };
}

/** The fields of the `statusCallback` of a stream. */
export function streamStatusFields(
  sid: string,
  name: string | null,
  event: 'stream-started' | 'stream-stopped' | 'stream-error',
  error: string,
): { [name: string]: string } {
  return {
    StreamSid: sid,
    ...(name === null ? {} : { StreamName: name }),
    StreamEvent: event,
    ...(error === '' ? {} : { StreamError: error }),
    Timestamp: new Date().toISOString(),
  };
}

/** The fields of the `statusCallbackUrl` of a transcription. `about`: what the event has beside the fields of all. */
export function transcriptionFields(
  { sid, name, language, label }: { sid: string; name: string | null; language: string | null; label: string | null },
  sequence: number,
  event: 'transcription-started' | 'transcription-content' | 'transcription-stopped' | 'transcription-error',
  about: { [name: string]: string },
): { [name: string]: string } {
  return {
    TranscriptionSid: sid,
    ...(name === null ? {} : { Name: name }),
    TranscriptionEvent: event,
    SequenceId: String(sequence),
    LanguageCode: language ?? 'en-US',
    Track: 'inbound_track',
    ...(label === null ? {} : { InboundTrackLabel: label }),
    Timestamp: new Date().toISOString(),
    ...about,
  };
}

/** How a ConversationRelay ended. */
export interface RelayEnd {
  sessionSid: string;
  durationSec: number;
  /** null: the application or the caller ended it. */
  failure: string | null;
  /** What the application hands over to whoever has the call next. */
  handoffData: string | null;
}

/** Twilio's code of a connection to the application that broke, or did not come about. */
const relayConnectionFailed = '64105';

export function relayEndedQuestion({ sessionSid, durationSec, failure, handoffData }: RelayEnd): WebhookRequest {
  return {
    type: 'call.disconnected',
    data: {
      status: failure === null ? 'completed' : 'failed',
      detail: failure ?? '',
      duration: durationSec,
      ...(handoffData === null ? {} : { handoff_data: handoffData }),
    },
    fields: {
      SessionId: sessionSid,
      SessionStatus: failure === null ? 'ended' : 'failed',
      SessionDuration: String(durationSec),
      ...(handoffData === null ? {} : { HandoffData: handoffData }),
      ...(failure === null ? {} : { ErrorCode: relayConnectionFailed, ErrorMessage: failure }),
    },
  };
}
