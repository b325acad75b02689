import { describe, expect, it } from 'vitest';
import {
  byeReason,
  type CallStatus,
  type HangupCause,
  hangupCauses,
  outcomeOfAnswer,
  refusalOf,
  unansweredOutcomes,
  unansweredStatus,
} from '../../sip/cause.js';

const answers: [status: number, cause: HangupCause, callStatus: CallStatus][] = [
  [486, 'user_busy', 'busy'],
  [600, 'user_busy', 'busy'],
  [603, 'call_rejected', 'busy'],
  [408, 'no_answer', 'no_answer'],
  [480, 'no_answer', 'no_answer'],
  [487, 'originator_cancel', 'no_answer'],
  [404, 'not_found', 'failed'],
  [410, 'not_found', 'failed'],
  [416, 'not_found', 'failed'],
  [484, 'not_found', 'failed'],
  [485, 'not_found', 'failed'],
  [604, 'not_found', 'failed'],
  [415, 'incompatible_media', 'failed'],
  [488, 'incompatible_media', 'failed'],
  [606, 'incompatible_media', 'failed'],
  [500, 'carrier_unreachable', 'failed'],
  [502, 'carrier_unreachable', 'failed'],
  [503, 'carrier_unreachable', 'failed'],
  [504, 'carrier_unreachable', 'failed'],
  [302, 'unspecified', 'failed'],
  [400, 'call_rejected', 'failed'],
  [401, 'call_rejected', 'failed'],
  [403, 'call_rejected', 'failed'],
  [407, 'call_rejected', 'failed'],
  [482, 'call_rejected', 'failed'],
  [499, 'call_rejected', 'failed'],
  [699, 'call_rejected', 'failed'],
];

describe('the table of SIP status, hangup cause and call status', () => {
  it.each(answers)('%i of the far side is %s, %s', (status, cause, callStatus) => {
    expect(outcomeOfAnswer(status)).toEqual({ cause, status: callStatus });
    expect(unansweredStatus(cause, status)).toBe(callStatus);
  });

  it('decides what no final answer decides', () => {
    expect(unansweredOutcomes.ringTimeout).toEqual({ cause: 'no_answer', status: 'no_answer' });
    expect(unansweredOutcomes.callerCancel).toEqual({ cause: 'originator_cancel', status: 'no_answer' });
    expect(unansweredOutcomes.noProvisional).toEqual({ cause: 'carrier_unreachable', status: 'failed' });
    for (const outcome of Object.values(unansweredOutcomes))
      expect(unansweredStatus(outcome.cause)).toBe(outcome.status);
  });

  const refusals: [cause: HangupCause, status: number][] = [
    ['blocked_source', 403],
    ['not_found', 404],
    ['no_endpoint', 480],
    ['endpoint_inactive', 480],
    ['concurrency_limit', 486],
    ['insufficient_balance', 403],
    ['overload', 503],
    ['system_shutdown', 503],
    ['incompatible_media', 488],
    ['webhook_error', 503],
    ['unspecified', 500],
  ];
  it.each(refusals)('refuses for %s with %i', (cause, status) => {
    expect(refusalOf(cause).status).toBe(status);
  });

  it.each([...hangupCauses])('has words for %s', (cause) => {
    expect(refusalOf(cause).status).toBeGreaterThanOrEqual(400);
    expect(byeReason(cause)).toMatch(new RegExp(`^Q\\.850;cause=\\d{1,3};text="${cause}"$`));
  });

  it('says in a BYE what Q.850 says', () => {
    expect(byeReason('normal_clearing')).toContain('cause=16;');
    expect(byeReason('user_busy')).toContain('cause=17;');
    expect(byeReason('call_rejected')).toContain('cause=21;');
  });
});
