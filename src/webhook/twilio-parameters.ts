/** Converts a call to the parameters of Twilio's requests. */
import { randomUUID } from 'node:crypto';

/** The `AnsweredBy` value of Twilio and two that it does not have, and the duration of the detection. */
export interface AnsweredBy {
  by:
    | 'human'
    | 'machine_start'
    | 'machine_end_beep'
    | 'machine_end_silence'
    | 'machine_end_other'
    | 'fax'
    | 'unknown'
    | 'screening'
    | 'operator';
  afterMs: number;
}

export interface CallState {
  callId: string;
  organizationId: string;
  from: string;
  fromName: string | null;
  to: string;
  direction: 'inbound' | 'outbound';
  answered: boolean;
  ended: boolean;
  /** Of an outbound call whose answerer was listened to. */
  answeredBy?: AnsweredBy | null;
  /** The call whose `dial` made this one. */
  parentCallId?: string;
}

export function callSid(callId: string): string {
  return `CA${callId.replaceAll('-', '')}`;
}

export function recordingSid(recordingId: string): string {
  return `RE${recordingId.replaceAll('-', '')}`;
}

export function conferenceSid(conferenceId: string): string {
  return `CF${conferenceId.replaceAll('-', '')}`;
}

export function queueSid(queueId: string): string {
  return `QU${queueId.replaceAll('-', '')}`;
}

/** The id in a SID of ours, as it is in the API; other platforms write it so. */
export function uuidOf(sid: string): string {
  return sid.replace(/^[A-Z]{2}(\w{8})(\w{4})(\w{4})(\w{4})(\w{12})$/, '$1-$2-$3-$4-$5');
}

export function newRelaySid(): string {
  return `VX${randomUUID().replaceAll('-', '')}`;
}

export function transcriptionSid(recordingId: string): string {
  return `TR${recordingId.replaceAll('-', '')}`;
}

export function newTranscriptionSid(): string {
  return `GT${randomUUID().replaceAll('-', '')}`;
}

export function newStreamSid(): string {
  return `MZ${randomUUID().replaceAll('-', '')}`;
}

export function accountSid(organizationId: string): string {
  return `AC${organizationId.replaceAll('-', '')}`;
}

export function answeredByFields({ by, afterMs }: AnsweredBy): { [name: string]: string } {
  return { AnsweredBy: twilioAnsweredBy(by), MachineDetectionDuration: String(afterMs) };
}

/** In Twilio's own words. */
export function twilioAnsweredBy(by: string): string {
  if (by === 'screening') return 'machine_start';
  return by === 'operator' ? 'unknown' : by;
}

/** The fields every request has. */
export function callFields(call: CallState): { [name: string]: string } {
  return {
    AccountSid: accountSid(call.organizationId),
    ApiVersion: '2010-04-01',
    CallSid: callSid(call.callId),
    CallStatus: call.ended ? 'completed' : call.answered ? 'in-progress' : 'ringing',
    Called: call.to,
    Caller: call.from,
    Direction:
      call.parentCallId !== undefined ? 'outbound-dial' : call.direction === 'inbound' ? 'inbound' : 'outbound-api',
    From: call.from,
    To: call.to,
    ...(call.fromName === null ? {} : { CallerName: call.fromName }),
    ...(call.parentCallId === undefined ? {} : { ParentCallSid: callSid(call.parentCallId) }),
  };
}
