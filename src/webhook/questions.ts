/** What webhooks are told, in both dialects. */
import { randomUUID } from 'node:crypto';
import type { Question } from './ask.js';
import { type CallState, callSid } from './twilio-words.js';

/** A call begins: incoming, or outgoing and just answered. */
export function startQuestion(
  call: Pick<CallState, 'direction' | 'from' | 'to'>,
  headers: Readonly<Record<string, string>>,
): Question {
  const { direction, from, to } = call;
  return {
    type: direction === 'inbound' ? 'call.incoming' : 'call.outgoing',
    data: { from_number: from, to_number: to, direction, headers },
    // Custom header fields, as Twilio passes them on.
    fields: Object.fromEntries(
      Object.entries(headers)
        .filter(([name]) => name.startsWith('x-'))
        .map(([name, value]) => [`SipHeader_${name.replace(/(^|-)\w/g, (start) => start.toUpperCase())}`, value]),
    ),
  };
}

export function gatheredQuestion(input: { digits: string; reason: string }): Question {
  const { digits, reason } = input;
  return { type: 'call.gathered', data: { digits, reason }, fields: { Digits: digits } };
}

/** What became of a `dial`. */
export interface Dialled {
  status: 'completed' | 'busy' | 'no-answer' | 'failed';
  to: string[];
  /** From the answer. */
  durationSec: number;
}

export function dialledQuestion({ status, to, durationSec }: Dialled): Question {
  return {
    type: 'call.dialed',
    data: { status, to, duration: durationSec },
    fields: {
      DialCallSid: callSid(randomUUID()),
      DialCallStatus: status,
      ...(status === 'completed' && { DialCallDuration: String(durationSec), DialBridged: 'true' }),
    },
  };
}

/** The stream or agent of a `connect` is over. */
export function connectedQuestion(status: 'hangup' | 'failed', detail: string, durationSec: number): Question {
  return {
    type: 'call.disconnected',
    data: { status: status === 'failed' ? 'failed' : 'completed', detail, duration: durationSec },
    fields: { StreamStatus: status === 'failed' ? 'stream-error' : 'stream-stopped' },
  };
}
