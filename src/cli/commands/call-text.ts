/** Formats the report of a simulated call: one line per fact, then the verdict. */
import type { CallReport } from '../../simulator/report.js';
import type { MedianSpread, Summary } from '../../simulator/several.js';
import { type Cell, count, facts, quantity, table } from '../text.js';

export function describeReport(report: CallReport, recordFile?: string): string[] {
  const lines: [string, Cell][] = [
    ['call', `${report.to} from ${report.from}, ${report.target}`],
    ['call-id', report.sipCallId],
  ];
  if (report.answered) lines.push(...answered(report));
  if (recordFile) lines.push(['recording', recordFile]);
  return [...facts(lines), verdict(report)];
}

function answered(report: CallReport): [string, Cell][] {
  const { sent, received, heard, roundTrip } = report;
  return [
    ['setup', `${quantity(report.setupMs, 'ms')} from INVITE to 200, ringing after ${quantity(report.ringMs, 'ms')}`],
    [
      'first audio',
      `${quantity(report.answerToFirstPacketMs, 'ms')} after the answer, not silent after ${quantity(report.answerToFirstSoundMs, 'ms')}`,
    ],
    ['duration', quantity(report.durationMs / 1000, 's', 1)],
    ['codec', `${report.codec} ${report.ptimeMs} ms`],
    [
      'sent',
      `${count(sent.packets, 'packet')}, lost on purpose ${sent.dropped}, reordered ${sent.reordered}, duplicated ${sent.duplicated}, own sending late by at most ${sent.worstLateMs.toFixed(1)} ms${sent.leftOut > 0 ? `, ${sent.leftOut} left out` : ''}`,
    ],
    ['sent, by RTCP', `loss ${quantity(sent.farLossPercent, '%', 1)}, jitter ${quantity(sent.farJitterMs, 'ms', 1)}`],
    [
      'received',
      `${count(received.packets, 'packet')}, lost ${received.lost} (${quantity(received.lossPercent, '%', 1)}), reordered ${received.reordered}, duplicated ${received.duplicates}`,
    ],
    ...(received.codecs.length > 1 || report.reoffered !== null
      ? ([['re-INVITE', `answered ${report.reoffered ?? '-'}, heard ${received.codecs.join(', then ')}`]] as [
          string,
          Cell,
        ][])
      : []),
    [
      'jitter',
      `${quantity(received.jitterMs, 'ms', 1)}${received.clockSkewPpm === null ? '' : `, clock of the far end off by ${quantity(received.clockSkewPpm, 'ppm')}`}`,
    ],
    ['MOS', received.mos?.toFixed(2) ?? '- (under 100 packets)'],
    ['network RTT', quantity(report.rttMs, 'ms', 1)],
    [
      'audio RTT',
      roundTrip
        ? `${roundTrip.medianMs.toFixed(1)} ms (${roundTrip.leastMs.toFixed(1)} to ${roundTrip.worstMs.toFixed(1)}, ${roundTrip.found} of ${roundTrip.sent} markers returned)`
        : 'no marker returned',
    ],
    [
      'heard',
      heard.levelDbfs === null
        ? 'silence'
        : `${heard.levelDbfs.toFixed(1)} dBFS, mostly ${quantity(heard.frequencyHz, 'Hz')}, not silent ${heard.activePercent.toFixed(0)} % of the time`,
    ],
    ['keys', `sent ${sent.digits || 'none'}, heard ${received.digits || 'none'}`],
    ['hung up by', `${report.endedBy}: ${report.cause}`],
    ...(report.noticedMs === null
      ? []
      : ([['end', `${quantity(report.noticedMs / 1000, 's', 1)} after our audio stopped`]] as [string, Cell][])),
  ];
}

function verdict(report: CallReport): string {
  if (!report.ok) return `verdict: not ok: ${report.problems.join('; ')}`;
  return report.answerToFirstSoundMs === null ? 'verdict: ok, but only silence was heard' : 'verdict: ok';
}

export function describeSummary(summary: Summary, reports: readonly CallReport[]): string[] {
  const columns = ['CALL', 'ANSWERED', 'SETUP', 'LOSS', 'JITTER', 'MOS', 'AUDIO RTT', 'CAUSE'].map((title) => ({
    title,
    right: title !== 'CAUSE',
  }));
  const rows = reports.map((report, index) => [
    index + 1,
    report.answered ? 'yes' : 'no',
    quantity(report.setupMs, 'ms'),
    quantity(report.received.lossPercent, '%', 1),
    quantity(report.received.jitterMs, 'ms', 1),
    report.received.mos?.toFixed(2),
    quantity(report.roundTrip?.medianMs, 'ms'),
    report.failure ?? report.cause,
  ]);
  const lines: [string, Cell][] = [
    ['answered', `${summary.answered} of ${summary.calls}`],
    ['setup', spread(summary.setup)],
    ['audio RTT', spread(summary.roundTrip)],
    ['received loss', quantity(summary.lossPercent, '%', 2)],
    ['worst jitter', quantity(summary.worstJitterMs, 'ms', 1)],
    ['worst MOS', summary.worstMos?.toFixed(2)],
    ...Object.entries(summary.problems).map(([problem, times]): [string, Cell] => ['problem', `${times} x ${problem}`]),
  ];
  return [...table(columns, rows), '', ...facts(lines), `verdict: ${summary.ok} of ${count(summary.calls, 'call')} ok`];
}

function spread(value: MedianSpread | null): string {
  if (value === null) return '-';
  return `median ${value.medianMs.toFixed(0)} ms, 95 % within ${value.p95Ms.toFixed(0)} ms, worst ${value.worstMs.toFixed(0)} ms`;
}
