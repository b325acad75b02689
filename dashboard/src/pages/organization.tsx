/** The organization: its limits and balance, and what ails the installation. */
import { useState } from 'preact/hooks';
import { answerOf, api } from '../api/client';
import { useQuery } from '../api/query';
import { changesOf, RecordForm, type RecordValue } from '../forms/record-form';
import { bodySchema } from '../forms/schemas';
import type { PageProps } from '../page';
import { Action, Card, Empty, Head, Loading, Problem } from '../ui/parts';
import { State } from '../ui/state';
import { Brief } from '../ui/text';
import { money, Time } from '../ui/time';

type LimitName =
  | 'requests_per_second'
  | 'requests_per_day'
  | 'calls_per_second'
  | 'daily_spend_cents'
  | 'call_retention_days';

/** What the tiers allow where an organization has no limit of its own. */
const tierLimits: Record<string, Partial<Record<LimitName, number>>> = {
  free: { requests_per_second: 10, requests_per_day: 1_000 },
  pro: { requests_per_second: 50, requests_per_day: 50_000 },
  business: { requests_per_second: 200, requests_per_day: 500_000 },
  enterprise: { requests_per_second: 1_000, requests_per_day: 10_000_000 },
};
const requests = (name: LimitName) => (own: number | null, tier: string) =>
  (own ?? tierLimits[tier]?.[name])?.toLocaleString() ?? 'No limit';
const limits: [LimitName, string, (own: number | null, tier: string) => string][] = [
  ['requests_per_second', 'Requests per second', requests('requests_per_second')],
  ['requests_per_day', 'Requests per day', requests('requests_per_day')],
  ['calls_per_second', 'Outbound calls per second', (own) => own?.toLocaleString() ?? 'No limit'],
  ['daily_spend_cents', 'Spending per day', (own) => (own === null ? 'No limit' : money(own))],
  ['call_retention_days', 'Calls are kept for', (own) => (own === null ? 'Ever' : `${own.toLocaleString()} days`)],
];

export function OrganizationPage({ me }: PageProps) {
  const path = { id: me.organization.id };
  const organization = useQuery('organization', (signal) =>
    answerOf(api.GET('/v1/organizations/{id}', { params: { path }, signal })),
  );
  const ledger = useQuery('ledger', (signal) =>
    answerOf(api.GET('/v1/organizations/{id}/ledger', { params: { path, query: { limit: 12 } }, signal })),
  );
  const schema = useQuery('schema organization', () => bodySchema('patch', '/v1/organizations/{id}'));
  const overview = useQuery('live total', (signal) => answerOf(api.GET('/v1/overview', { signal })));
  const [isSaved, setSaved] = useState(false);
  if (organization.error) return <Problem error={organization.error} onRetry={organization.reload} />;
  if (!organization.data) return <Loading />;
  const { data } = organization;
  const isOwner = me.user.platform_owner && me.mode === 'live';
  const most = data.limits.concurrent_calls;
  return (
    <>
      <Head
        title={<Brief text={data.name} limit={80} />}
        under={`Tier ${data.tier}, since ${data.created_at.slice(0, 10)}`}
      />
      <dl class="figures">
        <div>
          <dt>Balance</dt>
          <dd>{data.balance_cents === null ? 'Not metered' : money(data.balance_cents)}</dd>
          <dd class="more">
            {data.balance_cents === null ? 'no credit was ever added' : `${money(data.held_cents)} held by live calls`}
          </dd>
        </div>
        <div>
          <dt>Live calls</dt>
          <dd>
            {overview.data?.live_total ?? '–'} <small>{most == null ? 'no limit' : `of ${most}`}</small>
          </dd>
        </div>
        {limits.map(([name, title, shown]) => (
          <div key={name}>
            <dt>{title}</dt>
            <dd>{shown(data.limits[name] ?? null, data.tier)}</dd>
            {data.limits[name] == null && tierLimits[data.tier]?.[name] && <dd class="more">of the tier</dd>}
          </div>
        ))}
      </dl>
      {isOwner && <Doctor />}
      <div class="columns">
        <Card title="Name, tier and limits">
          {!isOwner && <p class="soft">Only the owner of the platform, with a live key, changes these.</p>}
          {isSaved && (
            <div class="notice" data-tone="good" role="status">
              Saved.
            </div>
          )}
          {isOwner && !schema.data && <Loading />}
          {isOwner && schema.data && (
            <RecordForm
              key={JSON.stringify(data)}
              schema={schema.data}
              initial={data as unknown as RecordValue}
              button="Save"
              onSave={async (value) => {
                await answerOf(
                  api.PATCH('/v1/organizations/{id}', {
                    params: { path },
                    body: changesOf(data as unknown as RecordValue, value, schema.data ?? {}),
                  }),
                );
                setSaved(true);
                organization.reload();
              }}
            />
          )}
        </Card>
        <Card title="Ledger">
          {(ledger.data?.data.length ?? 0) === 0 ? (
            <Empty title="No movements">
              <p>Credits and the cost of calls stand here. The organization is metered from its first credit on.</p>
            </Empty>
          ) : (
            <table>
              <tbody>
                {ledger.data?.data.map((entry) => (
                  <tr key={entry.id}>
                    <td>
                      <Time at={entry.created_at} />
                    </td>
                    <td>
                      {entry.call_id ? <a href={`#/calls/${entry.call_id}`}>{entry.kind}</a> : entry.kind}
                      <br />
                      <small>
                        <Brief text={entry.note} />
                      </small>
                    </td>
                    <td class="right">{money(entry.amount_cents)}</td>
                    <td class="right soft">{money(entry.balance_cents)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
        </Card>
      </div>
    </>
  );
}

/** The findings of `trunkline doctor`, those that need something first. */
function Doctor() {
  const [found, setFound] = useState<{ check: string; level: string; says: string; fix: string | null }[] | null>(null);
  const order = ['failure', 'warning', 'ok'];
  return (
    <Card
      title="Installation check"
      aside={
        <Action
          label={found ? 'Check again' : 'Check now'}
          action={async () => setFound((await answerOf(api.GET('/v1/doctor'))).findings)}
        />
      }
    >
      {found ? (
        <table>
          <tbody>
            {[...found]
              .sort((a, b) => order.indexOf(a.level) - order.indexOf(b.level))
              .map(({ check, level, says, fix }) => (
                <tr key={`${check} ${says}`}>
                  <td>
                    <State of={level} />
                  </td>
                  <td class="wide-only">
                    <Brief text={check} />
                  </td>
                  <td>
                    <small class="narrow-only">
                      <Brief text={check} />
                    </small>
                    <Brief text={says} limit={240} />
                    {fix && (
                      <p>
                        Fix:{' '}
                        <strong>
                          <Brief text={fix} limit={240} />
                        </strong>
                      </p>
                    )}
                  </td>
                </tr>
              ))}
          </tbody>
        </table>
      ) : (
        <p class="soft">
          Checks ports, buffers, disk, clock, certificates and trunks, and says how to fix what it finds.
        </p>
      )}
    </Card>
  );
}
