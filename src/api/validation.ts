import type { FastifySchemaCompiler, FastifySchemaValidationError } from 'fastify';
import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import type { FieldError } from './errors.js';
import { patternRule } from './schemas/patterns.js';

/** No valid request is nested deeper; deeper nesting could overflow the stack of code that traverses it. */
const maxDepth = 32;

interface ObjectSchema {
  properties?: Record<string, { type?: string; default?: unknown }>;
}

/**
 * Validates requests with TypeBox. Query and path parameters are text: integers and booleans are parsed strictly (`1.5`, `1e3` and `yes`
 * are rejected). Bodies are never converted. Absent fields get their defaults.
 */
export const validatorCompiler: FastifySchemaCompiler<unknown> = ({ schema, httpPart }) => {
  const check = Compile(schema as TSchema);
  const properties = Object.entries((schema as ObjectSchema).properties ?? {});
  return (value: unknown) => {
    if (httpPart === 'headers') return { value };
    if (httpPart === 'body' && depthOver(value, maxDepth)) {
      return { error: [problem('', `must not be nested deeper than ${maxDepth} levels`)] };
    }
    if (isObject(value)) {
      for (const [name, property] of properties) {
        if (!Object.hasOwn(value, name)) {
          if (property.default !== undefined) value[name] = property.default;
        } else if (httpPart !== 'body') value[name] = fromText(value[name], property.type);
      }
    }
    return check.Check(value) ? { value } : { error: check.Errors(value) as FastifySchemaValidationError[] };
  };
};

/** Converts validator errors to API errors: the first of each field. */
export function fieldErrors(errors: readonly FastifySchemaValidationError[]): FieldError[] {
  const all = errors.flatMap((error): FieldError[] => {
    const at = error.instancePath.split('/').slice(1).map(unescapePointer);
    const { requiredProperties, additionalProperties } = error.params as Record<string, string[] | undefined>;
    const inside = (names: string[], message: string) =>
      names.map((name) => ({ path: [...at, name].join('.'), message }));
    if (error.keyword === 'required' && requiredProperties) return inside(requiredProperties, 'is required');
    if (error.keyword === 'additionalProperties' && additionalProperties) {
      return inside(additionalProperties, 'is not a known field');
    }
    // A field that no schema allows. Of many unknown fields the validator reports only the first few, in this form.
    if (error.keyword === 'boolean') return [{ path: at.join('.'), message: 'is not a known field' }];
    return [{ path: at.join('.'), message: sentenceOf(error) }];
  });
  return all.filter(({ path }, index) => all.findIndex((other) => other.path === path) === index);
}

const formats: Record<string, string> = {
  uuid: 'must be a UUID, like 0198c0de-0000-7000-8000-000000000000',
  date: 'must be a date, like 2026-01-31',
  'date-time': 'must be a time, like 2026-01-31T08:30:00.000Z',
};
const types: Record<string, string> = {
  string: 'a string',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
  null: 'null',
};

/** A sentence that says what is allowed; JSON Schema's message where it suffices. */
function sentenceOf({ keyword, params, message = 'is not valid' }: FastifySchemaValidationError): string {
  const { allowedValues, format, pattern, type, limit } = params as {
    allowedValues?: readonly unknown[];
    format?: string;
    pattern?: string | RegExp;
    type?: string | string[];
    limit?: number;
  };
  switch (keyword) {
    case 'enum':
      return `must be one of ${(allowedValues ?? []).map((value) => String(value)).join(', ')}`;
    case 'format':
      return formats[format ?? ''] ?? message;
    case 'pattern':
      return patternRule(typeof pattern === 'object' ? pattern.source : (pattern ?? '')) ?? message;
    case 'type':
      return `must be ${[type ?? []]
        .flat()
        .map((name) => types[name] ?? name)
        .join(' or ')}`;
    case 'minLength':
      return `must have at least ${limit} character${limit === 1 ? '' : 's'}`;
    case 'maxLength':
      return `must have at most ${limit} characters`;
    case 'minItems':
      return `must have at least ${limit} item${limit === 1 ? '' : 's'}`;
    case 'maxItems':
      return `must have at most ${limit} items`;
    case 'minimum':
      return `must be at least ${limit}`;
    case 'maximum':
      return `must be at most ${limit}`;
    default:
      return message;
  }
}

function problem(instancePath: string, message: string): FastifySchemaValidationError {
  return { instancePath, message, keyword: 'custom', schemaPath: '', params: {} };
}

function fromText(value: unknown, type: string | undefined): unknown {
  if (typeof value !== 'string') return value;
  if (type === 'integer' && /^-?\d{1,15}$/.test(value)) return Number(value);
  if (type === 'boolean' && (value === 'true' || value === 'false')) return value === 'true';
  return value;
}

/** Iterates level by level, because recursion could overflow the stack. */
function depthOver(value: unknown, limit: number): boolean {
  let level = [value];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > limit) return true;
    level = level.flatMap((item) => (typeof item === 'object' && item !== null ? Object.values(item) : []));
  }
  return false;
}

function unescapePointer(part: string): string {
  return part.replaceAll('~1', '/').replaceAll('~0', '~');
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
