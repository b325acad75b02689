/** The list of calls: every filter is in the URL, and new calls come in live. */
import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { answerOf, api, download } from '../api/client';
import type { paths } from '../api/description';
import { allEndpoints } from '../api/endpoints';
import { useEvents } from '../api/live';
import { allPages } from '../api/pages';
import { useQuery } from '../api/query';
import type { Call } from '../api/types';
import type { PageProps } from '../page';
import { linkTo, replaceQuery } from '../route';
import { Action, Empty, Head, Problem } from '../ui/parts';
import { State } from '../ui/state';
import { Brief, brief } from '../ui/text';
import { duration, money, Since, Time } from '../ui/time';
import { VirtualRows } from '../ui/virtual-rows';

type Filters = NonNullable<paths['/v1/calls/search']['get']['parameters']['query']>;

const names = [
  ...['status', 'direction', 'number', 'endpoint_id', 'phone_number_id', 'text', 'min_duration', 'max_duration'],
  ...['start_date', 'end_date', 'from_time', 'until_time', 'hangup_cause'],
] as (keyof Filters)[];
/** Why calls end, in words. */
const causes: Record<NonNullable<Filters['hangup_cause']>, string> = {
  normal_clearing: 'Normal clearing',
  originator_cancel: 'Originator cancel',
  user_busy: 'User busy',
  no_answer: 'No answer',
  call_rejected: 'Call rejected',
  not_found: 'Not found',
  timeout: 'Timeout',
  time_limit: 'Time limit',
  media_timeout: 'Media timeout',
  agent_hangup: 'Agent hangup',
  agent_unreachable: 'Agent unreachable',
  agent_error: 'Agent error',
  webhook_error: 'Webhook error',
  no_endpoint: 'No endpoint',
  endpoint_inactive: 'Endpoint inactive',
  transferred: 'Transferred',
  incompatible_media: 'Incompatible media',
  carrier_unreachable: 'Carrier unreachable',
  destination_not_allowed: 'Destination not allowed',
  insufficient_balance: 'Insufficient balance',
  concurrency_limit: 'Concurrency limit',
  blocked_source: 'Blocked source',
  overload: 'Overload',
  no_ack: 'No ack',
  signalling_lost: 'Signalling lost',
  engine_gone: 'Engine gone',
  system_shutdown: 'System shutdown',
  system_restart: 'System restart',
  unspecified: 'Unspecified',
};
const pageSize = 100;
const rowHeight = 40;
const typingMs = 350;
const quietMs = 500;

export function Calls({ place }: PageProps) {
  const filters = useMemo(() => {
    const given = names.flatMap((name) => {
      const value = place.query.get(name);
      return value ? [[name, value] as const] : [];
    });
    return Object.fromEntries(given) as Record<string, string>;
  }, [place]);
  const key = JSON.stringify(filters);
  const { calls, error, isLoading, hasMore, more, reload } = useCalls(key);
  const isFiltered = Object.keys(filters).length > 0;
  const query = new URLSearchParams(filters).toString();

  return (
    <>
      <Head title="Calls" under={hasMore ? 'Newest first; more are loaded as you scroll.' : undefined}>
        <Action label="Export as CSV" action={() => download(`/v1/calls/export${query && `?${query}`}`, 'calls.csv')} />
      </Head>
      <FilterBar filters={filters} />
      {error && <Problem error={error} onRetry={reload} />}
      {calls.length === 0 && !isLoading && !error && (
        <section class="card">
          {isFiltered ? (
            <Empty title="No call meets these conditions">
              <a href="#/calls">Show all calls</a>
            </Empty>
          ) : (
            <Empty title="No calls yet">
              <p>
                Dial one of your <a href="#/numbers">numbers</a>, or <a href="#/try">place a call from this page</a>. It
                appears here at once.
              </p>
            </Empty>
          )}
        </section>
      )}
      {calls.length > 0 && (
        <section class="card">
          <table class="rows calls">
            <caption class="hidden">Calls, newest first</caption>
            <thead>
              <tr>
                <th scope="col">Began</th>
                <th scope="col">From</th>
                <th scope="col" class="wide-only">
                  To
                </th>
                <th scope="col">Status</th>
                <th scope="col" class="right">
                  Length
                </th>
                <th scope="col" class="wide-only">
                  Ended by
                </th>
                <th scope="col" class="right wide-only">
                  Set-up
                </th>
                <th scope="col" class="right wide-only">
                  Cost
                </th>
              </tr>
            </thead>
            <VirtualRows
              rows={calls}
              rowHeight={rowHeight}
              onNearEnd={more}
              render={(call) => <Row key={call.id} call={call} />}
            />
          </table>
        </section>
      )}
      {isLoading && (
        <p class="soft" role="status">
          Loading…
        </p>
      )}
    </>
  );
}

function Row({ call }: { call: Call }) {
  return (
    <tr>
      <td>
        <a class="whole" href={`#/calls/${call.id}`}>
          <Time at={call.created_at} />
        </a>
      </td>
      <td>
        <Brief text={call.from_number} limit={26} />
        <span class="narrow-only soft">
          → <Brief text={call.to_number} limit={26} />
        </span>
      </td>
      <td class="wide-only">
        <Brief text={call.to_number} limit={26} />
      </td>
      <td>
        <State of={call.status} />
      </td>
      <td class="right">
        {call.status === 'in_progress' ? <Since from={call.answered_at ?? call.created_at} /> : duration(call.duration)}
      </td>
      <td class="wide-only">{call.hangup_cause ? call.hangup_cause.replaceAll('_', ' ') : '–'}</td>
      <td class="right wide-only">{call.latency_ms > 0 ? `${call.latency_ms} ms` : '–'}</td>
      <td class="right wide-only">{call.cost > 0 ? money(call.cost) : '–'}</td>
    </tr>
  );
}

/** The pages that were loaded, kept current by the event stream. */
function useCalls(key: string) {
  const [state, setState] = useState<{
    key: string;
    calls: Call[];
    cursor: string | null;
    error: Error | null;
    isLoading: boolean;
  }>({
    ...{ key, calls: [], cursor: null, error: null, isLoading: true },
  });
  const [round, setRound] = useState(0);
  const isBusy = useRef(false);
  const load = useCallback(
    async (cursor: string | null) => {
      const query = { ...(JSON.parse(key) as Filters), limit: pageSize, ...(cursor && { cursor }) };
      return answerOf(api.GET('/v1/calls/search', { params: { query } }));
    },
    [key],
  );
  useEffect(() => {
    let isGone = false;
    setState((before) =>
      before.key === key
        ? { ...before, isLoading: true }
        : { key, calls: [], cursor: null, error: null, isLoading: true },
    );
    load(null).then(
      ({ data, next_cursor }) => {
        if (isGone) return;
        setState((before) => {
          // The pages behind the first stay, where the first still reaches them.
          const known = new Set(data.map(({ id }) => id));
          const oldest = data.at(-1)?.created_at ?? '';
          const kept = before.calls.filter(({ id, created_at }) => !known.has(id) && created_at <= oldest);
          const isWhole = kept.length === 0 || next_cursor === null;
          return {
            key,
            calls: [...data, ...(isWhole ? [] : kept)],
            cursor: isWhole ? next_cursor : before.cursor,
            error: null,
            isLoading: false,
          };
        });
      },
      (error: Error) => !isGone && setState((before) => ({ ...before, error, isLoading: false })),
    );
    return () => {
      isGone = true;
    };
  }, [key, round]);
  const reload = useCallback(() => setRound((before) => before + 1), []);
  const { cursor } = state;
  const more = useCallback(() => {
    if (cursor === null || isBusy.current) return;
    isBusy.current = true;
    load(cursor)
      .then(
        ({ data, next_cursor }) =>
          setState((before) =>
            before.key === key ? { ...before, calls: [...before.calls, ...data], cursor: next_cursor } : before,
          ),
        (error: Error) => setState((before) => ({ ...before, error })),
      )
      .finally(() => {
        isBusy.current = false;
      });
  }, [cursor, key, load]);
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  useEvents(({ event_type }) => {
    if (!/^call\.(initiated|answered|completed|failed|busy|no_answer|cost_settled)$/.test(event_type) || timer.current)
      return;
    timer.current = setTimeout(() => {
      timer.current = null;
      reload();
    }, quietMs);
  });
  useEffect(
    () => () => {
      if (timer.current !== null) clearTimeout(timer.current);
    },
    [],
  );
  const { calls, error, isLoading } = state.key === key ? state : { calls: [], error: null, isLoading: true };
  return { calls, error, isLoading, hasMore: cursor !== null, more, reload };
}

function FilterBar({ filters }: { filters: Record<string, string> }) {
  const endpoints = useQuery('endpoints', allEndpoints);
  const numbers = useQuery('numbers', (signal) =>
    allPages((offset) => answerOf(api.GET('/v1/phone-numbers', { params: { query: { limit: 100, offset } }, signal }))),
  );
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  const latest = useRef(filters);
  latest.current = filters;
  const set = (name: string, value: string) => {
    const next = { ...latest.current, [name]: value || undefined };
    latest.current = next as Record<string, string>;
    replaceQuery('calls', next);
  };
  const soon = (name: string, value: string) => {
    if (timer.current !== null) clearTimeout(timer.current);
    timer.current = setTimeout(() => set(name, value.trim()), typingMs);
  };
  const [isWide, setWide] = useState(Object.keys(filters).some((name) => !['status', 'number', 'text'].includes(name)));
  const text = (name: string, label: string, type: 'text' | 'date' | 'time' | 'number' = 'text', placeholder = '') => (
    <div class="field">
      <label for={`filter-${name}`}>{label}</label>
      <input
        id={`filter-${name}`}
        type={type as 'text'}
        placeholder={placeholder}
        defaultValue={filters[name] ?? ''}
        onInput={(event) => soon(name, event.currentTarget.value)}
      />
    </div>
  );
  const choice = (name: string, label: string, values: [string, string][]) => (
    <div class="field">
      <label for={`filter-${name}`}>{label}</label>
      <select
        id={`filter-${name}`}
        value={filters[name] ?? ''}
        onChange={(event) => set(name, event.currentTarget.value)}
      >
        <option value="">Any</option>
        {values.map(([value, word]) => (
          <option key={value} value={value}>
            {word}
          </option>
        ))}
      </select>
    </div>
  );
  return (
    <search class="stack">
      <div class="filters">
        {choice('status', 'Status', [
          ['in_progress', 'In progress'],
          ['completed', 'Completed'],
          ['failed', 'Failed'],
          ['no_answer', 'No answer'],
          ['busy', 'Busy'],
        ])}
        {text('number', 'Number begins with', 'text', '+1202')}
        {text('text', 'Words in the transcript')}
        <button type="button" aria-expanded={isWide} onClick={() => setWide(!isWide)}>
          {isWide ? 'Fewer filters' : 'More filters'}
        </button>
        {Object.keys(filters).length > 0 && (
          <a class="button" href={linkTo('calls')} onClick={() => setTimeout(() => location.reload(), 0)}>
            Clear
          </a>
        )}
      </div>
      {isWide && (
        <div class="filters">
          {choice('direction', 'Direction', [
            ['inbound', 'Inbound'],
            ['outbound', 'Outbound'],
          ])}
          {choice(
            'endpoint_id',
            'Endpoint',
            (endpoints.data ?? []).map(({ id, name }) => [id, brief(name, 60)]),
          )}
          {choice(
            'phone_number_id',
            'Own number',
            (numbers.data ?? []).map(({ id, number }) => [id, number]),
          )}
          {choice(
            'hangup_cause',
            'Ended by',
            Object.entries(causes).map(([cause, words]) => [cause, words]),
          )}
          {text('start_date', 'From day (UTC)', 'date')}
          {text('end_date', 'To day (UTC)', 'date')}
          {text('from_time', 'From time (UTC)', 'time')}
          {text('until_time', 'Until time (UTC)', 'time')}
          {text('min_duration', 'At least seconds', 'number')}
          {text('max_duration', 'At most seconds', 'number')}
        </div>
      )}
    </search>
  );
}
