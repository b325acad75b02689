import type { SqlDialect } from '../database/dialect.js';

export const sqliteDialect: SqlDialect = {
  joined: (text) => `group_concat(${text})`,
  eventOrder: 'id',
  callsByMonth: false,
  character: (code) => `char(${code})`,
};
