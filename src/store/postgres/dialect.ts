import type { SqlDialect } from '../database/dialect.js';

export const postgresDialect: SqlDialect = {
  joined: (text) => `string_agg(${text}, ',')`,
  character: (code) => `chr(${code})`,
};
