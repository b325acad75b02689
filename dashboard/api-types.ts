/** Writes the TypeScript types of the client from an OpenAPI 3.1 description, in the form that openapi-fetch reads. */

interface JsonSchema {
  $ref?: string;
  type?: string | string[];
  const?: unknown;
  enum?: unknown[];
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
  items?: JsonSchema;
  properties?: Record<string, JsonSchema>;
  required?: string[];
  additionalProperties?: boolean | JsonSchema;
}
interface Content {
  content?: Record<string, { schema?: JsonSchema }>;
}
interface ApiOperation {
  parameters?: { name: string; in: string; required?: boolean; schema: JsonSchema }[];
  requestBody?: Content & { required?: boolean };
  responses: Record<string, Content>;
}
export interface ApiDescriptionDocument {
  paths: Record<string, Record<string, ApiOperation>>;
  components: { schemas: Record<string, JsonSchema> };
}

export function apiTypes({ paths, components }: ApiDescriptionDocument): string {
  const lines = [
    '/** The API as its OpenAPI description has it. Generated: npm run dashboard:types */',
    'export interface paths {',
    ...Object.entries(paths).flatMap(([path, methods]) => [
      `  ${JSON.stringify(path)}: {`,
      ...Object.entries(methods).map(([method, operation]) => `    ${method}: ${operationType(operation)};`),
      '  };',
    ]),
    '}',
    'export interface Schemas {',
    ...Object.entries(components.schemas).map(([name, schema]) => `  ${key(name)}: ${typeOf(schema)};`),
    '}',
  ];
  return `${lines.join('\n')}\n`;
}

function operationType({ parameters = [], requestBody, responses }: ApiOperation): string {
  const inPlace = (place: string) => {
    const some = parameters.filter((parameter) => parameter.in === place && parameter.name !== 'x-organization-id');
    const fields = some.map(({ name, required, schema }) => `${key(name)}${required ? '' : '?'}: ${typeOf(schema)}`);
    if (fields.length === 0) return `${place}?: never`;
    return `${place}${some.some(({ required }) => required) ? '' : '?'}: { ${fields.join('; ')} }`;
  };
  const parts = [`parameters: { ${['query', 'header', 'path'].map(inPlace).join('; ')}; cookie?: never }`];
  if (requestBody) {
    const required = Object.values(requestBody.content ?? {}).some(({ schema }) => (schema?.required ?? []).length > 0);
    parts.push(`requestBody${required ? '' : '?'}: { ${contentType(requestBody)} }`);
  }
  const answers = Object.entries(responses).map(
    ([status, answer]) => `${status}: { headers: {}; ${contentType(answer)} }`,
  );
  parts.push(`responses: { ${answers.join('; ')} }`);
  return `{ ${parts.join('; ')} }`;
}

function contentType({ content }: Content): string {
  const types = Object.entries(content ?? {}).map(([type, { schema }]) => `${JSON.stringify(type)}: ${typeOf(schema)}`);
  return types.length === 0 ? 'content?: never' : `content: { ${types.join('; ')} }`;
}

function typeOf(schema: JsonSchema | undefined): string {
  if (!schema) return 'unknown';
  if (schema.$ref) return `Schemas[${JSON.stringify(schema.$ref.split('/').at(-1))}]`;
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return choices.map(typeOf).join(' | ');
  const types = [schema.type ?? []].flat();
  if (types.length === 0) return 'unknown';
  return types.map((type) => ofType(type, schema)).join(' | ');
}

function ofType(type: string, schema: JsonSchema): string {
  if (type === 'integer') return 'number';
  if (type === 'array') return `Array<${typeOf(schema.items)}>`;
  if (type !== 'object') return type;
  const { properties = {}, required = [], additionalProperties } = schema;
  const fields = Object.entries(properties).map(
    ([name, field]) => `${key(name)}${required.includes(name) ? '' : '?'}: ${typeOf(field)}`,
  );
  const others = typeof additionalProperties === 'object' ? typeOf(additionalProperties) : 'unknown';
  if (fields.length === 0)
    return additionalProperties === false ? 'Record<string, never>' : `Record<string, ${others}>`;
  if (additionalProperties === true) fields.push('[more: string]: unknown');
  return `{ ${fields.join('; ')} }`;
}

function key(name: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name);
}
