import type { Migration } from '../../database/migrations/index.js';
import { statements as nodes } from '../../nodes/migration.js';
import { statements as waitingEvents } from '../../nodes/waiting-events-migration.js';
import { statements as numberCallback } from '../../routing/number-callback-migration.js';
import { statements as initial } from './0001-initial.js';
import { statements as numberSearch } from './0002-number-search.js';
import { statements as partitions } from './0004-partitions.js';
import { statements as nodeCommands } from './0005-nodes.js';
import { statements as conferences } from './0007-conferences.js';

/** All migrations of a PostgreSQL database, in order. A change of SQLite's tables has one here too. */
export const migrations: Readonly<Record<string, Migration>> = {
  '0001-initial': { statements: initial },
  '0002-number-search': { statements: numberSearch },
  '0003-nodes': { statements: nodes('text collate "C"') },
  '0004-partitions': { statements: partitions },
  '0005-nodes': { statements: nodeCommands },
  '0006-waiting-events': { statements: waitingEvents('text collate "C"', 'bigint') },
  '0007-conferences': { statements: conferences },
  '0008-number-callback': { statements: numberCallback('text collate "C"') },
};
