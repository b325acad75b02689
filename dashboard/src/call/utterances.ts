/** The transcript of a call with a time for each word. */

export interface SpokenWord {
  text: string;
  /** Milliseconds from the start of the recording. */
  atMs: number;
}
export interface Utterance {
  speaker: 'caller' | 'agent';
  atMs: number;
  words: SpokenWord[];
}

interface Heard {
  created_at: string;
  answered_at: string | null;
  events: readonly { event_type: string; event_data: { [field: string]: unknown }; created_at: string }[];
  turns: readonly { speaker: string; started_at: string; duration_ms: number }[];
}

/** When the recording of the whole call began, or would have begun, in milliseconds since 1970. */
export function recordingBegan({ events, answered_at, created_at }: Omit<Heard, 'turns'>): number {
  const started = events.find(({ event_type }) => event_type === 'recording.started');
  return Date.parse(started?.created_at ?? answered_at ?? created_at);
}

/** A text belongs to no turn that is further from the moment it was written. */
const furthestMs = 5_000;

/**
 * In the order of their beginnings. The record has the time of each turn; the words of an utterance are spread over the nearest turn of its
 * speaker, by their length: agents send a text before they speak it, during it or after it. An utterance without a turn begins where its
 * event was written.
 */
export function utterances(call: Heard): Utterance[] {
  const beginMs = recordingBegan(call);
  const free = call.turns.map(({ speaker, started_at, duration_ms }) => {
    const startMs = Date.parse(started_at);
    return { speaker, startMs, endMs: startMs + duration_ms };
  });
  const spoken = call.events.flatMap(({ event_type, event_data, created_at }): Utterance[] => {
    if (event_type !== 'transcript.final' || typeof event_data.text !== 'string') return [];
    const speaker = event_data.speaker === 'agent' ? 'agent' : 'caller';
    const writtenMs = Date.parse(created_at);
    const distanceMs = (turn: (typeof free)[number]) =>
      turn.speaker === speaker
        ? Math.max(0, turn.startMs - writtenMs, writtenMs - turn.endMs)
        : Number.POSITIVE_INFINITY;
    const nearest = free.reduce((best, turn, i) => (distanceMs(turn) < distanceMs(free[best] ?? turn) ? i : best), 0);
    const turn = free[nearest] && distanceMs(free[nearest]) <= furthestMs ? free.splice(nearest, 1)[0] : undefined;
    const startMs = Math.max(0, (turn?.startMs ?? writtenMs) - beginMs);
    const lengthMs = turn ? turn.endMs - turn.startMs : 0;
    const words = event_data.text.split(/\s+/).filter((word) => word !== '');
    const characters = words.reduce((sum, word) => sum + word.length + 1, 0);
    let before = 0;
    return [
      {
        speaker,
        atMs: startMs,
        words: words.map((text) => {
          const atMs = startMs + (lengthMs * before) / Math.max(1, characters);
          before += text.length + 1;
          return { text, atMs };
        }),
      },
    ];
  });
  return spoken.sort((a, b) => a.atMs - b.atMs);
}
