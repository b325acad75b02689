/** What happens in a running call at this moment, from its events. */

interface TimedEvent {
  event_type: string;
  event_data: { [field: string]: unknown };
  created_at: string;
}

export interface Now {
  /** `Talking with`. */
  words: string;
  /** The endpoint that the words are about; null if they are whole without a name. */
  endpointId: string | null;
  /** When it began, RFC 3339. */
  since: string;
  /** What else is true: `recording`. */
  also: string[];
}

interface Known {
  answered: string | null;
  /** The agent that is connected, or is being connected. */
  agent: { endpointId: string; isReady: boolean; since: string } | null;
  held: { by: string; since: string } | null;
  transfer: { to: string; isDone: boolean; since: string } | null;
  conference: { name: string; since: string } | null;
  recording: 'on' | 'paused' | null;
}

/** From the events of the call, in their order. */
export function happensNow(call: {
  created_at: string;
  endpoint_id: string | null;
  events: readonly TimedEvent[];
}): Now {
  const known: Known = { answered: null, agent: null, held: null, transfer: null, conference: null, recording: null };
  let ringing: string | null = null;
  for (const { event_type, event_data, created_at: since } of call.events) {
    const text = (field: string) => (typeof event_data[field] === 'string' ? (event_data[field] as string) : '');
    switch (event_type) {
      case 'call.ringing':
        ringing ??= since;
        break;
      case 'call.answered':
        known.answered ??= since;
        break;
      case 'agent.connecting':
        known.agent = { endpointId: text('endpoint_id'), isReady: false, since };
        break;
      case 'agent.connected':
        known.agent = { endpointId: text('endpoint_id'), isReady: true, since };
        break;
      case 'agent.failed':
      case 'agent.disconnected':
        known.agent = null;
        break;
      case 'call.held':
        known.held = { by: text('by'), since };
        break;
      case 'call.resumed':
        known.held = null;
        break;
      case 'transfer.started':
        known.transfer = { to: text('to'), isDone: false, since };
        break;
      case 'transfer.completed':
        known.transfer = { to: text('to'), isDone: true, since };
        break;
      case 'transfer.failed':
        known.transfer = null;
        break;
      case 'conference.joined':
        known.conference = { name: text('name'), since };
        break;
      case 'conference.left':
      case 'conference.ended':
        known.conference = null;
        break;
      case 'recording.started':
      case 'recording.resumed':
        known.recording = 'on';
        break;
      case 'recording.paused':
        known.recording = 'paused';
        break;
      case 'recording.completed':
      case 'recording.failed':
        known.recording = null;
        break;
    }
  }
  const also = known.recording === null ? [] : [known.recording === 'on' ? 'recording' : 'recording paused'];
  return { endpointId: null, ...inWords(known, ringing, call), also };
}

function inWords(
  known: Known,
  ringing: string | null,
  call: { created_at: string; endpoint_id: string | null },
): Omit<Now, 'also' | 'endpointId'> & Partial<Pick<Now, 'endpointId'>> {
  const { answered, agent, held, transfer, conference } = known;
  if (held) return { words: held.by ? `On hold, by the ${held.by}` : 'On hold', since: held.since };
  if (transfer)
    return transfer.isDone
      ? { words: `Transferred; talking with ${transfer.to}`, since: transfer.since }
      : { words: `Being transferred to ${transfer.to}`, since: transfer.since };
  if (conference) return { words: `In the conference ${conference.name}`, since: conference.since };
  if (agent && !agent.isReady) return { words: 'Connecting to', endpointId: agent.endpointId, since: agent.since };
  if (answered === null)
    return ringing === null ? { words: 'Being routed', since: call.created_at } : { words: 'Ringing', since: ringing };
  if (agent)
    return {
      words: 'Talking with',
      endpointId: agent.endpointId,
      since: agent.since > answered ? agent.since : answered,
    };
  // Without an agent a webhook decides what happens.
  if (call.endpoint_id !== null)
    return { words: 'Following the actions of', endpointId: call.endpoint_id, since: answered };
  return { words: 'Answered', since: answered };
}
