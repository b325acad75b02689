import { useState } from 'preact/hooks';
import type { CallDetail, CallEvent } from '../api/types';
import { Brief, Outside } from '../ui/text';
import { Time } from '../ui/time';

const tones: [RegExp, string][] = [
  [/failed|timeout|one_way|rejected|exhausted/, 'bad'],
  [/warning|degraded|disconnected|busy|no_answer|barge_in/, 'warn'],
  [/answered|connected|completed|delivered|started/, 'good'],
];

/** All events in their order, with the time since the call began; the data of each on request. */
export function Timeline({ call }: { call: CallDetail }) {
  const [filter, setFilter] = useState<'all' | 'steps'>('steps');
  const isDetail = (event: CallEvent) => /^(turn|mark|audio|transcript|dtmf|webhook\.delivered)/.test(event.event_type);
  const shown = filter === 'all' ? call.events : call.events.filter((event) => !isDetail(event));
  const hidden = call.events.length - shown.length;
  return (
    <div class="stack">
      <ol class="timeline">
        {shown.map((event) => (
          <Entry key={event.id} event={event} began={call.created_at} />
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

function Entry({ event, began }: { event: CallEvent; began: string }) {
  const [isOpen, setOpen] = useState(false);
  const tone = tones.find(([pattern]) => pattern.test(event.event_type))?.[1] ?? 'quiet';
  const afterMs = Date.parse(event.created_at) - Date.parse(began);
  const { message, detail, reason, text } = event.event_data;
  const brief = [message, detail, text, reason].find((each) => typeof each === 'string' && each !== '') as
    | string
    | undefined;
  return (
    <li data-tone={tone}>
      <button type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <span class="after">+{(afterMs / 1000).toFixed(2)}</span>
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
          <pre>
            <Outside text={JSON.stringify(event.event_data, null, 2)} limit={3_000} />
          </pre>
        </div>
      )}
    </li>
  );
}
