/** The commands shared by all kinds of records: list, show, remove. */
import type { Command } from 'commander';
import type { ListAnswer } from '../api.js';
import { type CliContext, openSession } from '../context.js';
import { type Cell, facts, table } from '../text.js';

export interface Listing<T> {
  path: string;
  /** The singular and plural nouns of the last line: `endpoint`, `endpoints`. */
  what: [string, string];
  /** Options that become query parameters of the same name. */
  filters: [string, string][];
  columns: string[];
  row(record: T): Cell[];
}

/** The default subcommand. */
export function addList<T>(parent: Command, context: CliContext, listing: Listing<T>): void {
  const list = parent
    .command('list', { isDefault: true })
    .description(`list ${listing.what[1]}, newest first`)
    .option('--limit <n>', 'maximum number of records, 1 to 100', '50')
    .option('--offset <n>', 'number of records to skip', '0');
  for (const [flags, text] of listing.filters) list.option(flags, text);
  list.action(async (options: Record<string, string>, command: Command) => {
    const session = openSession(context, command);
    const query = Object.fromEntries(Object.entries(options).map(([name, value]) => [snakeCase(name), value]));
    const answer = await session.api().get<ListAnswer<T>>(listing.path, query);
    if (session.json) return session.value(answer);
    session.lines(
      table(
        listing.columns.map((title) => ({ title })),
        answer.data.map(listing.row),
      ),
    );
    session.lines([`${answer.data.length} of ${answer.total} ${listing.what[answer.total === 1 ? 0 : 1]}`]);
  });
}

export function addShow(parent: Command, context: CliContext, path: string): void {
  parent
    .command('show')
    .argument('<id>')
    .description('show all fields of one record')
    .action(async (id: string, _options: object, command: Command) => {
      const session = openSession(context, command);
      const record = await session.api().get<Record<string, unknown>>(`${path}/${encodeURIComponent(id)}`);
      if (session.json) return session.value(record);
      session.lines(facts(Object.entries(record).map(([name, value]) => [name, cell(value)])));
    });
}

export function addRemove(parent: Command, context: CliContext, path: string, what: string, verb = 'remove'): void {
  const done = `${verb.replace(/e$/, '')}ed`;
  parent
    .command(verb)
    .argument('<id>')
    .description(`${verb} one record by its id`)
    .action(async (id: string, _options: object, command: Command) => {
      const session = openSession(context, command);
      await session.api().remove(`${path}/${encodeURIComponent(id)}`);
      if (session.json) return session.value({ id, [done]: true });
      session.lines([`${done} ${what} ${id}`]);
    });
}

function cell(value: unknown): Cell {
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : (value as Cell);
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
