import { useState } from 'preact/hooks';
import { answerOf, api } from '../api/client';
import { optionText } from '../forms/field';
import type { RecordValue } from '../forms/record-form';
import type { PageProps } from '../page';
import { Action, Card } from '../ui/parts';
import { State } from '../ui/state';
import { Brief } from '../ui/text';
import { type RecordKind, Records } from './records';
import { type ConnectionTest, TestResult } from './test-result';

const kind: RecordKind = {
  page: 'trunks',
  title: 'Trunks',
  singular: 'trunk',
  path: '/v1/trunks',
  changes: 'admin',
  isChangeable: true,
  loss: 'Its carrier can no longer call in, and no call goes out over it. Running calls go on.',
  nameOf: ({ name }) => String(name),
  initial: { direction: 'both', transport: 'udp', srtp: 'off', status: 'active' },
  empty: (
    <p>A trunk is a carrier, PBX or phone: the addresses that may call in, and the gateways that calls go out to.</p>
  ),
  only: [
    ...[
      'name',
      'direction',
      'addresses',
      'gateways',
      'transport',
      'username',
      'password',
      'register',
      'srtp',
      'codecs',
    ],
    ...['max_calls', 'calls_per_second', 'status', 'outbound', 'tls'],
  ],
  columns: [
    { title: 'Name', of: ({ name }) => <Brief text={String(name)} limit={40} /> },
    { title: 'Direction', under: true, of: ({ direction }) => optionText('direction', direction) },
    {
      title: 'Trusted addresses',
      wide: true,
      of: ({ addresses }) => <Brief text={(addresses as string[]).join(', ')} limit={48} />,
    },
    {
      title: 'Gateways',
      wide: true,
      of: ({ gateways }) => (
        <Brief text={(gateways as { uri: string }[]).map(({ uri }) => uri).join(', ')} limit={48} />
      ),
    },
    { title: 'Health', of: ({ health }) => <State of={String(health)} /> },
    { title: 'Status', wide: true, of: ({ status }) => <State of={String(status)} /> },
  ],
  aside: (record) => <Test record={record} />,
};

export function Trunks(props: PageProps) {
  return <Records kind={kind} {...props} />;
}

function Test({ record }: { record: RecordValue }) {
  const [result, setResult] = useState<ConnectionTest | null>(null);
  const path = { id: String(record.id) };
  return (
    <Card title="Does it answer?">
      <div class="stack">
        <p>
          <State of={String(record.health)} />
        </p>
        <p class="soft">Sends OPTIONS to each gateway.</p>
        <div>
          <Action
            label="Test the trunk"
            action={async () =>
              setResult(await answerOf(api.POST('/v1/trunks/{id}/test', { params: { path }, body: {} })))
            }
          />
        </div>
        {result && <TestResult result={result} />}
      </div>
    </Card>
  );
}
