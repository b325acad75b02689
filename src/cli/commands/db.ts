/** `db`: backs up, checks and moves the database. Works on the database itself, without the API. */
import path from 'node:path';
import type { Command } from 'commander';
import { databaseUrl } from '../../../config/kinds.js';
import { StoreError } from '../../store/database/errors.js';
import { backUpPostgres, backUpSqlite } from '../../store/maintenance/backup.js';
import { checkPostgres, checkSqlite } from '../../store/maintenance/check.js';
import { copyToPostgres } from '../../store/maintenance/copy-to-postgres.js';
import { whereOf } from '../../store/postgres/connections.js';
import { type CliContext, openSession } from '../context.js';
import { CliFailure } from '../failure.js';
import { ProgressLine } from '../progress-line.js';
import { count, table } from '../text.js';

export function addDb(program: Command, context: CliContext, fail: () => void): void {
  const db = program.command('db').description('back up, check and move the database');
  db.command('backup')
    .argument('<file>', 'file to write; it must not exist')
    .description('copy the database into a file while the server runs')
    .addHelpText(
      'after',
      `
SQLite: the file is a database as of one moment; put it in the place of trunkline.db to restore it.
PostgreSQL: runs pg_dump, which must be installed; restore with pg_restore.
Recordings are files of their own: copy their folder as well. The backup is readable by its owner only.

Example:
  $ trunkline db backup /backup/trunkline-$(date +%F).db`,
    )
    .action(async (file: string, _options: object, command: Command) => {
      const session = openSession(context, command);
      const from = session.settings().databaseUrl;
      const into = path.resolve(file);
      const line = new ProgressLine(context, !session.json);
      const startedMs = performance.now();
      const made = await asFailure(
        from.kind === 'sqlite'
          ? backUpSqlite(from.file, into, ({ bytes, ofBytes }) => line.show(megabytes(bytes), bytes, ofBytes, null))
          : backUpPostgres(from.url, into, ({ bytes, ofBytes }) => line.show(megabytes(bytes), bytes, ofBytes, null)),
      ).finally(() => line.end());
      const seconds = Math.round((performance.now() - startedMs) / 100) / 10;
      if (session.json) return session.value({ file: into, bytes: made.bytes, calls: made.calls, seconds });
      const calls = made.calls === null ? '' : `${count(made.calls, 'call')}, `;
      session.lines([`backed up ${from.kind}: ${calls}${megabytes(made.bytes)} in ${seconds} s to ${into}`]);
    });
  db.command('check')
    .description('look for damage, and compare figures with records; changes nothing')
    .addHelpText('after', '\nExit code: 1 if there is a problem. The server may run; a large database takes minutes.')
    .action(async (_options: object, command: Command) => {
      const session = openSession(context, command);
      const of = session.settings().databaseUrl;
      const findings = await asFailure(of.kind === 'sqlite' ? checkSqlite(of.file) : checkPostgres(of.url));
      const problems = findings.reduce((sum, finding) => sum + finding.problems.length, 0);
      if (problems > 0) fail();
      if (session.json) return session.value({ ok: problems === 0, findings });
      for (const { what, problems: found, seen } of findings) {
        session.lines([`${found.length === 0 ? 'ok      ' : 'problem '} ${what}${seen === '' ? '' : ` (${seen})`}`]);
        session.lines(found.map((problem) => `         ${problem}`));
      }
      const where = of.kind === 'sqlite' ? of.file : whereOf(of.url);
      session.lines([`${where}: ${problems === 0 ? 'no problem' : count(problems, 'problem')}`]);
    });
  db.command('migrate')
    .requiredOption('--to <url>', 'empty PostgreSQL database: postgres://USER@HOST:5432/DATABASE')
    .description('copy the SQLite database into PostgreSQL; the server must be stopped')
    .addHelpText(
      'after',
      `
A copy that is interrupted goes on where it stopped when the command is repeated. At the end the rows of all tables are counted on both sides.
Recordings stay where they are. The SQLite file is not changed. The password may come from PGPASSWORD, which other users of the host cannot see.

Example:
  $ PGPASSWORD=... trunkline db migrate --to postgres://trunkline@db.example.com:5432/trunkline`,
    )
    .action(async ({ to }: { to: string }, command: Command) => {
      const session = openSession(context, command);
      const from = session.settings().databaseUrl;
      if (from.kind !== 'sqlite')
        throw new CliFailure(
          'database_url names a PostgreSQL database already; name the SQLite file to copy: TRUNKLINE_DATABASE_URL=sqlite:FILE',
        );
      const target = databaseUrl.read(to);
      if (target?.kind !== 'postgres')
        throw new CliFailure(`--to must be postgres://USER@HOST:5432/DATABASE`).as('USAGE');
      const line = new ProgressLine(context, !session.json);
      const copied = await asFailure(
        copyToPostgres(from.file, target.url, ({ table: name, rows, ofRows, leftMs }) =>
          line.show(name, rows, ofRows, leftMs),
        ),
      ).finally(() => line.end());
      const differing = copied.filter((each) => each.source !== each.target);
      if (differing.length > 0) fail();
      if (session.json) return session.value({ ok: differing.length === 0, tables: copied });
      const columns = [{ title: 'TABLE' }, { title: 'SQLITE', right: true }, { title: 'POSTGRESQL', right: true }];
      session.lines(
        table(
          columns,
          copied.map((each) => [each.table, each.source, each.target]),
        ),
      );
      const rows = copied.reduce((sum, each) => sum + each.target, 0);
      session.lines([
        differing.length === 0
          ? `copied ${count(rows, 'row')}; now start with TRUNKLINE_DATABASE_URL=${whereOf(target.url).replace(/^/, 'postgres://')}`
          : `the counts of ${count(differing.length, 'table')} differ: do not use the copy`,
      ]);
    });
}

async function asFailure<T>(work: Promise<T> | T): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof StoreError) throw new CliFailure(error.message).as(error.code.toUpperCase());
    throw error;
  }
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
