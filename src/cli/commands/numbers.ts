/** `numbers`: phone numbers and the endpoints they ring at. */
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
    .argument('<number>', 'E.164, such as +15551234567')
    .description('add a number')
    .option('--name <name>', 'a name for people (default: the number)')
    .option('--endpoint <id>', 'where its calls go')
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
    .argument('<id>', 'the number, by its id')
    .argument('[endpoint]', 'the endpoint, by its id; left out: none')
    .description('let a number ring at another endpoint')
    .action(async (id: string, endpoint: string | undefined, _options: object, command: Command) => {
      const session = openSession(context, command);
      const path = `/phone-numbers/${encodeURIComponent(id)}`;
      const record = await session.api().patch<NumberRecord>(path, { endpoint_id: endpoint ?? null });
      if (session.json) return session.value(record);
      session.lines([`number ${record.number} now rings at ${record.endpoint_id ?? 'no endpoint'}`]);
    });
  addRemove(numbers, context, '/phone-numbers', 'number');
}
