/** The end of a number's inbound calls is reported to this URL; null: to that of its endpoint. `text`: the type of the database. */
export function statements(text: string): readonly string[] {
  return [
    `alter table phone_numbers add column status_callback_url ${text}`,
    `alter table phone_numbers add column status_callback_method ${text} not null default 'POST' check (status_callback_method in ('GET', 'POST'))`,
  ];
}
