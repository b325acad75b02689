import { createHash } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import { describedApi } from '../openapi.js';
import { type Route, route } from '../route.js';
import { Type } from '../schemas/types.js';

interface Field {
  type?: string | string[];
  enum?: unknown[];
  default?: unknown;
  description?: string;
  $ref?: string;
  items?: Field;
}
interface Described extends Field {
  properties?: Record<string, Field>;
  required?: string[];
}
interface OperationObject {
  operationId: string;
  summary: string;
  description: string;
  tags: string[];
  security?: object[];
  parameters?: { name: string; in: string; required?: boolean; description?: string; schema: Field }[];
  requestBody?: { content: Record<string, { schema: Described; example?: unknown }> };
  responses: Record<
    string,
    { description: string; content?: Record<string, { schema: Field & { anyOf?: Field[] }; example?: unknown }> }
  >;
}
interface Description {
  info: { title: string; version: string; description: string };
  tags: { name: string; description: string }[];
  paths: Record<string, Record<string, OperationObject>>;
  components: { schemas: Record<string, Described> };
  webhooks: Record<string, Record<string, OperationObject>>;
}

/** In the colours of the dashboard (`dashboard/src/style.css`). */
const style = `
:root { color-scheme: light dark; --paper: #f4f5f3; --card: #fff; --ink: #1c2320; --soft: #55605b; --line: #d9ddd9; --accent: #0b5d6b; --accent-soft: #dceef0; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #121615; --card: #1a201e; --ink: #e4e9e6; --soft: #9ba8a2; --line: #2e3734; --accent: #6cc5d3; --accent-soft: #173439; }
}
body { font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto; max-width: 62rem; padding: 1.4rem 1rem 4rem; }
h1 { font-size: 1.5rem; letter-spacing: -.01em; } h2 { font-size: 1.2rem; margin-top: 2.4rem; } h3 { font-size: 1rem; } h4 { font-size: .9rem; color: var(--soft); }
a { color: var(--accent); text-underline-offset: 2px; }
code, .path, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: .92em; overflow-wrap: anywhere; }
nav ul { columns: 15rem; padding-left: 1.2rem; }
article, nav { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .4rem 1.1rem 1rem; margin: 1rem 0; }
td:first-child > code { white-space: nowrap; }
table { border-collapse: collapse; width: 100%; } td, th { border-bottom: 1px solid var(--line); padding: .3rem .6rem .3rem 0; text-align: left; vertical-align: top; }
.method { background: var(--accent-soft); color: var(--accent); border-radius: .3rem; padding: .1rem .4rem; font-weight: 600; }
input { font: inherit; color: inherit; background: var(--card); border: 1px solid var(--soft); border-radius: 6px; padding: .3rem .6rem; }
details { margin: .5rem 0; } summary { cursor: pointer; color: var(--accent); } pre { background: var(--paper); border-radius: 6px; padding: .7rem; white-space: pre-wrap; }
@media (max-width: 40rem) { table, tbody, tr, td { display: block; } th { display: none; } td { border: 0; padding: .1rem 0; } tr { border-bottom: 1px solid var(--line); padding: .4rem 0; } td:first-child > code { white-space: normal; font-weight: 600; } }
`;
const styleHash = createHash('sha256').update(style).digest('base64');

/** Hides the operations that do not have all words of the search; without scripts the page has no search. */
const script = `
const field = document.getElementById('search');
field.closest('p').hidden = false;
const all = [...document.querySelectorAll('article')].map((article) => ({ article, text: article.textContent.toLowerCase() }));
field.addEventListener('input', () => {
  const words = field.value.toLowerCase().split(/\\s+/);
  for (const { article, text } of all) article.hidden = !words.every((word) => text.includes(word));
  for (const section of document.querySelectorAll('section.operations')) section.hidden = !section.querySelector('article:not([hidden])');
});
`;
const scriptHash = createHash('sha256').update(script).digest('base64');

/** The API reference as an HTML page: one file, without resources of other hosts. */
export function docsRoute(app: FastifyInstance): Route {
  let page: string | null = null;
  return route({
    method: 'GET',
    path: '/docs',
    operationId: 'getDocs',
    tag: 'Operation',
    summary: 'Get the API reference',
    description: 'The API reference as an HTML page.',
    access: 'public',
    answer: {
      status: 200,
      description: 'The page.',
      schema: Type.String({ description: 'HTML.' }),
      contentType: 'text/html',
    },
    handle: ({ reply }) => {
      page ??= pageOf(describedApi(app) as Description);
      reply
        .type('text/html; charset=utf-8')
        .serializer(String)
        .headers({
          'content-security-policy': `default-src 'none'; script-src 'sha256-${scriptHash}'; style-src 'sha256-${styleHash}'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'`,
          'referrer-policy': 'no-referrer',
        });
      return page;
    },
  });
}

function pageOf({ info, tags, paths, components, webhooks }: Description): string {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
  const groups = tags.map((tag) => ({
    ...tag,
    operations: operations.filter((o) => o.operation.tags[0] === tag.name),
  }));
  const menu = groups.map(
    ({ name, operations }) =>
      `<h3>${escaped(name)}</h3><ul>${operations.map(({ operation }) => `<li><a href="#${operation.operationId}">${escaped(operation.summary)}</a></li>`).join('')}</ul>`,
  );
  const body = groups.map(
    ({ name, description, operations }) =>
      `<section class="operations"><h2>${escaped(name)}</h2><p>${text(description)}</p>${operations.map(operationHtml).join('')}</section>`,
  );
  const received = Object.values(webhooks).flatMap((methods) => Object.values(methods).map(receivedHtml));
  const schemas = Object.entries(components.schemas)
    .filter(([, schema]) => schema.properties)
    .map(([name, schema]) => `<h3 id="schema-${name}">${escaped(name)}</h3>${fields(schema)}`);
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escaped(info.title)} API ${escaped(info.version)}</title><style>${style}</style></head><body>
<h1>${escaped(info.title)} API ${escaped(info.version)}</h1>
<p><a href="/">Dashboard</a> · <a href="/#/reference">search and try the operations there</a> · for programs: <a href="/openapi.json">openapi.json</a></p>${prose(info.description)}
<p hidden><label>Search <input id="search" type="search" autocomplete="off"></label></p>
<nav>${menu.join('')}<p><a href="#webhooks">Requests to your server</a> · <a href="#events">Events</a> · <a href="#limits">Limits</a> · <a href="#errors">Errors</a> · <a href="#records">Records</a></p></nav>${body.join('')}
<section class="operations"><h2 id="webhooks">Requests to your server</h2><p>Sent to the addresses of your webhook endpoints.</p>${received.join('')}</section>
<section><h2 id="records">Records</h2>${schemas.join('')}</section><script>${script}</script></body></html>`;
}

function operationHtml({
  path,
  method,
  operation,
}: {
  path: string;
  method: string;
  operation: OperationObject;
}): string {
  const parameters = (operation.parameters ?? []).map(
    ({ name, in: where, required, description, schema }) =>
      `<tr><td><code>${escaped(name)}</code></td><td>${where}${required ? ', required' : ''}</td><td>${typeOf(schema)}</td><td>${text(description ?? schema.description ?? '')}</td></tr>`,
  );
  const bodies = Object.entries(operation.requestBody?.content ?? {}).map(
    ([type, { schema, example }]) =>
      `<h4>Body <code>${escaped(type)}</code></h4>${fields(schema, 'required')}${sample('Example request body', example)}`,
  );
  const answers = Object.entries(operation.responses).map(([status, { description, content }]) => {
    const schema = Object.values(content ?? {})[0]?.schema;
    const shown = schema?.anyOf ? schema.anyOf.map(typeOf).join(' or ') : schema ? typeOf(schema) : '';
    return `<tr><td>${status}</td><td>${shown}</td><td>${text(description)}</td></tr>`;
  });
  const successes = Object.values(operation.responses)
    .flatMap(({ content }) => Object.values(content ?? {}))
    .map(({ example }) => sample('Example response', example));
  return `<article id="${operation.operationId}"><h3>${escaped(operation.summary)}</h3>
<p class="path"><span class="method">${method.toUpperCase()}</span> ${escaped(path)}</p><p>${text(operation.description)}</p>
${parameters.length > 0 ? `<h4>Parameters</h4><table>${parameters.join('')}</table>` : ''}${bodies.join('')}
<details><summary>Responses</summary><table>${answers.join('')}</table></details>${successes.join('')}${sample('curl', curlOf(method, path, operation))}${sample('TypeScript', typescriptOf(method, path, operation))}
<p><a href="/#/reference/${operation.operationId}">Try it in the dashboard</a></p></article>`;
}

/** A request that Trunkline sends. */
function receivedHtml({ operationId, summary, description, requestBody, responses }: OperationObject): string {
  const body = requestBody?.content['application/json'];
  const answers = Object.entries(responses).map(
    ([status, { description }]) => `<tr><td>${status}</td><td>${text(description)}</td></tr>`,
  );
  return `<article id="${operationId}"><h3>${escaped(summary)}</h3><p>${text(description)}</p>
<h4>Body <code>application/json</code></h4>${body ? fields(body.schema) : ''}<h4>What your server answers</h4><table>${answers.join('')}</table></article>`;
}

/** `${name}`, in a template string. */
function placeholder(name: string): string {
  return `\${${name}}`;
}

/** A request with the example body; parameters of the path are variables. */
function typescriptOf(method: string, path: string, { requestBody, security }: OperationObject): string {
  const [[type, body] = []] = Object.entries(requestBody?.content ?? {});
  const json =
    type === 'application/json' && body?.example !== undefined ? JSON.stringify(body.example, null, 2) : null;
  const headers = [
    ...(security?.length === 0 ? [] : [`Authorization: \`Bearer ${placeholder('process.env.TRUNKLINE_API_KEY')}\``]),
    ...(json === null ? [] : ["'Content-Type': 'application/json'"]),
  ];
  const lines = [
    ...(method === 'get' ? [] : [`  method: '${method.toUpperCase()}',`]),
    ...(headers.length === 0 ? [] : [`  headers: { ${headers.join(', ')} },`]),
    ...(json === null ? [] : [`  body: JSON.stringify(${json.replaceAll('\n', '\n  ')}),`]),
  ];
  const url =
    placeholder('process.env.TRUNKLINE_URL') + path.replace(/\{(\w+)\}/g, (_, name: string) => placeholder(name));
  return [
    `const response = await fetch(\`${url}\`, {`,
    ...lines,
    '});',
    'if (!response.ok) throw new Error((await response.json()).error);',
  ].join('\n');
}

/** A request with the example body, for a shell. */
function curlOf(method: string, path: string, { requestBody, security }: OperationObject): string {
  const [[type, body] = []] = Object.entries(requestBody?.content ?? {});
  const json = type === 'application/json' && body?.example !== undefined ? JSON.stringify(body.example) : null;
  const lines = [
    `curl${method === 'get' ? '' : ` -X ${method.toUpperCase()}`} "$TRUNKLINE_URL${path}"`,
    ...(security?.length === 0 ? [] : ['-H "Authorization: Bearer $TRUNKLINE_API_KEY"']),
    ...(json === null ? [] : ["-H 'Content-Type: application/json'", `-d '${json.replaceAll("'", "'\\''")}'`]),
  ];
  return lines.join(' \\\n  ');
}

function sample(title: string, example: unknown): string {
  if (example === undefined) return '';
  const shown = typeof example === 'string' ? example : JSON.stringify(example, null, 2);
  return `<details><summary>${title}</summary><pre><code>${escaped(shown)}</code></pre></details>`;
}

function fields({ properties = {}, required = [] }: Described, word = 'always'): string {
  const rows = Object.entries(properties).map(
    ([name, field]) =>
      `<tr><td><code>${escaped(name)}</code></td><td>${typeOf(field)}${required.includes(name) ? `, ${word}` : ''}</td><td>${text(field.description ?? '')}</td></tr>`,
  );
  return rows.length === 0 ? '<p>Nothing.</p>' : `<table>${rows.join('')}</table>`;
}

function typeOf(field: Field): string {
  const named = field.$ref?.split('/').at(-1);
  if (named) return `<a href="#schema-${named}">${escaped(named)}</a>`;
  if (field.enum) return field.enum.map((value) => `<code>${escaped(String(value))}</code>`).join(' · ');
  const type = [field.type ?? 'anything'].flat().join(' or ');
  const of = field.items ? ` of ${typeOf(field.items)}` : '';
  return `${escaped(type)}${of}${field.default === undefined ? '' : `, default <code>${escaped(String(field.default))}</code>`}`;
}

/** The introduction: headings, paragraphs and tables. */
function prose(markdown: string): string {
  return markdown
    .split('\n\n')
    .map((block) => {
      if (block.startsWith('|')) return tableOf(block);
      const [, heading, rest = ''] = /^## (.+)\n?([\s\S]*)$/.exec(block) ?? [];
      if (heading === undefined) return `<p>${text(block)}</p>`;
      return `<h2 id="${heading.toLowerCase().replaceAll(' ', '-')}">${escaped(heading)}</h2>${rest === '' ? '' : `<p>${text(rest)}</p>`}`;
    })
    .join('');
}

function tableOf(lines: string): string {
  const rows = lines.split('\n').filter((line) => !/^[|-]+$/.test(line));
  const cells = rows.map((line) =>
    line
      .slice(1, -1)
      .split('|')
      .map((cell) => text(cell.trim())),
  );
  const [head = [], ...others] = cells;
  const body = others.map((row) => `<tr>${row.map((cell) => `<td>${cell}</td>`).join('')}</tr>`);
  return `<table><tr>${head.map((cell) => `<th>${cell}</th>`).join('')}</tr>${body.join('')}</table>`;
}

/** Renders the markup of descriptions: \`code\` and blank lines. */
function text(markdown: string): string {
  return escaped(markdown)
    .replace(/`([^`]+)`/g, '<code>$1</code>')
    .replaceAll('\n\n', '<br>');
}

function escaped(raw: string): string {
  return raw.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
