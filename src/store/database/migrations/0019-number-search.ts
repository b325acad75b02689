/**
 * Calls by their numbers, for searches by the beginning of one. Without the organization, which would triple the size of the entries: a
 * search that finds too many entries reads the organization's newest calls instead.
 */
export const statements: readonly string[] = [
  'create index calls_by_from_number on calls (from_number)',
  'create index calls_by_to_number on calls (to_number)',
];
