/** The descriptors against the documentation; and what reading them loads. `WRITE_DOCS=1` writes the table instead. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { providerTable, TABLE_BEGIN, TABLE_END } from '../../media/agents/provider-table.js';
import { agentProtocols, agentProviders, providersSelectedBy } from '../../media/agents/providers/registry.js';
import { streamProtocols } from '../../src/webhook/actions.js';

const PAGE = 'docs/providers/README.md';

test('the table of the page is made from the descriptors', () => {
  const page = readFileSync(PAGE, 'utf8');
  const [before = '', rest = ''] = page.split(`${TABLE_BEGIN}\n`);
  const after = rest.split(TABLE_END)[1] ?? '';
  const wanted = `${before}${TABLE_BEGIN}\n${providerTable([...agentProtocols.values()])}\n${TABLE_END}${after}`;
  if (process.env.WRITE_DOCS === '1') writeFileSync(PAGE, wanted);
  expect(readFileSync(PAGE, 'utf8')).toBe(wanted);
});

test.each([...agentProviders.values()])('$provider has a page, which names its fields', (descriptor) => {
  const text = readFileSync(path.join('docs/providers', descriptor.page), 'utf8');
  const missing = [descriptor.provider, ...Object.keys(descriptor.config)].filter((word) => !text.includes(word));
  expect(missing).toEqual([]);
});

test('the action `connect` takes every stream protocol', () => {
  expect([...streamProtocols]).toEqual(providersSelectedBy('protocol').map(({ provider }) => provider));
});

/** Every file that importing this one loads; types are not loaded. */
function loadedBy(file: string, found = new Set<string>()): Set<string> {
  if (found.has(file) || !existsSync(file)) return found;
  found.add(file);
  const text = readFileSync(file, 'utf8');
  for (const [, names = '', specifier = ''] of text.matchAll(
    /(?:^|\n)(?:import|export)\s+(?!type\b)([^'";]*?)from\s+'([^']+)'/g,
  )) {
    const imported = names
      .replace(/[{}]/g, '')
      .split(',')
      .map((each) => each.trim());
    if (imported.every((each) => each === '' || each.startsWith('type '))) continue;
    if (specifier.startsWith('.')) loadedBy(path.join(path.dirname(file), specifier).replace(/\.js$/, '.ts'), found);
    else found.add(specifier);
  }
  return found;
}

test('the main thread loads no codec for the descriptors, and a media thread no schema library', () => {
  const registry = [...loadedBy('media/agents/providers/registry.ts')];
  expect(registry).toContain('media/agents/providers/hosted/hume.ts');
  expect(registry.filter((each) => /^media\/audio\/(codec|dsp|detect|playout)/.test(each))).toEqual([]);
  const thread = [...loadedBy('media/agents/connection/socket.ts')];
  expect(thread).toContain('media/audio/codec/g711.ts');
  expect(thread.filter((each) => /^(typebox|ajv|fastify)/.test(each))).toEqual([]);
});
