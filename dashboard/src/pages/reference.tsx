/** The API reference with search: what is common to all operations, each operation, and the requests that Trunkline sends. */
import { useMemo, useState } from 'preact/hooks';
import { useQuery } from '../api/query';
import { description } from '../forms/schemas';
import type { PageProps } from '../page';
import { type Operation, OperationView } from '../reference/operation';
import { Card, Empty, Head, Loading, Problem } from '../ui/parts';
import { Prose } from '../ui/prose';

type Methods = Record<string, Omit<Operation, 'method' | 'path'>>;
interface Described {
  info: { description: string };
  paths: Record<string, Methods>;
  webhooks: Record<string, Methods>;
}

/** An entry of the list: a topic, or an operation. */
interface Entry {
  /** The last part of its place. */
  name: string;
  title: string;
  group: string;
  /** Below the title. */
  under: string;
  /** What the search looks into. */
  words: string;
  topic?: string;
  operation?: Operation;
}

export function Reference({ place }: PageProps) {
  const described = useQuery('description', () => description() as Promise<unknown> as Promise<Described>);
  const [words, setWords] = useState('');
  const entries = useMemo(() => (described.data ? entriesOf(described.data) : []), [described.data]);
  if (described.error) return <Problem error={described.error} onRetry={described.reload} />;
  if (!described.data) return <Loading />;
  const asked = words.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = entries.filter(({ words: text }) => asked.every((word) => text.includes(word)));
  const groups = [...new Set(shown.map(({ group }) => group))];
  const chosen = entries.find(({ name }) => name === (place.path[1] ?? 'introduction'));
  return (
    <>
      <Head title="API reference" under={<a href="/docs">All of it on one page</a>}>
        <a class="button" href="/openapi.json">
          openapi.json
        </a>
      </Head>
      <div class="wide-narrow reverse">
        <Card>
          <div class="stack">
            <div class="field">
              <label for="search">Search</label>
              <input
                id="search"
                type="search"
                placeholder="transfer, balance, 409…"
                value={words}
                onInput={(event) => setWords(event.currentTarget.value)}
              />
            </div>
            {shown.length === 0 && <Empty title="Nothing has these words" />}
            <nav class="operations" aria-label="Reference">
              {groups.map((group) => (
                <div key={group}>
                  <h2>{group}</h2>
                  <ul>
                    {shown
                      .filter((entry) => entry.group === group)
                      .map(({ name, title, under }) => (
                        <li key={name}>
                          <a href={`#/reference/${name}`} aria-current={name === chosen?.name ? 'true' : undefined}>
                            {title}
                            {under && (
                              <>
                                <br />
                                <code>{under}</code>
                              </>
                            )}
                          </a>
                        </li>
                      ))}
                  </ul>
                </div>
              ))}
            </nav>
          </div>
        </Card>
        <div class="stack">
          {chosen?.topic !== undefined && (
            <Card title={chosen.title}>
              <Prose text={chosen.topic} />
            </Card>
          )}
          {chosen?.operation && <OperationView key={chosen.name} operation={chosen.operation} />}
          {!chosen && (
            <Card>
              <Empty title="There is no such operation">
                <p>Choose one from the list.</p>
              </Empty>
            </Card>
          )}
        </div>
      </div>
    </>
  );
}

function entriesOf({ info, paths, webhooks }: Described): Entry[] {
  const [introduction = '', ...topics] = info.description.split(/^## /m);
  const topic = (title: string, text: string): Entry => ({
    ...{ name: title.toLowerCase().replaceAll(' ', '-'), title, group: 'For all operations', under: '', topic: text },
    words: `${title} ${text}`.toLowerCase(),
  });
  const entryOf = (operation: Operation): Entry => ({
    ...{ name: operation.operationId, title: operation.summary, operation },
    group: operation.isReceived ? 'Requests to your server' : (operation.tags[0] ?? ''),
    under: operation.isReceived ? '' : `${operation.method} ${operation.path}`,
    words:
      `${operation.method} ${operation.path} ${operation.summary} ${operation.operationId} ${operation.description}`.toLowerCase(),
  });
  const operations = (of: Record<string, Methods>, isReceived: boolean) =>
    Object.entries(of).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) =>
        entryOf({ ...operation, method: method.toUpperCase(), path, isReceived }),
      ),
    );
  return [
    topic('Introduction', introduction),
    ...topics.map((text) => topic(text.slice(0, text.indexOf('\n')), text.slice(text.indexOf('\n')))),
    ...operations(paths, false),
    ...operations(webhooks, true),
  ];
}
