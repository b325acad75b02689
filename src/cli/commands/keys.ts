/** `keys`: API keys. */
import type { Command } from 'commander';
import { type CliContext, openSession } from '../context.js';
import { time } from '../text.js';
import { addList, addRemove } from './records.js';

interface KeyRecord {
  id: string;
  name: string;
  prefix: string;
  mode: string;
  organization_id: string | null;
  created_at: string;
  last_used_at: string | null;
  key?: string;
}

export function addKeys(program: Command, context: CliContext): void {
  const keys = program.command('keys').description('list, create and revoke API keys');
  addList<KeyRecord>(keys, context, {
    path: '/api-keys',
    what: ['key', 'keys'],
    filters: [],
    columns: ['ID', 'NAME', 'PREFIX', 'MODE', 'ORGANIZATION', 'CREATED', 'LAST USED'],
    row: (k) => [k.id, k.name, k.prefix, k.mode, k.organization_id ?? 'all', time(k.created_at), time(k.last_used_at)],
  });
  keys
    .command('create')
    .description('create a key, which is shown once')
    .requiredOption('--name <name>', 'display name')
    .option('--mode <mode>', 'live or test', 'live')
    .option('--organization <id>', 'id of the organization to limit the key to')
    .addHelpText(
      'after',
      '\nExample:\n  $ export TRUNKLINE_API_KEY=$(trunkline keys create --name laptop --json | jq -r .key)',
    )
    .action(async (options: { name: string; mode: string; organization?: string }, command: Command) => {
      const session = openSession(context, command);
      const key = await session.api().post<KeyRecord>('/api-keys', {
        name: options.name,
        mode: options.mode,
        organization_id: options.organization,
      });
      if (session.json) return session.value(key);
      session.lines([`key, shown only now: ${key.key}`, `created key ${key.id}`]);
    });
  addRemove(keys, context, '/api-keys', 'key', 'revoke');
}
