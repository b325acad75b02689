/** The head of a running call: what happens now, since when and with which agent. */
import { useEndpointNames } from '../api/endpoints';
import type { CallDetail } from '../api/types';
import { State } from '../ui/state';
import { Brief } from '../ui/text';
import { Since, Time } from '../ui/time';
import { happensNow } from './now';

export function LiveNow({ call }: { call: CallDetail }) {
  const nameOf = useEndpointNames();
  const { words, endpointId, since, also } = happensNow(call);
  const last = call.events.findLast(({ event_type }) => event_type === 'turn.completed')?.event_data;
  return (
    <section class="notice" data-tone="live" aria-label="What happens now">
      <p class="row now">
        <State of="in_progress" word="Live" />
        <strong aria-live="polite">
          <Brief text={words} limit={120} />{' '}
          {endpointId && (
            <a href={`#/endpoints/${endpointId}`}>
              <Brief text={nameOf(endpointId) ?? 'its endpoint'} limit={60} />
            </a>
          )}
        </strong>
        {also.map((each) => (
          <span class="hop" key={each}>
            {each}
          </span>
        ))}
      </p>
      <p class="soft">
        For <Since from={since} />, since <Time at={since} form="clock" />
        {last && (
          <>
            . The {String(last.speaker)} spoke last
            {typeof last.response_ms === 'number' && `, ${last.response_ms} ms after the other side`}
          </>
        )}
        .
      </p>
    </section>
  );
}
