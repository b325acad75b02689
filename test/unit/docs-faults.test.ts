import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';

const root = path.resolve(import.meta.dirname, '../..');
/** Rows that begin with the number of a fault: its letter and digits. */
const rowsOf = (page: string) =>
  readFileSync(path.join(root, 'docs', page), 'utf8')
    .split('\n')
    .filter((line) => /^\| [SXPMWAG]\d+ \|/.test(line));
const numbersIn = (rows: string[]) => new Set(rows.map((row) => row.split('|')[1]!.trim()));

describe('docs/contributing/fault-tests.md', () => {
  const rows = rowsOf('contributing/fault-tests.md');

  it('has the faults of reliability.md and security.md, all of them and no others', () => {
    const described = [...rowsOf('reliability.md'), ...rowsOf('security.md')];
    expect(numbersIn(described)).toEqual(numbersIn(rows));
    const letters = [...numbersIn(rows)].map((number) => number[0]!);
    expect(letters.filter((letter) => letter === 'P' || letter === 'M')).toHaveLength(20);
    expect(letters).toHaveLength(93);
  });

  it('names tests for each fault, and each of them exists', () => {
    const folders = ['unit', 'integration', 'contract', 'calls', 'scenarios'].map((each) =>
      path.join(root, 'test', each),
    );
    const faults = readdirSync(path.join(root, 'test/faults')).map((file) => `faults/${file}`);
    const tests = new Set([...folders.flatMap((folder) => readdirSync(folder)), ...faults]);
    for (const row of rows) {
      const named = [...(row.split('|').at(-2) ?? '').matchAll(/`([a-z0-9/-]+)`/g)].map((match) => match[1]!);
      const [programs, files] = [/^(bench|test)\//, /^(?!bench\/|test\/|\/)/].map((kind) =>
        named.filter((name) => kind.test(name)),
      );
      expect(files, row).not.toEqual([]);
      for (const name of files!) expect(tests, row).toContain(`${name}.test.ts`);
      for (const name of programs!)
        expect(
          [name, `${name}.ts`].some((each) => existsSync(path.join(root, each))),
          `${row}: ${name}`,
        ).toBe(true);
    }
  });
});
