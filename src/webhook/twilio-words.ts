/** A call in the words of Twilio's requests. */
import { randomUUID } from 'node:crypto';

export interface CallState {
  callId: string;
  organizationId: string;
  from: string;
  fromName: string | null;
  to: string;
  direction: 'inbound' | 'outbound';
  answered: boolean;
  ended: boolean;
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

export function newStreamSid(): string {
  return `MZ${randomUUID().replaceAll('-', '')}`;
}

export function accountSid(organizationId: string): string {
  return `AC${organizationId.replaceAll('-', '')}`;
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
