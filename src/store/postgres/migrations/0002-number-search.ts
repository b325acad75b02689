/** As SQLite's `0019-number-search`. */
export const statements: readonly string[] = [
  'create index calls_by_from_number on calls (from_number)',
  'create index calls_by_to_number on calls (to_number)',
];
