/** Limits of a trunk, and its number format. */
export const statements = [
  'alter table trunks add column max_calls integer',
  'alter table trunks add column calls_per_second integer',
  "alter table trunks add column outbound text not null default '{}'",
];
