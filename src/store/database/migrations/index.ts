import { statements as nodes } from '../../nodes/migration.js';
import { statements as waitingEvents } from '../../nodes/waiting-events-migration.js';
import { statements as numberCallback } from '../../routing/number-callback-migration.js';
import { statements as initial } from './0001-initial.js';
import { statements as webhooks } from './0002-webhooks.js';
import { statements as rest } from './0003-rest.js';
import { statements as carriers } from './0004-carriers.js';
import { statements as recovery } from './0005-recovery.js';
import { statements as insights } from './0006-rest.js';
import { statements as secure } from './0007-secure.js';
import { statements as recordings } from './0009-webhooks.js';
import { statements as tables } from './0011-tables.js';
import { statements as toldEndpoints } from './0012-told-endpoints.js';
import { statements as heads } from './0013-api.js';
import { statements as callers } from './0014-api.js';
import { statements as audioDelay } from './0016-audio-delay.js';
import { statements as encryptedEndpoints } from './0017-encrypted-endpoints.js';
import { statements as code } from './0018-code.js';
import { statements as numberSearch } from './0019-number-search.js';

/** Statements of one schema version. Never changed once released: a later change is a new migration. */
export interface Migration {
  statements: readonly string[];
}

/** All migrations in order, by name. A static record: no directory is read, so that a bundle works as well. */
export const migrations: Readonly<Record<string, Migration>> = {
  '0001-initial': { statements: initial },
  '0002-webhooks': { statements: webhooks },
  '0003-rest': { statements: rest },
  '0004-carriers': { statements: carriers },
  '0005-recovery': { statements: recovery },
  '0006-rest': { statements: insights },
  '0007-secure': { statements: secure },
  '0009-webhooks': { statements: recordings },
  '0011-tables': { statements: tables },
  '0012-told-endpoints': { statements: toldEndpoints },
  '0013-api': { statements: heads },
  '0014-api': { statements: callers },
  '0016-audio-delay': { statements: audioDelay },
  '0017-encrypted-endpoints': { statements: encryptedEndpoints },
  '0018-code': { statements: code },
  '0019-number-search': { statements: numberSearch },
  '0020-nodes': { statements: nodes('text') },
  '0021-waiting-events': { statements: waitingEvents('text', 'integer') },
  '0022-number-callback': { statements: numberCallback('text') },
};
