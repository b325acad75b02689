import { State } from '../ui/state';
import { Outside } from '../ui/text';

export interface ConnectionTest {
  ok: boolean;
  duration_ms: number;
  addresses: { address: string; ok: boolean; message: string }[];
}

/** What the test of an endpoint or trunk found, address by address. */
export function TestResult({ result }: { result: ConnectionTest }) {
  return (
    <div class="notice" data-tone={result.ok ? 'good' : 'bad'} role="status">
      <strong>{result.ok ? `It answered within ${result.duration_ms} ms.` : 'It cannot be reached as it is.'}</strong>
      {result.addresses.length === 0 && <span>There is no gateway to test.</span>}
      {result.addresses.map(({ address, ok, message }) => (
        <p key={address}>
          <State of={ok ? 'ok' : 'failure'} /> <Outside text={address} /> <br />
          <Outside text={message} limit={300} />
        </p>
      ))}
    </div>
  );
}
