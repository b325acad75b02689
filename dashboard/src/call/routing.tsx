import { useEndpointNames } from '../api/endpoints';
import type { CallDetail } from '../api/types';
import { State } from '../ui/state';
import { Brief } from '../ui/text';

interface Verdict {
  rule: string;
  verdict: string;
  detail: string;
}

/** Which rules decided where the call went, and what was tried. */
export function Routing({ call }: { call: CallDetail }) {
  const routed = (call.events.find(({ event_type }) => event_type === 'call.routed')?.event_data ?? {}) as Record<
    string,
    unknown
  >;
  const rules = (Array.isArray(routed.rules) ? routed.rules : []) as Verdict[];
  const trunks = (Array.isArray(routed.trunks) ? routed.trunks : []) as unknown[];
  const failed = call.events.filter(({ event_type }) => event_type === 'trunk.failed');
  const nameOf = useEndpointNames();
  const endpoint = call.endpoint_id;
  return (
    <div class="stack">
      <p>
        {endpoint ? (
          <>
            Handled by{' '}
            <a href={`#/endpoints/${endpoint}`}>
              <Brief text={nameOf(endpoint) ?? endpoint} limit={60} />
            </a>
          </>
        ) : (
          <span class="soft">No endpoint handled this call.</span>
        )}
      </p>
      {rules.length > 0 && (
        <table>
          <tbody>
            {rules.map(({ rule, verdict, detail }) => (
              <tr key={`${rule} ${verdict}`}>
                <td>
                  <code>{rule}</code>
                </td>
                <td>
                  <State of={verdict} />
                </td>
                <td>
                  <Brief
                    text={nameOf(detail) ?? (detail === call.phone_number_id ? call.to_number : detail)}
                    limit={60}
                  />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {trunks.length > 0 && (
        <p>
          Trunks in order:{' '}
          {trunks.map((trunk) => (typeof trunk === 'string' ? trunk : JSON.stringify(trunk))).join(', ')}
        </p>
      )}
      {failed.map(({ id, event_data }) => (
        <p key={id}>
          <State of="failed" word="Trunk failed" /> <Brief text={String(event_data.trunk ?? '')} />:{' '}
          <Brief text={String(event_data.reason ?? '')} limit={120} />
        </p>
      ))}
    </div>
  );
}
