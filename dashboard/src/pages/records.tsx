/** Lists of records with a form to create and change one: endpoints, numbers, trunks, keys and members are each a description of theirs. */
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { answerOf, api } from '../api/client';
import { allEndpoints } from '../api/endpoints';
import { pageSize, usePages } from '../api/pages';
import { useQuery } from '../api/query';
import { changesOf, RecordForm, type RecordValue } from '../forms/record-form';
import type { Refusal } from '../forms/refusals';
import { bodySchema } from '../forms/schemas';
import type { Me, PageProps } from '../page';
import { Card, Confirmed, Copy, Empty, Head, Loading, Problem } from '../ui/parts';
import { Brief, brief } from '../ui/text';
import { VirtualRows } from '../ui/virtual-rows';

export interface RecordKind {
  /** The page: `#/numbers`. */
  page: string;
  title: string;
  singular: string;
  /** The path of the API. */
  path: string;
  /** The roles that may change these records. */
  changes: 'admin' | 'owner';
  /** `wide`: only where there is room. `under`: where there is none, below the first column. */
  columns: { title: string; wide?: boolean; under?: boolean; of: (record: RecordValue) => ComponentChildren }[];
  nameOf: (record: RecordValue) => string;
  empty: ComponentChildren;
  /** The fields of the form, in their order; all if absent. */
  only?: string[] | ((value: RecordValue) => string[]);
  /** Whether a record can be changed and read alone. */
  isChangeable: boolean;
  needsEndpoints?: boolean;
  initial?: RecordValue;
  /** What goes when the record is deleted. */
  loss: string;
  /** The field of the answer that holds a secret shown once. */
  secret?: string;
  /** Further fields of the form, and their names. */
  moreFields?: string[];
  more?: (
    value: RecordValue,
    set: (value: RecordValue) => void,
    isNew: boolean,
    refusals: readonly Refusal[],
  ) => ComponentChildren;
  /** Beside the form of an existing record. */
  aside?: (record: RecordValue, reload: () => void) => ComponentChildren;
  /** Below the list. */
  below?: (me: Me) => ComponentChildren;
}

/** The operations of the typed client by their path; the schemas of the bodies are those of the forms. */
const untyped = api as unknown as Record<
  'GET' | 'POST' | 'PATCH' | 'DELETE',
  (path: string, options: object) => Promise<{ data?: RecordValue; error?: unknown; response: Response }>
>;
const rowHeight = 46;
const rank = { member: 0, admin: 1, owner: 2 };

export function Records({ kind, place, me }: PageProps & { kind: RecordKind }) {
  const id = place.path[1];
  if (id === 'new') return <NewRecord kind={kind} me={me} />;
  if (id && kind.isChangeable) return <OneRecord kind={kind} id={id} me={me} />;
  return <RecordList kind={kind} me={me} />;
}

function pathOf(kind: RecordKind, me: Me): string {
  return kind.path.replace('{organization}', me.organization.id);
}

/** The path as the description writes it. */
function describedPath(kind: RecordKind): string {
  return kind.path.replace('{organization}', '{id}');
}

function RecordList({ kind, me }: { kind: RecordKind; me: Me }) {
  const list = usePages<RecordValue>(
    kind.page,
    async (offset, signal) =>
      (await answerOf(
        untyped.GET(pathOf(kind, me), { params: { query: { limit: pageSize, offset } }, signal }),
      )) as unknown as { data: RecordValue[]; total: number },
  );
  const { rows } = list;
  const mayChange = rank[me.role] >= rank[kind.changes];
  return (
    <>
      <Head
        title={kind.title}
        under={(list.total ?? 0) > pageSize ? `${list.total?.toLocaleString()}, newest first` : undefined}
      >
        {mayChange && (
          <a class="button first" href={`#/${kind.page}/new`}>
            New {kind.singular}
          </a>
        )}
      </Head>
      {list.error && <Problem error={list.error} onRetry={list.reload} />}
      {list.total === null && !list.error && <Loading />}
      {list.total !== null && (
        <Card>
          {rows.length === 0 ? (
            <Empty title={`No ${kind.title.toLowerCase()} yet`}>{kind.empty}</Empty>
          ) : (
            <div class="table-wrap">
              <table class="rows fixed">
                <caption class="hidden">{kind.title}, newest first</caption>
                <thead>
                  <tr>
                    {kind.columns.map(({ title, wide, under }) => (
                      <th key={title} scope="col" class={wide || under ? 'wide-only' : ''}>
                        {title}
                      </th>
                    ))}
                    {!kind.isChangeable && mayChange && (
                      <th scope="col">
                        <span class="hidden">Actions</span>
                      </th>
                    )}
                  </tr>
                </thead>
                <VirtualRows
                  rows={rows}
                  rowHeight={rowHeight}
                  onNearEnd={list.more}
                  render={(record) => (
                    <tr key={String(record.id)}>
                      {kind.columns.map(({ title, wide, under, of }, index) => (
                        <td key={title} class={wide || under ? 'wide-only' : ''}>
                          {index === 0 && kind.isChangeable ? (
                            <a class="whole" href={`#/${kind.page}/${record.id}`}>
                              {of(record)}
                            </a>
                          ) : (
                            of(record)
                          )}
                          {index === 0 &&
                            kind.columns
                              .filter((column) => column.under)
                              .map((column) => (
                                <small class="narrow-only" key={column.title}>
                                  {column.of(record)}
                                </small>
                              ))}
                        </td>
                      ))}
                      {!kind.isChangeable && mayChange && (
                        <td class="right">
                          <Delete kind={kind} record={record} me={me} onDone={list.reload} />
                        </td>
                      )}
                    </tr>
                  )}
                />
              </table>
            </div>
          )}
        </Card>
      )}
      {kind.below?.(me)}
    </>
  );
}

function Delete({ kind, record, me, onDone }: { kind: RecordKind; record: RecordValue; me: Me; onDone: () => void }) {
  return (
    <Confirmed
      label="Delete"
      title={`Delete ${brief(kind.nameOf(record))}?`}
      warning={<p>{kind.loss}</p>}
      action={() => answerOf(untyped.DELETE(`${pathOf(kind, me)}/${record.id}`, {}))}
      onDone={onDone}
    />
  );
}

function useEndpointChoices(isNeeded: boolean): [string, string][] | undefined {
  const endpoints = useQuery(`endpoint choices ${isNeeded}`, (signal) =>
    isNeeded ? allEndpoints(signal) : Promise.resolve([]),
  );
  return endpoints.data?.map(({ id, name }) => [id, name]);
}

function NewRecord({ kind, me }: { kind: RecordKind; me: Me }) {
  const schema = useQuery(`schema ${kind.page} new`, () => bodySchema('post', describedPath(kind)));
  const choices = useEndpointChoices(kind.needsEndpoints ?? false);
  const [created, setCreated] = useState<RecordValue | null>(null);
  if (created && kind.secret && typeof created[kind.secret] === 'string') {
    const secret = created[kind.secret] as string;
    return (
      <>
        <Head title={`The ${kind.singular} was created`} />
        <div class="notice" data-tone="warn">
          <strong>Its secret is shown only now. Copy it to a safe place.</strong>
          <p class="row">
            <code class="secret">{secret}</code> <Copy text={secret} label="Copy the secret" />
          </p>
        </div>
        <div>
          <a class="button first" href={kind.isChangeable ? `#/${kind.page}/${created.id}` : `#/${kind.page}`}>
            I have it
          </a>
        </div>
      </>
    );
  }
  return (
    <>
      <Head title={`New ${kind.singular}`} />
      {schema.error && <Problem error={schema.error} onRetry={schema.reload} />}
      {schema.data && (!kind.needsEndpoints || choices) ? (
        <Card>
          <RecordForm
            schema={schema.data}
            initial={kind.initial ?? {}}
            only={kind.only}
            choices={choices}
            button={`Create the ${kind.singular}`}
            onSave={async (value) => {
              const body = changesOf({}, value, schema.data ?? {});
              const shown = typeof kind.only === 'function' ? [...kind.only(value), ...(kind.moreFields ?? [])] : null;
              if (shown) for (const name of Object.keys(body)) if (!shown.includes(name)) delete body[name];
              const record = await answerOf(untyped.POST(pathOf(kind, me), { body }));
              if (kind.secret && record[kind.secret]) setCreated(record);
              else location.hash = kind.isChangeable ? `#/${kind.page}/${record.id}` : `#/${kind.page}`;
            }}
          >
            {kind.more ? (value, set, refusals) => kind.more?.(value, set, true, refusals) : undefined}
          </RecordForm>
        </Card>
      ) : (
        !schema.error && <Loading />
      )}
    </>
  );
}

function OneRecord({ kind, id, me }: { kind: RecordKind; id: string; me: Me }) {
  const record = useQuery(`${kind.page} ${id}`, (signal) =>
    answerOf(untyped.GET(`${pathOf(kind, me)}/${id}`, { signal })),
  );
  const schema = useQuery(`schema ${kind.page}`, () => bodySchema('patch', `${describedPath(kind)}/{id}`));
  const choices = useEndpointChoices(kind.needsEndpoints ?? false);
  const [savedAt, setSavedAt] = useState(0);
  const mayChange = rank[me.role] >= rank[kind.changes];
  const error = record.error ?? schema.error;
  if (error && !record.data)
    return (
      <>
        <Head
          title={`${kind.singular.charAt(0).toUpperCase()}${kind.singular.slice(1)}`}
          under={<a href={`#/${kind.page}`}>{kind.title}</a>}
        />
        <Problem error={error} onRetry={record.reload} />
      </>
    );
  if (!record.data || !schema.data || (kind.needsEndpoints && !choices)) return <Loading />;
  const before = record.data;
  return (
    <>
      <Head
        title={<Brief text={kind.nameOf(before)} limit={120} />}
        under={<a href={`#/${kind.page}`}>{kind.title}</a>}
      >
        {mayChange && (
          <Delete
            kind={kind}
            record={before}
            me={me}
            onDone={() => {
              location.hash = `#/${kind.page}`;
            }}
          />
        )}
      </Head>
      {savedAt > 0 && (
        <div class="notice" data-tone="good" role="status">
          Saved. New calls use it at once; running calls go on as they began.
        </div>
      )}
      <div class="wide-narrow">
        <Card>
          <RecordForm
            key={String(before.updated_at)}
            schema={schema.data}
            initial={before}
            only={kind.only}
            choices={choices}
            button="Save"
            onSave={async (value) => {
              const body = changesOf(before, value, schema.data ?? {});
              await answerOf(untyped.PATCH(`${pathOf(kind, me)}/${id}`, { body }));
              setSavedAt(Date.now());
              record.reload();
            }}
          >
            {kind.more ? (value, set, refusals) => kind.more?.(value, set, false, refusals) : undefined}
          </RecordForm>
        </Card>
        <div class="stack">{kind.aside?.(before, record.reload)}</div>
      </div>
    </>
  );
}
