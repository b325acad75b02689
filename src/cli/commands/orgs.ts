/** `orgs`: organizations and their members. */
import type { Command } from 'commander';
import type { ListAnswer } from '../api.js';
import { type CliContext, openSession } from '../context.js';
import { count, table, time } from '../text.js';
import { addList, addShow } from './records.js';

interface OrganizationRecord {
  id: string;
  name: string;
  tier: string;
  balance_cents: number | null;
  created_at: string;
}

interface MemberRecord {
  id: string;
  status: string;
  name: string;
  subject: string | null;
  email: string | null;
  role: string;
}

export function addOrgs(program: Command, context: CliContext): void {
  const orgs = program.command('orgs').description('list, show and create organizations, and change their members');
  addList<OrganizationRecord>(orgs, context, {
    path: '/organizations',
    what: ['organization', 'organizations'],
    filters: [],
    columns: ['ID', 'NAME', 'TIER', 'BALANCE (CENTS)', 'CREATED'],
    row: (o) => [o.id, o.name, o.tier, o.balance_cents ?? 'not metered', time(o.created_at)],
  });
  addShow(orgs, context, '/organizations');
  orgs
    .command('create')
    .argument('<name>', 'display name')
    .description('create an organization (platform owner only)')
    .option('--tier <tier>', 'free, pro, business or enterprise', 'free')
    .action(async (name: string, options: { tier: string }, command: Command) => {
      const session = openSession(context, command);
      const record = await session.api().post<OrganizationRecord>('/organizations', { name, tier: options.tier });
      if (session.json) return session.value(record);
      session.lines([`created organization ${record.name} ${record.id}`]);
    });
  orgs
    .command('members')
    .argument('<id>', 'the organization, by its id')
    .description('list members and open invitations')
    .option('--limit <n>', 'maximum number of records, 1 to 100', '50')
    .option('--offset <n>', 'number of records to skip', '0')
    .action(async (id: string, options: { limit: string; offset: string }, command: Command) => {
      const session = openSession(context, command);
      const answer = await session.api().get<ListAnswer<MemberRecord>>(membersOf(id), { ...options });
      if (session.json) return session.value(answer);
      const columns = ['ID', 'NAME', 'ROLE', 'STATUS', 'SIGNS IN AS'].map((title) => ({ title }));
      const rows = answer.data.map((m) => [m.id, m.name, m.role, m.status, m.subject ?? m.email]);
      session.lines([...table(columns, rows), `${answer.data.length} of ${count(answer.total, 'member')}`]);
    });
  orgs
    .command('invite')
    .argument('<id>', 'the organization, by its id')
    .description('invite a user, who accepts by signing in')
    .option('--subject <sub>', 'the `sub` of the tokens of the user')
    .option('--email <address>', 'email address of the user, verified by the identity provider')
    .option('--role <role>', 'owner, admin or member', 'member')
    .option('--name <name>', 'display name')
    .addHelpText('after', '\nExample:\n  $ trunkline orgs invite 0193a6f2-… --email ben@example.com --role admin')
    .action(async (id: string, options: Record<string, string>, command: Command) => {
      const session = openSession(context, command);
      const record = await session.api().post<MemberRecord>(membersOf(id), options);
      if (session.json) return session.value(record);
      session.lines([`invited ${record.subject ?? record.email} as ${record.role} ${record.id}`]);
    });
  orgs
    .command('remove-member')
    .argument('<id>', 'the organization, by its id')
    .argument('<member>', 'id of the member or of the invitation')
    .description('remove a member, or withdraw an invitation')
    .action(async (id: string, member: string, _options: object, command: Command) => {
      const session = openSession(context, command);
      await session.api().remove(`${membersOf(id)}/${encodeURIComponent(member)}`);
      if (session.json) return session.value({ id: member, removed: true });
      session.lines([`removed member ${member}`]);
    });
}

function membersOf(id: string): string {
  return `/organizations/${encodeURIComponent(id)}/members`;
}
