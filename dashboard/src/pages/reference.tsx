/** The API reference with search, samples, and a try with the key of this tab. */
import { useMemo, useState } from 'preact/hooks';
import { rawFetch } from '../api/client';
import { useQuery } from '../api/query';
import { description, type Schema, typeOf } from '../forms/schemas';
import type { PageProps } from '../page';
import { Action, Card, Empty, Head, Loading, Problem } from '../ui/parts';
import { Outside } from '../ui/text';

interface Parameter {
  name: string;
  in: string;
  required?: boolean;
  description?: string;
  schema: Schema;
}
interface Operation {
  method: string;
  path: string;
  operationId: string;
  summary: string;
  description: string;
  tags: string[];
  parameters?: Parameter[];
  requestBody?: { content: Record<string, { schema: Schema; example?: unknown }> };
  responses: Record<string, { description: string; content?: Record<string, { example?: unknown }> }>;
}

export function Reference({ place }: PageProps) {
  const described = useQuery(
    'description',
    () =>
      description() as Promise<unknown> as Promise<{
        paths: Record<string, Record<string, Omit<Operation, 'method' | 'path'>>>;
      }>,
  );
  const [words, setWords] = useState('');
  const chosen = place.path[1];
  const all = useMemo(
    () =>
      Object.entries(described.data?.paths ?? {}).flatMap(([path, methods]) =>
        Object.entries(methods).map(
          ([method, operation]): Operation => ({ ...operation, method: method.toUpperCase(), path }),
        ),
      ),
    [described.data],
  );
  if (described.error) return <Problem error={described.error} onRetry={described.reload} />;
  if (!described.data) return <Loading />;
  const asked = words.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = all.filter((operation) => {
    const text =
      `${operation.method} ${operation.path} ${operation.summary} ${operation.operationId} ${operation.description}`.toLowerCase();
    return asked.every((word) => text.includes(word));
  });
  const operation = all.find(({ operationId }) => operationId === chosen);
  return (
    <>
      <Head
        title="API reference"
        under={<a href="/docs">The whole reference on one page, with errors, limits and events</a>}
      >
        <a class="button" href="/openapi.json">
          openapi.json
        </a>
      </Head>
      <div class="field">
        <label for="search">Search {all.length} operations</label>
        <input id="search" type="search" value={words} onInput={(event) => setWords(event.currentTarget.value)} />
      </div>
      <div class="wide-narrow reverse">
        <Card>
          {shown.length === 0 && <Empty title="No operation has these words" />}
          <ul class="operations">
            {shown.map(({ operationId, method, path, summary }) => (
              <li key={operationId}>
                <a href={`#/reference/${operationId}`} aria-current={operationId === chosen ? 'true' : undefined}>
                  {summary}
                  <br />
                  <code>
                    {method} {path}
                  </code>
                </a>
              </li>
            ))}
          </ul>
        </Card>
        <div class="stack">
          {operation ? (
            <OperationView key={operation.operationId} operation={operation} />
          ) : (
            <Empty title="Choose an operation" />
          )}
        </div>
      </div>
    </>
  );
}

function OperationView({ operation }: { operation: Operation }) {
  const { method, path, parameters = [], requestBody, responses } = operation;
  const body = requestBody?.content['application/json'];
  const given = parameters.filter(({ in: where }) => where !== 'header');
  const [values, setValues] = useState<Record<string, string>>({});
  const [text, setText] = useState(body ? JSON.stringify(body.example ?? {}, null, 2) : '');
  const [answer, setAnswer] = useState<{ status: string; text: string } | null>(null);
  const url = urlOf(path, given, values);
  const example = Object.values(responses).flatMap(({ content }) => Object.values(content ?? {}))[0]?.example;
  const isStream = path === '/v1/events';
  const send = async () => {
    const init = { method, ...(body && { body: text, headers: { 'content-type': 'application/json' } }) };
    const response = await rawFetch(url, init);
    const raw = await response.text();
    setAnswer({
      status: `${response.status}`,
      text: raw.startsWith('{') || raw.startsWith('[') ? JSON.stringify(JSON.parse(raw), null, 2) : raw,
    });
  };
  return (
    <>
      <Card title={operation.summary}>
        <div class="stack">
          <p>
            <code>
              {method} {path}
            </code>
          </p>
          {operation.description.split('\n\n').map((paragraph) => (
            <p key={paragraph}>{paragraph.replaceAll('`', '')}</p>
          ))}
          {given.length > 0 && (
            <table>
              <tbody>
                {given.map(({ name, in: where, required, description: about, schema }) => (
                  <tr key={name}>
                    <td>
                      <code>{name}</code>
                      <br />
                      <small>
                        {typeOf(schema)}, {where}
                        {required && ', required'}
                      </small>
                    </td>
                    <td>{(about ?? schema.description ?? '').replaceAll('`', '')}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
        </div>
      </Card>
      <Card title="Samples">
        <div class="stack">
          <pre class="sample">{curlOf(method, url, body ? text : null)}</pre>
          <pre class="sample">{typescriptOf(method, path, values, body ? text : null)}</pre>
          {example !== undefined && (
            <details>
              <summary>Example answer</summary>
              <pre class="sample">{typeof example === 'string' ? example : JSON.stringify(example, null, 2)}</pre>
            </details>
          )}
        </div>
      </Card>
      <Card title="Try it with the key of this tab">
        <div class="stack">
          {method !== 'GET' && (
            <div class="notice" data-tone="warn">
              This changes records of the organization you are signed in to.
            </div>
          )}
          {given.map(({ name, required }) => (
            <div class="field" key={name}>
              <label for={`try-${name}`}>
                {name}
                {required && ' (required)'}
              </label>
              <input
                id={`try-${name}`}
                value={values[name] ?? ''}
                onInput={(event) => setValues({ ...values, [name]: event.currentTarget.value })}
              />
            </div>
          ))}
          {body && (
            <div class="field">
              <label for="try-body">Body</label>
              <textarea id="try-body" rows={8} value={text} onInput={(event) => setText(event.currentTarget.value)} />
            </div>
          )}
          {isStream ? (
            <p class="soft">A stream has no end; follow it with the sample.</p>
          ) : (
            <Action first label="Send" action={send} />
          )}
          {answer && (
            <div class="stack tight" role="status">
              <strong>{answer.status}</strong>
              <pre class="sample">
                <Outside text={answer.text} limit={6_000} />
              </pre>
            </div>
          )}
        </div>
      </Card>
    </>
  );
}

function urlOf(path: string, parameters: Parameter[], values: Record<string, string>): string {
  const filled = path.replace(/\{(\w+)\}/g, (mark, name: string) =>
    values[name] ? encodeURIComponent(values[name]) : mark,
  );
  const query = parameters.flatMap(({ name, in: where }) =>
    where === 'query' && values[name] ? [[name, values[name]]] : [],
  );
  return query.length === 0 ? filled : `${filled}?${new URLSearchParams(query)}`;
}

/** A text for a shell, in single quotes. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function curlOf(method: string, url: string, body: string | null): string {
  const lines = [
    `curl${method === 'GET' ? '' : ` -X ${method}`} ${quoted(location.origin + url)}`,
    '-H "Authorization: Bearer $TRUNKLINE_API_KEY"',
    ...(body === null ? [] : ["-H 'Content-Type: application/json'", `-d ${quoted(body.replace(/\s*\n\s*/g, ' '))}`]),
  ];
  return lines.join(' \\\n  ');
}

function typescriptOf(method: string, path: string, values: Record<string, string>, body: string | null): string {
  const url = path.replace(
    /\{(\w+)\}/g,
    (_, name: string) => `\${${values[name] ? JSON.stringify(values[name]) : name}}`,
  );
  const more = body === null ? '' : `\n  body: JSON.stringify(${body.replaceAll('\n', '\n  ')}),`;
  const type = body === null ? '' : ", 'Content-Type': 'application/json'";
  return `const response = await fetch(\`${location.origin}${url}\`, {
  method: '${method}',
  headers: { Authorization: \`Bearer \${process.env.TRUNKLINE_API_KEY}\`${type} },${more}
});
if (!response.ok) throw new Error((await response.json()).error);`;
}
