/** Who spoke when: a lane for the caller and one for the agent, with the response times between them and the barge-ins. */
import type { CallDetail } from '../api/types';
import { Empty } from '../ui/parts';
import { turnsOf } from './turn-list';

export function Turns({ call, onSeek }: { call: CallDetail; onSeek?: (atMs: number) => void }) {
  const turns = turnsOf(call);
  const beginMs = Date.parse(call.answered_at ?? call.created_at);
  const last = Math.max(0, ...turns.map((turn) => Date.parse(turn.started_at) + turn.duration_ms));
  const endMs = Math.max(call.completed_at ? Date.parse(call.completed_at) : 0, last, beginMs + 1_000);
  const span = endMs - beginMs;
  const placeOf = (ms: number) => `${Math.min(100, Math.max(0, ((ms - beginMs) / span) * 100)).toFixed(3)}%`;
  const bargeIns = call.events.filter(({ event_type }) => event_type === 'barge_in.detected');
  if (turns.length === 0)
    return (
      <Empty title="Nobody has spoken">
        <p>
          {call.status === 'in_progress'
            ? 'A turn appears when its speaker is finished.'
            : 'No speech was detected in this call.'}
        </p>
      </Empty>
    );
  const responses = turns.filter(({ speaker, response_ms }) => speaker === 'agent' && response_ms !== null);
  return (
    <div class="stack">
      <div class="lanes">
        {(['caller', 'agent'] as const).map((speaker) => (
          <div class="lane" key={speaker}>
            <small>{speaker === 'caller' ? 'Caller' : 'Agent'}</small>
            <div class="track">
              {turns
                .filter((turn) => turn.speaker === speaker)
                .map((turn) => {
                  const startMs = Date.parse(turn.started_at);
                  const words = `${speaker}, ${(turn.duration_ms / 1000).toFixed(1)} s${turn.response_ms === null ? '' : `, after ${turn.response_ms} ms`}`;
                  return (
                    <button
                      type="button"
                      key={turn.started_at}
                      class="turn"
                      data-speaker={speaker}
                      aria-label={onSeek ? `Play from here: ${words}` : words}
                      title={words}
                      disabled={!onSeek}
                      style={{ left: placeOf(startMs), width: `${Math.max(0.4, (turn.duration_ms / span) * 100)}%` }}
                      onClick={() => onSeek?.(startMs)}
                    />
                  );
                })}
              {speaker === 'agent' &&
                bargeIns.map(({ id, created_at }) => (
                  <i
                    key={id}
                    class="barge-in"
                    style={{ left: placeOf(Date.parse(created_at)) }}
                    title="The caller spoke over the agent"
                  />
                ))}
            </div>
          </div>
        ))}
      </div>
      <p class="row">
        {responses.map(({ started_at, response_ms }) => (
          <span key={started_at} class="hop" data-slow={(response_ms ?? 0) > 1_500}>
            {response_ms} ms
          </span>
        ))}
        <small>
          {responses.length > 0 ? 'from the end of the caller’s speech to the agent’s' : 'The agent answered no turn.'}
          {bargeIns.length > 0 && `; ${bargeIns.length} barge-in${bargeIns.length > 1 ? 's' : ''}`}
        </small>
      </p>
    </div>
  );
}
