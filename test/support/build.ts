import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import path from 'node:path';

/** Worker threads run built JavaScript (`config/built.ts`), and browsers run the built dashboard, so the tests build first; incremental, well under a second when nothing changed. */
export default function buildOnce(): void {
  const packageJson = createRequire(import.meta.url).resolve('typescript/package.json');
  execFileSync(process.execPath, [path.join(path.dirname(packageJson), 'bin', 'tsc'), '-p', 'tsconfig.build.json'], {
    stdio: 'inherit',
  });
  execFileSync(process.execPath, [path.resolve(import.meta.dirname, '../../dashboard/build.mjs')], {
    stdio: 'inherit',
  });
}
