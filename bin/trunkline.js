#!/usr/bin/env node
import { existsSync } from 'node:fs';

const program = new URL('../dist/src/cli/main.js', import.meta.url);
if (!existsSync(program)) {
  console.error('trunkline: not built yet. Run: npm run build');
  process.exit(1);
}
await import(program.href);
