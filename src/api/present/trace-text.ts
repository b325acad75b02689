import type { TraceEntry } from '../../store/calls/call-records.js';

/** The SIP messages of a call as plain text. */
export function traceText(messages: readonly TraceEntry[]): string {
  if (messages.length === 0) return 'No SIP messages are stored for this call.\n';
  return messages.map(entryText).join('\n');
}

function entryText({ at, direction, peer, message }: TraceEntry): string {
  const arrow = direction === 'received' ? '<--' : '-->';
  const where = peer ? `${peer.transport} ${peer.address}:${peer.port}` : 'unknown peer';
  return `${at} ${arrow} ${where}\n${message.replace(/\r\n/g, '\n').trimEnd()}\n`;
}
