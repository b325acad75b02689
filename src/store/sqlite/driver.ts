import { createRequire } from 'node:module';
import type BetterSqlite3 from 'better-sqlite3';
import { StoreError } from '../database/errors.js';
import { prebuiltDriver } from './prebuilt-sqlite.js';

type Driver = typeof BetterSqlite3;

const prebuilt = '@photostructure/sqlite';

/**
 * better-sqlite3 13 is built against N-API 10 and crashes the process on Node below 22.14 instead of throwing, so the version decides
 * and not a try. Both packages carry their binaries; neither is compiled.
 */
export function driverPackages(nodeVersion: string): string[] {
  const [major = 0, minor = 0] = nodeVersion.split('.').map(Number);
  const napi10 = major > 22 || (major === 22 && minor >= 14);
  return napi10 ? ['better-sqlite3', prebuilt] : [prebuilt];
}

/** Loads the SQLite driver for this Node. Throws `StoreError` `no_driver` that says what was tried. */
export function loadDriver(
  packages = driverPackages(process.versions.node),
  require: (id: string) => unknown = createRequire(import.meta.url),
): Driver {
  const tried: string[] = [];
  for (const name of packages) {
    try {
      const loaded = require(name);
      const driver =
        name === prebuilt ? prebuiltDriver(loaded as Parameters<typeof prebuiltDriver>[0]) : (loaded as Driver);
      new driver(':memory:').close(); // the native part loads only now
      return driver;
    } catch (error) {
      tried.push(`${name}: ${String((error as Error).message).split('\n')[0]}`);
    }
  }
  throw new StoreError(
    'no_driver',
    `No SQLite driver loads on Node ${process.versions.node} (${tried.join('; ')}). Run npm ci again, without --omit=optional. The packages carry binaries for Linux, macOS and Windows on x64 and arm64.`,
  );
}
