/** API keys and members. */
import { optionText } from '../forms/field';
import type { PageProps } from '../page';
import { State } from '../ui/state';
import { Brief } from '../ui/text';
import { Time } from '../ui/time';
import { type RecordKind, Records } from './records';

const keys: RecordKind = {
  page: 'keys',
  title: 'API keys',
  singular: 'key',
  path: '/v1/api-keys',
  changes: 'admin',
  isChangeable: false,
  secret: 'key',
  initial: { mode: 'live' },
  only: ['name', 'mode'],
  loss: 'Programs that use this key are refused at once.',
  nameOf: ({ name }) => String(name),
  empty: <p>A key lets a program act for you. Give each program its own, so that you can take one away.</p>,
  columns: [
    { title: 'Name', of: ({ name }) => <Brief text={String(name)} /> },
    { title: 'Begins with', under: true, of: ({ prefix }) => <code>{String(prefix)}…</code> },
    { title: 'Records', of: ({ mode }) => optionText('mode', mode) },
    { title: 'Last used', wide: true, of: ({ last_used_at }) => <Time at={last_used_at as string | null} /> },
    { title: 'Created', wide: true, of: ({ created_at }) => <Time at={String(created_at)} /> },
  ],
};

const members: RecordKind = {
  page: 'members',
  title: 'Members',
  singular: 'member',
  path: '/v1/organizations/{organization}/members',
  changes: 'owner',
  isChangeable: false,
  initial: { role: 'member' },
  only: ['email', 'subject', 'name', 'role'],
  loss: 'The person, and all keys of the person, lose access to this organization at once.',
  nameOf: ({ name, email, subject }) => String(name ?? email ?? subject ?? 'this member'),
  empty: <p>Invite people by the email address that your identity provider knows.</p>,
  columns: [
    { title: 'Name', of: ({ name }) => <Brief text={name as string | null} /> },
    { title: 'Email', under: true, of: ({ email, subject }) => <Brief text={(email ?? subject) as string | null} /> },
    { title: 'Role', of: ({ role }) => optionText('role', role) },
    { title: 'Status', of: ({ status }) => <State of={String(status)} /> },
    { title: 'Joined', wide: true, of: ({ joined_at }) => <Time at={joined_at as string | null} /> },
  ],
};

export function Keys(props: PageProps) {
  return <Records kind={keys} {...props} />;
}

export function Members(props: PageProps) {
  return <Records kind={members} {...props} />;
}
