/** The event types of a call. `running`: only before the terminal event; `any`: may also follow it, such as settlement. */
const phases = {
  'call.initiated': 'running',
  'call.routed': 'running',
  'call.ringing': 'running',
  'call.early_media': 'running',
  'call.answered': 'running',
  'call.held': 'running',
  'call.resumed': 'running',
  'call.rejected': 'running',
  'trunk.failed': 'running',
  'agent.connecting': 'running',
  'agent.personalized': 'running',
  'agent.connected': 'running',
  'agent.disconnected': 'running',
  'agent.reconnected': 'running',
  'agent.failed': 'running',
  'agent.failover': 'running',
  'agent.warning': 'running',
  'media.started': 'running',
  'media.one_way': 'running',
  'media.timeout': 'running',
  'quality.degraded': 'running',
  'turn.completed': 'running',
  'barge_in.detected': 'running',
  'dtmf.received': 'running',
  'dtmf.sent': 'running',
  'redaction.started': 'running',
  'redaction.ended': 'any',
  'mark.reached': 'running',
  'audio.cleared': 'running',
  'transfer.started': 'running',
  'transfer.completed': 'running',
  'transfer.failed': 'running',
  'conference.joined': 'running',
  'conference.started': 'running',
  'conference.updated': 'running',
  'conference.left': 'running',
  'conference.ended': 'running',
  'queue.entered': 'running',
  'queue.left': 'running',
  'amd.completed': 'running',
  'recording.started': 'running',
  'recording.paused': 'running',
  'recording.resumed': 'running',
  'recording.completed': 'any',
  'recording.failed': 'any',
  'transcript.final': 'any',
  'webhook.delivered': 'any',
  'webhook.failed': 'any',
  'webhook.warning': 'any',
  'balance.reserved': 'any',
  'balance.exhausted': 'any',
  'balance.unasked': 'any',
  'call.cost_settled': 'any',
} as const;

/** The events of a call, except the four terminal events, which `finish` writes. */
export type EventType = keyof typeof phases;

export const terminalEvents = {
  completed: 'call.completed',
  failed: 'call.failed',
  busy: 'call.busy',
  no_answer: 'call.no_answer',
} as const;

export type FinalStatus = keyof typeof terminalEvents;

export function mayFollowTheEnd(type: EventType): boolean {
  return phases[type] === 'any';
}
