import { type TSchema, Type } from 'typebox';
import { patterns } from './patterns.js';

export { Type };

/** A schema of the value or null. */
export function nullable<T>(schema: TSchema & { type?: string; enum?: unknown[] }) {
  const { type, ...rest } = schema;
  return Type.Unsafe<T | null>({ ...rest, type: [type, 'null'], ...(rest.enum && { enum: [...rest.enum, null] }) });
}

/** A string enumeration. */
export function oneOf<const T extends string>(values: readonly T[], options: object = {}) {
  return Type.Unsafe<T>({ type: 'string', enum: [...values], ...options });
}

export function uuid(description: string) {
  return Type.String({ format: 'uuid', description });
}

export function time(description: string) {
  return Type.String({ format: 'date-time', description });
}

/** A reference to a schema in `components.schemas`. */
export function ref(name: string) {
  return Type.Unsafe<unknown>({ $ref: `${name}#` });
}

/** An object that rejects fields that are not listed. */
export function body<P extends Record<string, TSchema>>(properties: P, options: object = {}) {
  return Type.Object(properties, { additionalProperties: false, ...options });
}

/** An object with fields of any name. */
export function freeObject(description: string) {
  return Type.Unsafe<Record<string, unknown>>({ type: 'object', additionalProperties: true, description });
}

export const idParams = body({ id: uuid('The id of the record.') });

/** A name given to a record by its users. */
export const name = Type.String({
  minLength: 1,
  maxLength: 200,
  pattern: patterns.text,
  description: 'A name for display.',
});

export const activeStatus = oneOf(['active', 'inactive'], { description: 'Whether the record is in use.' });

export const sliceQuery = {
  limit: Type.Integer({
    minimum: 1,
    maximum: 100,
    default: 50,
    description: 'The maximum number of records to return.',
  }),
  offset: Type.Integer({ minimum: 0, default: 0, description: 'The number of newest records to skip.' }),
};

/** `{data, total, limit, offset}` */
export function listOf(record: string) {
  return Type.Object({
    data: Type.Array(ref(record), { description: 'Newest first.' }),
    total: Type.Integer({ description: 'The total number of records.' }),
    limit: Type.Integer({ description: 'The requested limit.' }),
    offset: Type.Integer({ description: 'The requested offset.' }),
  });
}

/** A UUID in lower case, as it is stored. null and undefined differ in a PATCH and are returned unchanged. */
export function lowerCase<T extends string | null | undefined>(id: T): T {
  return (typeof id === 'string' ? id.toLowerCase() : id) as T;
}
