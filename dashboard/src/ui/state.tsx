/** States, each by a colour, a shape and its word. */
export type Tone = 'good' | 'bad' | 'warn' | 'quiet' | 'live';

const words: Record<string, [Tone, string]> = {
  in_progress: ['live', 'In progress'],
  completed: ['good', 'Completed'],
  failed: ['bad', 'Failed'],
  no_answer: ['quiet', 'No answer'],
  busy: ['warn', 'Busy'],
  healthy: ['good', 'Healthy'],
  degraded: ['warn', 'Degraded'],
  down: ['bad', 'Down'],
  unknown: ['quiet', 'Not seen yet'],
  active: ['good', 'Active'],
  inactive: ['quiet', 'Inactive'],
  invited: ['warn', 'Invited'],
  pending: ['warn', 'Pending'],
  delivered: ['good', 'Delivered'],
  ok: ['good', 'OK'],
  warning: ['warn', 'Warning'],
  failure: ['bad', 'Failure'],
  connect: ['good', 'Connects'],
  refuse: ['bad', 'Refuses'],
  matched: ['good', 'Matched'],
  skipped: ['quiet', 'Skipped'],
  refused: ['bad', 'Refused'],
};

export function State({ of, word }: { of: string; word?: string }) {
  const [tone, known] = words[of] ?? ['quiet', of];
  return (
    <span class="state" data-tone={tone}>
      {word ?? known}
    </span>
  );
}

const hops: Record<string, string> = {
  caller: 'Caller',
  carrier: 'Carrier',
  callee: 'Called party',
  trunkline: 'Trunkline',
  routing: 'Routing',
  account: 'Account',
  agent: 'Agent',
  webhook: 'Webhook',
  network: 'Network',
};

/** The hop of a call that caused its end. */
export function Hop({ of }: { of: string | null }) {
  return of === null ? null : <span class="hop">{hops[of] ?? of}</span>;
}
