import { useState } from 'preact/hooks';
import type { CallDetail, CallEvent } from '../api/types';
import { Brief, Outside } from '../ui/text';
import { Time } from '../ui/time';

const tones: [RegExp, string][] = [
  [/failed|timeout|one_way|rejected|exhausted/, 'bad'],
  [/warning|degraded|disconnected|busy|no_answer|barge_in/, 'warn'],
  [/answered|connected|completed|delivered|started/, 'good'],
];

/**
 * All events in their order, with the time since the call began; the data of each on request. While the recording plays, the last event
 * before that moment is marked.
 */
export function Timeline({
  call,
  playing,
  onSeek,
}: {
  call: CallDetail;
  /** What is heard now, in milliseconds since 1970; null while nothing plays. */
  playing: number | null;
  /** Plays the recording from that moment; absent without a recording. */
  onSeek?: (atMs: number) => void;
}) {
  const [filter, setFilter] = useState<'all' | 'steps'>('steps');
  const isDetail = (event: CallEvent) => /^(turn|mark|audio|transcript|dtmf|webhook\.delivered)/.test(event.event_type);
  const shown = filter === 'all' ? call.events : call.events.filter((event) => !isDetail(event));
  const hidden = call.events.length - shown.length;
  const now = playing === null ? -1 : shown.findLastIndex((event) => Date.parse(event.created_at) <= playing);
  return (
    <div class="stack">
      <ol class="timeline">
        {shown.map((event, index) => (
          <Entry key={event.id} event={event} began={call.created_at} isNow={index === now} onSeek={onSeek} />
        ))}
      </ol>
      {(hidden > 0 || filter === 'all') && (
        <div>
          <button type="button" class="link" onClick={() => setFilter(filter === 'all' ? 'steps' : 'all')}>
            {filter === 'all' ? 'Steps only' : `Also turns, keys and marks (${hidden})`}
          </button>
        </div>
      )}
    </div>
  );
}

function Entry({
  event,
  began,
  isNow,
  onSeek,
}: {
  event: CallEvent;
  began: string;
  isNow: boolean;
  onSeek?: (atMs: number) => void;
}) {
  const [isOpen, setOpen] = useState(false);
  const tone = tones.find(([pattern]) => pattern.test(event.event_type))?.[1] ?? 'quiet';
  const atMs = Date.parse(event.created_at);
  const { message, detail, reason, text } = event.event_data as Record<string, unknown>;
  const brief = [message, detail, text, reason].find((each) => typeof each === 'string' && each !== '') as
    | string
    | undefined;
  return (
    <li data-tone={tone} data-now={isNow}>
      <button type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <span class="after">+{((atMs - Date.parse(began)) / 1000).toFixed(2)}</span>
        <span>
          <strong>{event.event_type}</strong>
          {brief && (
            <small>
              {' '}
              <Brief text={brief} limit={90} />
            </small>
          )}
        </span>
      </button>
      {isOpen && (
        <div class="stack tight event-data">
          <small>
            <Time at={event.created_at} form="ms" /> · UTC {event.created_at}
          </small>
          {onSeek && (
            <button type="button" class="link" onClick={() => onSeek(atMs)}>
              Play from here
            </button>
          )}
          <pre>
            <Outside text={JSON.stringify(event.event_data, null, 2)} limit={3_000} />
          </pre>
        </div>
      )}
    </li>
  );
}
