import { useState } from 'preact/hooks';
import { answerOf, api } from '../api/client';
import { useEndpointNames } from '../api/endpoints';
import type { PageProps } from '../page';
import { Action, Card } from '../ui/parts';
import { State } from '../ui/state';
import { Brief } from '../ui/text';
import { type RecordKind, Records } from './records';

function EndpointName({ id }: { id: unknown }) {
  const nameOf = useEndpointNames();
  if (!id) return <State of="unknown" word="No endpoint" />;
  return (
    <a href={`#/endpoints/${id}`}>
      <Brief text={nameOf(String(id)) ?? String(id)} limit={40} />
    </a>
  );
}

const kind: RecordKind = {
  page: 'numbers',
  title: 'Phone numbers',
  singular: 'number',
  path: '/v1/phone-numbers',
  changes: 'admin',
  isChangeable: true,
  needsEndpoints: true,
  loss: 'Calls to this number are refused with 404 from now on. The records of past calls stay.',
  nameOf: ({ number }) => String(number),
  empty: <p>A number leads calls to an endpoint. Enter one that your carrier sends to this server.</p>,
  columns: [
    { title: 'Number', of: ({ number }) => <bdi class="nowrap">{String(number)}</bdi> },
    { title: 'Name', wide: true, of: ({ name }) => <Brief text={String(name ?? '')} /> },
    { title: 'Endpoint', under: true, of: ({ endpoint_id }) => <EndpointName id={endpoint_id} /> },
    {
      title: 'Rules',
      wide: true,
      of: ({ routes }) => (Array.isArray(routes) && routes.length > 0 ? routes.length : '–'),
    },
    { title: 'Status', of: ({ status }) => <State of={String(status)} /> },
  ],
  aside: (record) => (
    <>
      <Card title="Try it">
        <div class="row">
          <a class="button" href={`#/try?to=${encodeURIComponent(String(record.number))}`}>
            Call this number
          </a>
          <a class="button" href={`#/calls?phone_number_id=${record.id}`}>
            Its calls
          </a>
        </div>
      </Card>
      <Simulator to={String(record.number)} />
    </>
  ),
  below: () => <Simulator to="" />,
};

export function Numbers(props: PageProps) {
  return <Records kind={kind} {...props} />;
}

/** Where a call would go, rule by rule, without a call. */
function Simulator({ to }: { to: string }) {
  const [asked, setAsked] = useState({ from: '+12025550199', to, source_ip: '' });
  const [found, setFound] = useState<(Awaited<ReturnType<typeof simulate>> & { to: string }) | null>(null);
  const nameOf = useEndpointNames();
  const field = (name: keyof typeof asked, label: string, placeholder = '') => (
    <div class="field">
      <label for={`route-${name}`}>{label}</label>
      <input
        id={`route-${name}`}
        value={asked[name]}
        placeholder={placeholder}
        onInput={(event) => setAsked({ ...asked, [name]: event.currentTarget.value })}
      />
    </div>
  );
  return (
    <Card title="Where would a call go?">
      <div class="stack">
        <div class="filters">
          {field('from', 'From')}
          {field('to', 'To', '+12025550123')}
          {field('source_ip', 'From this address', 'any')}
          <Action
            label="Show the way"
            disabled={asked.to === ''}
            action={async () => setFound({ ...(await simulate(asked)), to: asked.to })}
          />
        </div>
        {found && (
          <div class="stack" role="status">
            <p>
              <State
                of={found.decision === 'unknown' ? 'refuse' : found.decision}
                word={found.decision === 'unknown' ? 'Unknown number' : undefined}
              />{' '}
              {found.hangup_cause?.replaceAll('_', ' ')}{' '}
              {found.endpoint_ids.map((id, index) => (
                <span key={id}>
                  {index > 0 && ', then '}
                  <EndpointName id={id} />
                </span>
              ))}
            </p>
            <table>
              <tbody>
                {found.rules.map(({ rule, verdict, detail }) => (
                  <tr key={`${rule} ${verdict}`}>
                    <td>
                      <code>{rule}</code>
                    </td>
                    <td>
                      <State of={verdict} />
                    </td>
                    <td>
                      <Brief
                        text={rule === 'number' && verdict === 'matched' ? found.to : (nameOf(detail) ?? detail)}
                        limit={80}
                      />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </div>
    </Card>
  );
}

function simulate({ from, to, source_ip }: { from: string; to: string; source_ip: string }) {
  return answerOf(api.POST('/v1/routes/simulate', { body: { from, to, ...(source_ip && { source_ip }) } }));
}
