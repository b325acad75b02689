/** SIP dialogs of running calls, so that another process can send their BYE. See `tables.ts`. */
export const statements = [
  `create table call_dialogs (
    call_id text not null references calls (id) on delete cascade, sip_call_id text not null, dialog text not null,
    primary key (call_id, sip_call_id)
  ) strict, without rowid`,
];
