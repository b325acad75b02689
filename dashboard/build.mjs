/** Builds the dashboard into dist/dashboard, if its sources are not those of the last build. */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

const here = path.dirname(fileURLToPath(import.meta.url));
const outDir = path.join(here, '../dist/dashboard');
const stampFile = path.join(outDir, '.sources');

/** The names and contents of all sources, and of the lock file, which names the versions of all packages. */
function sources() {
  const hash = createHash('sha256');
  const files = readdirSync(here, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name))
    .sort();
  for (const file of [...files, path.join(here, '../package-lock.json')])
    if (existsSync(file)) hash.update(path.relative(here, file)).update('\0').update(readFileSync(file));
  return hash.digest('hex');
}

const stamp = sources();
const isBuilt = existsSync(stampFile) && readFileSync(stampFile, 'utf8') === stamp;
if (!isBuilt) {
  const { build } = await import('vite');
  await build({
    configFile: false,
    root: here,
    logLevel: 'warn',
    oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
    build: {
      outDir,
      emptyOutDir: true,
      target: 'es2022',
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
    },
  });
  const assets = path.join(outDir, 'assets');
  for (const name of readdirSync(assets)) {
    const bytes = readFileSync(path.join(assets, name));
    writeFileSync(path.join(assets, `${name}.gz`), gzipSync(bytes, { level: 9 }));
    writeFileSync(
      path.join(assets, `${name}.br`),
      brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length } }),
    );
  }
  writeFileSync(stampFile, stamp);
}
