/** The turns of a call: those of its record, or while it runs those that its events have told so far. */

export interface Turn {
  speaker: 'caller' | 'agent';
  /** RFC 3339. */
  started_at: string;
  duration_ms: number;
  response_ms: number | null;
}

export function turnsOf(call: {
  turns: readonly Turn[];
  events: readonly { event_type: string; event_data: { [field: string]: unknown } }[];
}): readonly Turn[] {
  if (call.turns.length > 0) return call.turns;
  return call.events.flatMap(({ event_type, event_data }) => {
    const { speaker, started_at, duration_ms, response_ms } = event_data;
    if (event_type !== 'turn.completed' || typeof started_at !== 'string' || typeof duration_ms !== 'number') return [];
    return [
      {
        speaker: speaker === 'agent' ? ('agent' as const) : ('caller' as const),
        started_at,
        duration_ms,
        response_ms: typeof response_ms === 'number' ? response_ms : null,
      },
    ];
  });
}
