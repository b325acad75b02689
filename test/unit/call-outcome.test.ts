import { describe, expect, it } from 'vitest';
import { type HangupCause, hangupCauses } from '../../sip/cause.js';
import { inboundStatus } from '../../src/call/core/outcome.js';
import type { HangupSource } from '../../src/store/database/tables.js';

/** The mapping as the API's readers see it: cause and source → status before and after the answer. */
const rows: [HangupCause, HangupSource, string, string][] = [
  ['normal_clearing', 'caller', 'no_answer', 'completed'],
  ['originator_cancel', 'caller', 'no_answer', 'completed'],
  ['no_answer', 'caller', 'no_answer', 'completed'],
  ['timeout', 'caller', 'no_answer', 'completed'],
  ['normal_clearing', 'api', 'failed', 'completed'],
  ['agent_hangup', 'agent', 'failed', 'completed'],
  ['transferred', 'agent', 'failed', 'completed'],
  ['time_limit', 'system', 'failed', 'completed'],
  ['media_timeout', 'system', 'failed', 'completed'],
  ['insufficient_balance', 'system', 'failed', 'completed'],
  ['no_endpoint', 'system', 'failed', 'completed'],
  ['agent_unreachable', 'system', 'failed', 'failed'],
  ['agent_error', 'agent', 'failed', 'failed'],
  ['incompatible_media', 'system', 'failed', 'failed'],
  ['engine_gone', 'system', 'failed', 'failed'],
  ['no_ack', 'system', 'failed', 'failed'],
  ['signalling_lost', 'system', 'failed', 'failed'],
  ['system_shutdown', 'system', 'failed', 'failed'],
];

describe('status of an inbound call', () => {
  it.each(rows)('%s by %s: unanswered %s, answered %s', (cause, source, unanswered, answered) => {
    expect(inboundStatus({ cause, source }, false)).toBe(unanswered);
    expect(inboundStatus({ cause, source }, true)).toBe(answered);
  });

  it('a call that we refuse is failed, whatever the cause', () => {
    for (const cause of hangupCauses) expect(inboundStatus({ cause, source: 'system' }, false)).toBe('failed');
  });
});
