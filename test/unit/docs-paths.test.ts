/** Paths of this repository in guides and pages: each must exist, or a reader is lost. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';

const root = path.resolve(import.meta.dirname, '../..');
const pages = ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md'].concat(
  readdirSync(path.join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
);

it.each(pages)('%s names files that exist', (page) => {
  const text = readFileSync(path.join(root, page), 'utf8');
  // a path in code, from a folder of the root; `<name>`, `*` and `{a,b}` stand for many
  const named = [
    ...text.matchAll(
      /(?<![\w./-])(?:src|sip|media|net|config|test|bench|docs|examples)\/[\w./-]+\.(?:ts|mjs|md|yaml|xml)\b/g,
    ),
  ];
  const missing = named.map(([name]) => name).filter((name) => !existsSync(path.join(root, name)));
  expect(missing).toEqual([]);
});
