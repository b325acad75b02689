import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';

/** Where Debian's packages are, by version. */
const packages = '/usr/lib/postgresql';

/** The folder with `initdb` and `postgres`, of the newest version; undefined: it is not installed. */
export function postgresFolder(): string | undefined {
  const versions = existsSync(packages) ? readdirSync(packages).sort((a, b) => Number(b) - Number(a)) : [];
  return versions
    .map((version) => path.join(packages, version, 'bin'))
    .find((bin) => existsSync(path.join(bin, 'initdb')));
}
