import type { SqlDialect } from '../database/dialect.js';

export const postgresDialect: SqlDialect = {
  joined: (text) => `string_agg(${text}, ',')`,
  eventOrder: 'position', // ids are made before the commit, on several clocks
  callsByMonth: true,
  character: (code) => `chr(${code})`,
};
