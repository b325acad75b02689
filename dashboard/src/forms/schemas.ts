/** The schemas of request bodies, from the description that the server publishes. */
import { answerOf, api } from '../api/client';

export interface Schema {
  title?: string;
  type?: string | string[];
  format?: string;
  enum?: unknown[];
  description?: string;
  default?: unknown;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  items?: Schema;
  properties?: Record<string, Schema>;
  patternProperties?: Record<string, Schema>;
  additionalProperties?: boolean | Schema;
  required?: string[];
  $ref?: string;
  anyOf?: Schema[];
}
interface Description {
  paths: Record<string, Record<string, { requestBody?: { content: Record<string, { schema: Schema }> } }>>;
  components: { schemas: Record<string, Schema> };
}

let asked: Promise<Description> | null = null;
let known: Description | null = null;

export function description(): Promise<Description> {
  asked ??= answerOf(api.GET('/openapi.json')) as Promise<unknown> as Promise<Description>;
  asked.then(
    (document) => {
      known = document;
    },
    () => {
      asked = null; // the next form asks again
    },
  );
  return asked;
}

/** The schema of the body of an operation; an empty object if it has none. */
export async function bodySchema(method: string, path: string): Promise<Schema> {
  const { paths } = await description();
  return paths[path]?.[method]?.requestBody?.content['application/json']?.schema ?? {};
}

/** The settings of a provider, or of webhook endpoints. */
export async function configSchema(provider: string): Promise<Schema> {
  const { components } = await description();
  return components.schemas[`ProviderConfig_${provider}`] ?? {};
}

/** The provider's own name, once the description is there. */
export function providerTitle(provider: string): string | undefined {
  return known?.components.schemas[`ProviderConfig_${provider}`]?.title;
}

export function typeOf({ type, properties, patternProperties }: Schema): string {
  const known = [type ?? []].flat().find((each) => each !== 'null');
  return known ?? (properties || patternProperties ? 'object' : 'string');
}

export function isNullable({ type }: Schema): boolean {
  return Array.isArray(type) && type.includes('null');
}
