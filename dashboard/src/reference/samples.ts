/** Requests as text: for a shell, and for TypeScript. */

export interface SampleRequest {
  method: string;
  /** With its parameters as `{id}`. */
  path: string;
  /** Values of the parameters, as far as they are known. */
  values: Record<string, string>;
  /** The names of the parameters in the query. */
  query: string[];
  /** The text of the body; null if there is none. */
  body: string | null;
  /** Whether it needs a key. */
  isPublic: boolean;
}

export function urlOf({ path, values, query }: Pick<SampleRequest, 'path' | 'values' | 'query'>): string {
  const filled = path.replace(/\{(\w+)\}/g, (mark, name: string) =>
    values[name] ? encodeURIComponent(values[name]) : mark,
  );
  const given = query.flatMap((name) => (values[name] ? [[name, values[name]]] : []));
  return given.length === 0 ? filled : `${filled}?${new URLSearchParams(given)}`;
}

/** A text for a shell, in single quotes. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

export function curlOf(request: SampleRequest): string {
  const { method, body, isPublic } = request;
  const lines = [
    `curl${method === 'GET' ? '' : ` -X ${method}`} ${quoted(location.origin + urlOf(request))}`,
    ...(isPublic ? [] : ['-H "Authorization: Bearer $TRUNKLINE_API_KEY"']),
    ...(body === null ? [] : ["-H 'Content-Type: application/json'", `-d ${quoted(body.replace(/\s*\n\s*/g, ' '))}`]),
  ];
  return lines.join(' \\\n  ');
}

/** `${name}`, in a template string. */
function placeholder(name: string): string {
  return `\${${name}}`;
}

export function typescriptOf({ method, path, values, query, body, isPublic }: SampleRequest): string {
  const url = path.replace(/\{(\w+)\}/g, (_, name: string) =>
    values[name] ? encodeURIComponent(values[name]) : placeholder(name),
  );
  const given = query.filter((name) => values[name]);
  const search = given.map((name) => `${JSON.stringify(name)}: ${JSON.stringify(values[name])}`).join(', ');
  const headers = [
    ...(isPublic ? [] : [`Authorization: \`Bearer ${placeholder('process.env.TRUNKLINE_API_KEY')}\``]),
    ...(body === null ? [] : ["'Content-Type': 'application/json'"]),
  ];
  const lines = [
    ...(method === 'GET' ? [] : [`  method: '${method}',`]),
    ...(headers.length === 0 ? [] : [`  headers: { ${headers.join(', ')} },`]),
    ...(body === null ? [] : [`  body: JSON.stringify(${body.replaceAll('\n', '\n  ')}),`]),
  ];
  return [
    ...(given.length === 0 ? [] : [`const query = new URLSearchParams({ ${search} });`]),
    `const response = await fetch(\`${location.origin}${url}${given.length === 0 ? '' : `?${placeholder('query')}`}\`, {`,
    ...lines,
    '});',
    'if (!response.ok) throw new Error((await response.json()).error);',
  ].join('\n');
}
