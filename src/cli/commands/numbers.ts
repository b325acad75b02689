/** `numbers`: phone numbers and the endpoints that take their calls. */
import type { Command } from 'commander';
import { type CliContext, openSession } from '../context.js';
import { addList, addRemove, addShow } from './records.js';

interface NumberRecord {
  id: string;
  number: string;
  name: string;
  endpoint_id: string | null;
  status: string;
}

export function addNumbers(program: Command, context: CliContext): void {
  const numbers = program.command('numbers').description('list, show, add, attach and remove phone numbers');
  addList<NumberRecord>(numbers, context, {
    path: '/phone-numbers',
    what: ['number', 'numbers'],
    filters: [
      ['--endpoint-id <id>', 'only numbers of this endpoint'],
      ['--status <status>', 'active or inactive'],
    ],
    columns: ['ID', 'NUMBER', 'NAME', 'ENDPOINT', 'STATUS'],
    row: (n) => [n.id, n.number, n.name, n.endpoint_id, n.status],
  });
  addShow(numbers, context, '/phone-numbers');
  numbers
    .command('add')
    .argument('<number>', 'number in E.164, such as +15551234567')
    .description('add a number')
    .option('--name <name>', 'display name (default: the number)')
    .option('--endpoint <id>', 'id of the endpoint that takes the calls')
    .addHelpText('after', '\nExample:\n  $ trunkline numbers add +15551234567 --endpoint 0193a6f2-…')
    .action(async (number: string, options: { name?: string; endpoint?: string }, command: Command) => {
      const session = openSession(context, command);
      const record = await session
        .api()
        .post<NumberRecord>('/phone-numbers', { number, name: options.name, endpoint_id: options.endpoint });
      if (session.json) return session.value(record);
      session.lines([`added number ${record.number} ${record.id}`]);
    });
  numbers
    .command('attach')
    .argument('<id>', 'id of the number')
    .argument('[endpoint]', 'id of the endpoint; if omitted, the number is detached')
    .description('route the calls of a number to another endpoint')
    .action(async (id: string, endpoint: string | undefined, _options: object, command: Command) => {
      const session = openSession(context, command);
      const path = `/phone-numbers/${encodeURIComponent(id)}`;
      const record = await session.api().patch<NumberRecord>(path, { endpoint_id: endpoint ?? null });
      if (session.json) return session.value(record);
      session.lines([`number ${record.number} is now routed to ${record.endpoint_id ?? 'no endpoint'}`]);
    });
  addRemove(numbers, context, '/phone-numbers', 'number');
}
