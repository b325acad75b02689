import { expect, it } from 'vitest';
import { describeReport } from '../../src/cli/commands/call-text.js';
import { type CallReport, reportCall } from '../../src/simulator/report.js';

const course: Parameters<typeof reportCall>[0] = {
  ...{ to: '+15550100', from: '+15550199', target: '127.0.0.1:5060', sipCallId: 'c1', startedAt: new Date(0) },
  ...{ sipStatus: 200, failure: null, endedBy: 'us', cause: 'normal_clearing', reoffered: null, digitsSent: '' },
  ...{ invitedMs: 0, ringingMs: 10, answeredMs: 20, quietMs: null, endedMs: 5020 },
};
const report = (more: Partial<CallReport>): CallReport => ({ ...reportCall(course, null, { ptimeMs: 20 }), ...more });

it.each([
  [{ ok: true, problems: [], answerToFirstSoundMs: 40 }, 'verdict: ok'],
  [{ ok: true, problems: [], answerToFirstSoundMs: null }, 'verdict: ok, but only silence was heard'],
  [{}, 'verdict: not ok: no audio came back'],
] satisfies [Partial<CallReport>, string][])('the verdict of %j: %s', (more, verdict) => {
  expect(describeReport(report(more)).at(-1)).toBe(verdict);
});
