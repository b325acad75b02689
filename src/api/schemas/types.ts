import { type TSchema, Type } from 'typebox';

export { Type };

/** The value or null. */
export function nullable<T>(schema: TSchema & { type?: string; enum?: unknown[] }) {
  const { type, ...rest } = schema;
  return Type.Unsafe<T | null>({ ...rest, type: [type, 'null'], ...(rest.enum && { enum: [...rest.enum, null] }) });
}

/** One of these words. */
export function oneOf<const T extends string>(values: readonly T[], options: object = {}) {
  return Type.Unsafe<T>({ type: 'string', enum: [...values], ...options });
}

export function uuid(description: string) {
  return Type.String({ format: 'uuid', description });
}

export function time(description: string) {
  return Type.String({ format: 'date-time', description });
}

/** A schema of the list in `components.schemas`. */
export function ref(name: string) {
  return Type.Unsafe<unknown>({ $ref: `${name}#` });
}

/** A body: fields that are not listed are refused. */
export function body<P extends Record<string, TSchema>>(properties: P, options: object = {}) {
  return Type.Object(properties, { additionalProperties: false, ...options });
}

/** An object with fields of any name. */
export function freeObject(description: string) {
  return Type.Unsafe<Record<string, unknown>>({ type: 'object', additionalProperties: true, description });
}

export const idParams = body({ id: uuid('The id of the record.') });

/** A name people give to a record. */
export const name = Type.String({
  minLength: 1,
  maxLength: 200,
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is refused
  pattern: /^[^\u0000-\u001f\u007f]+$/.source,
  description: 'A name for people.',
});

export const activeStatus = oneOf(['active', 'inactive'], { description: 'Whether it is in use.' });

export const sliceQuery = {
  limit: Type.Integer({ minimum: 1, maximum: 100, default: 50, description: 'How many records to answer.' }),
  offset: Type.Integer({ minimum: 0, default: 0, description: 'How many of the newest records to leave out.' }),
};

/** `{data, total, limit, offset}` */
export function listOf(record: string) {
  return Type.Object({
    data: Type.Array(ref(record), { description: 'Newest first.' }),
    total: Type.Integer({ description: 'How many there are in all.' }),
    limit: Type.Integer({ description: 'As asked.' }),
    offset: Type.Integer({ description: 'As asked.' }),
  });
}

/** A uuid as it is stored: people write them in both cases. null and undefined mean different things in a PATCH and stay what they are. */
export function lowerCase<T extends string | null | undefined>(id: T): T {
  return (typeof id === 'string' ? id.toLowerCase() : id) as T;
}
