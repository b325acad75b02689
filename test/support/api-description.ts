import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

interface Content {
  schema: object;
}
interface OperationObject {
  operationId: string;
  responses: Record<string, { content?: Record<string, Content> }>;
}
export interface ApiDocument {
  paths: Record<string, Record<string, OperationObject>>;
  components: { schemas: Record<string, object> };
}

interface Answer {
  status: number;
  headers: Record<string, string | string[] | number | undefined>;
  body: unknown;
  text: string;
}

/** The served OpenAPI document as a judge of answers: each has a status, a content type and a body that the document gives. */
export class ApiDescription {
  /** `operationId status` of every answer that was judged. */
  readonly seen = new Set<string>();
  private readonly ajv = new Ajv2020({ strict: false, allErrors: true });
  private readonly validators = new Map<string, ValidateFunction>();
  private readonly operations: { method: string; pattern: RegExp; path: string; operation: OperationObject }[];

  constructor(document: ApiDocument) {
    (addFormats as unknown as typeof addFormats.default)(this.ajv);
    this.ajv.addSchema({ ...(closed(document) as object), $id: 'api' });
    this.operations = Object.entries(document.paths)
      .flatMap(([path, methods]) =>
        Object.entries(methods).map(([method, operation]) => ({
          method: method.toUpperCase(),
          path,
          pattern: new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`),
          operation,
        })),
      )
      // As the server does: a path without parameters goes first.
      .sort((a, b) => Number(a.path.includes('{')) - Number(b.path.includes('{')));
  }

  /** Throws one sentence that says what deviates. */
  expectDescribed(method: string, url: string, answer: Answer): void {
    const path = url.split('?')[0] ?? '';
    const found = this.operations.find((each) => each.method === method && each.pattern.test(path));
    const where = `${method} ${url} answered ${answer.status}`;
    if (!found) {
      // Twilio's paths answer in Twilio's shape
      if (method !== 'HEAD' && !path.startsWith('/2010-04-01/'))
        this.check(where, '#/components/schemas/Error', answer.body);
      return;
    }
    const { operation } = found;
    const response = operation.responses[answer.status];
    if (!response) throw new Error(`${where}, which is not described: ${answer.text.slice(0, 200)}`);
    this.seen.add(`${operation.operationId} ${answer.status}`);
    const type = String(answer.headers['content-type'] ?? '').split(';')[0] ?? '';
    if (!response.content) {
      if (answer.text !== '') throw new Error(`${where} with a body, which is not described`);
      return;
    }
    if (!response.content[type]) throw new Error(`${where} with content type "${type}", which is not described`);
    const pointer = ['paths', found.path, method.toLowerCase(), 'responses', answer.status, 'content', type, 'schema'];
    const escaped = pointer.map((part) => encodeURIComponent(String(part).replaceAll('~', '~0').replaceAll('/', '~1')));
    this.check(where, `#/${escaped.join('/')}`, type === 'application/json' ? answer.body : answer.text);
  }

  /** Throws when `value` is not what the schema at this place of the document says. */
  check(where: string, pointer: string, value: unknown): void {
    let validate = this.validators.get(pointer);
    if (!validate) {
      validate = this.ajv.compile({ $ref: `api${pointer}` });
      this.validators.set(pointer, validate);
    }
    if (validate(value)) return;
    throw new Error(`${where}, but ${this.ajv.errorsText(validate.errors)}: ${JSON.stringify(value)?.slice(0, 400)}`);
  }
}

/** The same schemas, where objects with known fields have no others unless the schema speaks of them. */
function closed(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(closed);
  if (typeof node !== 'object' || node === null) return node;
  const copy = Object.fromEntries(Object.entries(node).map(([name, part]) => [name, closed(part)])) as Record<
    string,
    unknown
  >;
  const isObjectSchema = copy.type === 'object' || (Array.isArray(copy.type) && copy.type.includes('object'));
  if (isObjectSchema && 'properties' in copy && !('additionalProperties' in copy)) copy.additionalProperties = false;
  return copy;
}
