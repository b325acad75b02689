/** One operation of the API: what it takes and answers, samples, and a try with the key of this tab. */
import { useState } from 'preact/hooks';
import { rawFetch } from '../api/client';
import { type Schema, typeOf } from '../forms/schemas';
import { Action, Card, Copy } from '../ui/parts';
import { coded, Prose } from '../ui/prose';
import { Outside } from '../ui/text';
import { curlOf, type SampleRequest, typescriptOf, urlOf } from './samples';

export interface Operation {
  method: string;
  path: string;
  operationId: string;
  summary: string;
  description: string;
  tags: string[];
  security?: object[];
  parameters?: { name: string; in: string; required?: boolean; description?: string; schema: Schema }[];
  requestBody?: { content: Record<string, { schema: Schema; example?: unknown }> };
  responses: Record<string, { description: string; content?: Record<string, { schema?: Schema; example?: unknown }> }>;
  /** A request that Trunkline sends, and your server answers. */
  isReceived?: boolean;
}

interface Row {
  name: string;
  where: string;
  schema: Schema;
  isRequired: boolean;
  description?: string;
}

export function OperationView({ operation }: { operation: Operation }) {
  const { method, path, parameters = [], requestBody, responses, isReceived } = operation;
  const body = requestBody?.content['application/json'];
  const given = parameters.filter(({ in: where }) => where !== 'header');
  const rows: Row[] = [
    ...given.map((each) => ({ ...each, where: each.in, isRequired: each.required ?? false })),
    ...Object.entries(body?.schema.properties ?? {}).map(([name, schema]) => ({
      ...{ name, schema, where: 'body', isRequired: body?.schema.required?.includes(name) ?? false },
    })),
  ];
  const example = Object.values(responses).flatMap(({ content }) => Object.values(content ?? {}))[0]?.example;
  return (
    <>
      <Card title={operation.summary}>
        <div class="stack">
          {!isReceived && (
            <p>
              <code>
                {method} {path}
              </code>
            </p>
          )}
          <Prose text={operation.description} />
          {rows.length > 0 && <Fields rows={rows} />}
        </div>
      </Card>
      <Card title={isReceived ? 'What your server answers' : 'Answers'}>
        <div class="stack">
          <table>
            <tbody>
              {Object.entries(responses).map(([status, { description }]) => (
                <tr key={status}>
                  <td>
                    <code>{status}</code>
                  </td>
                  <td>
                    <Prose text={description} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
          {example !== undefined && (
            <details>
              <summary>Example answer</summary>
              <pre class="sample">{typeof example === 'string' ? example : JSON.stringify(example, null, 2)}</pre>
            </details>
          )}
        </div>
      </Card>
      {!isReceived && <Try operation={operation} given={given.map(({ name }) => name)} />}
    </>
  );
}

function Fields({ rows }: { rows: Row[] }) {
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">Field</th>
          <th scope="col">Meaning</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(({ name, where, schema, isRequired, description }) => (
          <tr key={`${where} ${name}`}>
            <td>
              <code>{name}</code>
              <br />
              <small>
                {typeOf(schema)}, {where}
                {isRequired && ', required'}
              </small>
            </td>
            <td>
              {coded(description ?? schema.description ?? '')}
              {schema.enum && (
                <>
                  {' '}
                  <small>{schema.enum.map(String).join(' · ')}</small>
                </>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** The samples follow what is typed into the fields of the try. */
function Try({ operation, given }: { operation: Operation; given: string[] }) {
  const { method, path, parameters = [], requestBody, security } = operation;
  const json = requestBody?.content['application/json'];
  const isForm = requestBody !== undefined && json === undefined;
  const [values, setValues] = useState<Record<string, string>>({});
  const [text, setText] = useState(json ? JSON.stringify(json.example ?? {}, null, 2) : '');
  const [answer, setAnswer] = useState<{ status: string; text: string } | null>(null);
  const request: SampleRequest = {
    ...{ method, path, values, body: json ? text : null, isPublic: security?.length === 0 },
    query: parameters.flatMap(({ name, in: where }) => (where === 'query' ? [name] : [])),
  };
  const missing = parameters.filter(({ name, required, in: where }) => required && where !== 'header' && !values[name]);
  const send = async () => {
    const init = { method, ...(json && { body: text, headers: { 'content-type': 'application/json' } }) };
    const response = await rawFetch(urlOf(request), init);
    const raw = await response.text();
    const isJson = response.headers.get('content-type')?.startsWith('application/json');
    setAnswer({ status: `${response.status}`, text: isJson ? JSON.stringify(JSON.parse(raw), null, 2) : raw });
  };
  return (
    <>
      <Card title="Samples">
        <div class="stack">
          {!isForm && <Sample name="curl" text={curlOf(request)} />}
          {!isForm && <Sample name="TypeScript" text={typescriptOf(request)} />}
          {isForm && <Sample name="curl" text={`${curlOf(request)} \\\n  -F file=@speech.wav`} />}
        </div>
      </Card>
      <Card title="Try it with the key of this tab">
        <div class="stack">
          {method !== 'GET' && (
            <div class="notice" data-tone="warn">
              This changes records of the organization you are signed in to.
            </div>
          )}
          {given.map((name) => (
            <div class="field" key={name}>
              <label for={`try-${name}`}>
                {name}
                {missing.some((each) => each.name === name) && <span class="soft"> (required)</span>}
              </label>
              <input
                id={`try-${name}`}
                value={values[name] ?? ''}
                onInput={(event) => setValues({ ...values, [name]: event.currentTarget.value })}
              />
            </div>
          ))}
          {json && (
            <div class="field">
              <label for="try-body">Body</label>
              <textarea id="try-body" rows={8} value={text} onInput={(event) => setText(event.currentTarget.value)} />
            </div>
          )}
          {path === '/v1/events' && <p class="soft">A stream has no end; follow it with a sample.</p>}
          {isForm && <p class="soft">A file is sent with a program; see the sample.</p>}
          {path !== '/v1/events' && !isForm && (
            <Action first label="Send" disabled={missing.length > 0} action={send} />
          )}
          {answer && (
            <div class="stack tight" role="status">
              <strong>{answer.status}</strong>
              <pre class="sample">
                <Outside text={answer.text || 'no body'} limit={6_000} />
              </pre>
            </div>
          )}
        </div>
      </Card>
    </>
  );
}

function Sample({ name, text }: { name: string; text: string }) {
  return (
    <div class="stack tight">
      <p class="row between">
        <small>{name}</small>
        <Copy text={text} />
      </p>
      <pre class="sample">{text}</pre>
    </div>
  );
}
