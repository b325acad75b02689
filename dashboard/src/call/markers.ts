/** Events that stand in the waveform: what a listener looks for in a recording. */

export interface Marker {
  id: string;
  /** Milliseconds from the start of the recording. */
  atMs: number;
  words: string;
  tone: 'good' | 'bad' | 'warn' | 'quiet';
}

interface MarkedEvent {
  id: string;
  event_type: string;
  event_data: { [field: string]: unknown };
  created_at: string;
}

const kinds: Record<string, [tone: Marker['tone'], words: (text: (field: string) => string) => string]> = {
  'agent.connected': ['good', () => 'Agent connected'],
  'agent.reconnected': ['good', () => 'Agent reconnected'],
  'agent.disconnected': ['warn', () => 'Agent gone'],
  'agent.failed': ['bad', (text) => `Agent failed: ${text('message')}`],
  'agent.failover': ['warn', () => 'Another agent takes over'],
  'agent.warning': ['warn', (text) => `Agent: ${text('message')}`],
  'barge_in.detected': ['warn', () => 'Barge-in'],
  'dtmf.received': ['quiet', (text) => `Key ${text('digit') || '(redacted)'} pressed`],
  'dtmf.sent': ['quiet', (text) => `Keys ${text('digits') || '(redacted)'} sent`],
  'redaction.started': ['warn', () => 'Not stored from here'],
  'redaction.ended': ['good', () => 'Stored again'],
  'call.held': ['warn', (text) => `On hold, by the ${text('by')}`],
  'call.resumed': ['good', () => 'Hold ended'],
  'transfer.started': ['quiet', (text) => `Transfer to ${text('to')} begins`],
  'transfer.completed': ['good', (text) => `Transferred to ${text('to')}`],
  'transfer.failed': ['bad', (text) => `Transfer to ${text('to')} failed`],
  'conference.joined': ['quiet', (text) => `Joined the conference ${text('name')}`],
  'conference.left': ['quiet', () => 'Left the conference'],
  'amd.completed': ['quiet', (text) => `Answered by: ${text('result')}`],
  'recording.paused': ['warn', () => 'Recording paused'],
  'recording.resumed': ['good', () => 'Recording resumed'],
  'media.one_way': ['bad', () => 'No audio from the caller'],
  'media.timeout': ['bad', () => 'Audio lost'],
  'webhook.failed': ['bad', () => 'Webhook failed'],
  'balance.exhausted': ['bad', () => 'Balance exhausted'],
};

/** From `beginMs` (milliseconds since 1970) for `lengthMs`; what was before the recording stands at its start. */
export function markersOf(events: readonly MarkedEvent[], beginMs: number, lengthMs: number): Marker[] {
  return events.flatMap(({ id, event_type, event_data, created_at }) => {
    const kind = kinds[event_type];
    if (!kind) return [];
    const atMs = Math.max(0, Date.parse(created_at) - beginMs);
    // What happens at the very end is the end of the call itself.
    if (atMs > lengthMs) return [];
    const [tone, words] = kind;
    return [{ id, atMs, tone, words: words((field) => (event_data[field] == null ? '' : String(event_data[field]))) }];
  });
}
