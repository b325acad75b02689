import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';

it('every fault of agents and audio in docs/reliability.md names tests, and each of them exists', () => {
  const root = path.resolve(import.meta.dirname, '../..');
  const folders = ['unit', 'contract', 'calls', 'scenarios'].map((each) => path.join(root, 'test', each));
  const faults = readdirSync(path.join(root, 'test/faults')).map((file) => `faults/${file}`);
  const tests = new Set([...folders.flatMap((folder) => readdirSync(folder)), ...faults]);
  const rows = readFileSync(path.join(root, 'docs/reliability.md'), 'utf8')
    .split('\n')
    .filter((line) => /^\|[^|]*\([PM]\d+\) \|/.test(line));
  expect(new Set(rows.map((row) => /\(([PM]\d+)\) \|/.exec(row)?.[1])).size).toBe(20);
  for (const row of rows) {
    const named = [...(row.split('|').at(-2) ?? '').matchAll(/`([a-z0-9/-]+)`/g)].map((match) => match[1]);
    expect(named, row).not.toEqual([]);
    for (const name of named) expect(tests, row).toContain(`${name}.test.ts`);
  }
});
