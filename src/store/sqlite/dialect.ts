import type { SqlDialect } from '../database/dialect.js';

export const sqliteDialect: SqlDialect = {
  joined: (text) => `group_concat(${text})`,
  eventOrder: 'id',
  character: (code) => `char(${code})`,
};
