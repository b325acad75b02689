/** How the calls are doing now, and why the last ones failed. */
import { useEffect, useRef } from 'preact/hooks';
import { answerOf, api } from '../api/client';
import { type LiveEvent, useEvents } from '../api/live';
import { useQuery } from '../api/query';
import type { Call, Explanation, OverviewData } from '../api/types';
import { DayBars, type DayOfCalls } from '../charts/day-bars';
import type { PageProps } from '../page';
import { Card, Empty, Head, Loading, Problem } from '../ui/parts';
import { Hop, State } from '../ui/state';
import { Brief } from '../ui/text';
import { money, percent, Since, Time } from '../ui/time';

/** Events after which the overview is another one; others come too often. */
const changing = /^(call\.|agent\.(connected|failed|failover)|trunk\.failed)/;
const quietMs = 400;

interface Spread {
  count: number;
  p5: number;
  p50: number;
  p95: number;
}
interface Figures {
  calls: number;
  answered: number;
  answer_rate: number | null;
  mos: Spread | null;
  turn_latency_ms: Spread | null;
}

export function Overview({ me }: PageProps) {
  const { data, error, reload } = useQuery('overview', (signal) => answerOf(api.GET('/v1/overview', { signal })));
  useReloadOnEvents(reload);
  if (error && !data) return <Problem error={error} onRetry={reload} />;
  if (!data) return <Loading />;
  const days = data.days as unknown as DayOfCalls[];
  const insights = data.insights as unknown as { total: Figures; by_day: Figures[] };
  const hasCalls = days.some((day) => day.completed + day.failed + day.no_answer + day.busy + day.in_progress > 0);
  return (
    <>
      <Head
        title={headline(data, insights.by_day.at(-1))}
        under={
          <>
            <Brief text={me.organization.name} limit={60} />, last 30 days unless a figure says otherwise
          </>
        }
      >
        <a class="button" href="#/calls">
          All calls
        </a>
        <a class="button first" href="#/try">
          Place a test call
        </a>
      </Head>
      {error && <Problem error={error} onRetry={reload} />}
      <FigureRow data={data} total={insights.total} />
      <div class="columns">
        <div class="stack">
          <Card title={`Live calls (${data.live_total})`}>
            <LiveCalls live={data.live as Explained[]} total={data.live_total} />
          </Card>
          <Card title="Calls per day">
            {hasCalls ? (
              <DayBars days={days} />
            ) : (
              <Empty title="No calls in the last 30 days">
                <p>
                  Dial a number of this organization, or <a href="#/try">place a call from this page</a>.
                </p>
              </Empty>
            )}
          </Card>
          <Card title="Health of trunks and agents">
            <Health data={data} />
          </Card>
        </div>
        <Card title="Last failures" aside={<a href="#/calls?status=failed">All failed calls</a>}>
          <Failures failures={data.failures as Explained[]} />
        </Card>
      </div>
    </>
  );
}

interface Explained {
  call: Call;
  explanation: Explanation;
}

/** Asks again soon after an event, and not more often than every `quietMs`. */
function useReloadOnEvents(reload: () => void): void {
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  useEvents((event: LiveEvent) => {
    if (!changing.test(event.event_type) || timer.current !== null) return;
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
}

/** The answer of the first ten seconds. */
function headline(data: OverviewData, today: Figures | undefined): string {
  const live =
    data.live_total === 1
      ? '1 call is live'
      : data.live_total === 0
        ? 'No call is live'
        : `${data.live_total} calls are live`;
  if (!today || today.calls === 0) return `${live}; none has ended today`;
  const failed = (data.days as unknown as DayOfCalls[]).at(-1)?.failed ?? 0;
  const rate = `${percent(today.answer_rate)} of ${today.calls.toLocaleString()} answered today`;
  return `${live}; ${rate}; ${failed === 0 ? 'none failed' : `${failed.toLocaleString()} failed`}`;
}

function FigureRow({ data, total }: { data: OverviewData; total: Figures }) {
  const { turn_latency_ms: turn, mos } = total;
  const delay = data.audio_delay_ms as { p50: number; p95: number } | null;
  const { balance_cents: balance, held_cents: held } = data.organization;
  return (
    <dl class="figures">
      <div>
        <dt>Answer rate</dt>
        <dd>{percent(total.answer_rate)}</dd>
        <dd class="more">{total.calls.toLocaleString()} calls ended</dd>
      </div>
      <div>
        <dt>Turn response</dt>
        <dd>{turn ? <Ms p50={turn.p50} p95={turn.p95} /> : '–'}</dd>
        <dd class="more">{turn ? `median and p95 of ${turn.count.toLocaleString()} turns` : 'no turn measured yet'}</dd>
      </div>
      <div>
        <dt>Audio delay</dt>
        <dd>{delay ? <Ms p50={delay.p50} p95={delay.p95} /> : '–'}</dd>
        <dd class="more">{delay ? 'median and p95, last 200 calls' : 'not measured yet'}</dd>
      </div>
      <div>
        <dt>Heard quality (MOS)</dt>
        <dd>{mos ? mos.p50.toFixed(2) : '–'}</dd>
        <dd class="more">{mos ? `worst twentieth below ${mos.p5.toFixed(2)}` : 'no call measured yet'}</dd>
      </div>
      <div>
        <dt>Balance</dt>
        <dd>{balance === null ? 'Not metered' : money(balance)}</dd>
        <dd class="more">{balance === null ? 'no credit was ever added' : `${money(held)} held by live calls`}</dd>
      </div>
    </dl>
  );
}

function Ms({ p50, p95 }: { p50: number; p95: number }) {
  return (
    <>
      {Math.round(p50)} <small>/ {Math.round(p95)} ms</small>
    </>
  );
}

function LiveCalls({ live, total }: { live: Explained[]; total: number }) {
  if (live.length === 0)
    return (
      <Empty title="Nothing is ringing or talking">
        <p>Calls appear here the moment they begin.</p>
      </Empty>
    );
  return (
    <div class="table-wrap">
      <table class="rows">
        <thead>
          <tr>
            <th scope="col">From</th>
            <th scope="col" class="wide-only">
              To
            </th>
            <th scope="col">State</th>
            <th scope="col" class="right">
              For
            </th>
          </tr>
        </thead>
        <tbody>
          {live.map(({ call }) => (
            <tr key={call.id}>
              <td>
                <a class="whole" href={`#/calls/${call.id}`}>
                  <Brief text={call.from_number} limit={24} />
                </a>
                <span class="narrow-only soft">
                  → <Brief text={call.to_number} limit={24} />
                </span>
              </td>
              <td class="wide-only">
                <Brief text={call.to_number} limit={24} />
              </td>
              <td>
                <State of="in_progress" word={call.answered_at ? 'Talking' : 'Setting up'} />
              </td>
              <td class="right">
                <Since from={call.answered_at ?? call.created_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {total > live.length && (
        <p class="soft">
          and {total - live.length} more: <a href="#/calls?status=in_progress">all live calls</a>
        </p>
      )}
    </div>
  );
}

function Failures({ failures }: { failures: Explained[] }) {
  if (failures.length === 0)
    return (
      <Empty title="No call has failed">
        <p>A failed call stands here with its reason and the hop that caused it.</p>
      </Empty>
    );
  return (
    <ul class="failures">
      {failures.map(({ call, explanation }) => (
        <li key={call.id}>
          <a href={`#/calls/${call.id}`}>
            <Brief text={call.from_number} limit={24} /> → <Brief text={call.to_number} limit={24} />
          </a>{' '}
          <Hop of={explanation.hop} />
          <small class="nowrap">
            <Time at={call.created_at} />
          </small>
          <p>
            <Brief text={explanation.summary} limit={260} />
          </p>
          {explanation.advice && <small>{explanation.advice}</small>}
        </li>
      ))}
    </ul>
  );
}

function Health({ data }: { data: OverviewData }) {
  const rows = [
    ...data.trunks.map((each) => ({ ...each, kind: 'Trunk', href: '#/trunks' })),
    ...data.endpoints.map((each) => ({
      ...each,
      kind: each.type === 'agent' ? 'Agent' : 'Webhook',
      href: `#/endpoints/${each.id}`,
    })),
  ].filter(({ status }) => status === 'active');
  const order = ['down', 'degraded', 'unknown', 'healthy'];
  rows.sort((a, b) => order.indexOf(a.health) - order.indexOf(b.health));
  if (rows.length === 0)
    return (
      <Empty title="No endpoint and no trunk">
        <p>
          <a href="#/endpoints/new">Create an endpoint</a> for your agent first.
        </p>
      </Empty>
    );
  return (
    <table>
      <tbody>
        {rows.slice(0, 12).map(({ id, name, kind, health, href }) => (
          <tr key={id}>
            <td>
              <a href={href}>
                <Brief text={name} limit={60} />
              </a>
              <br />
              <small>{kind}</small>
            </td>
            <td class="right">
              <State of={health} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
