import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Static, TSchema } from 'typebox';
import type { Access, Caller } from './caller.js';
import { type ErrorCode, errorCatalogue } from './errors.js';
import { Type } from './schemas/words.js';

/** One operation: what it is called, what it takes and answers, and what it does. The OpenAPI description is made from the same words. */
export interface Operation<P extends TSchema, Q extends TSchema, B extends TSchema> {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** With `:id` for parameters. */
  path: string;
  operationId: string;
  tag: string;
  summary: string;
  description: string;
  access: Access;
  unlimited?: boolean;
  params?: P;
  query?: Q;
  /** An absent body is `{}`. */
  body?: B;
  /** The success. `schema` null: no body. */
  answer: { status: number; description: string; schema: TSchema | null; contentType?: string };
  /** Besides those every operation has. */
  errors?: ErrorCode[];
  handle(input: Input<P, Q, B>): unknown;
}

export interface Input<P extends TSchema, Q extends TSchema, B extends TSchema> {
  params: Static<P>;
  query: Static<Q>;
  body: Static<B>;
  /** Throws on public operations, which have none. */
  caller: Caller;
  request: FastifyRequest;
  reply: FastifyReply;
}

/** An operation whose types have done their work. */
export type Route = Operation<TSchema, TSchema, TSchema>;

export function route<
  P extends TSchema = ReturnType<typeof Type.Object<Record<never, never>>>,
  Q extends TSchema = ReturnType<typeof Type.Object<Record<never, never>>>,
  B extends TSchema = ReturnType<typeof Type.Object<Record<never, never>>>,
>(operation: Operation<P, Q, B>): Route {
  return operation as unknown as Route;
}

const nothing = Type.Object({}, { additionalProperties: false });

export function register(app: FastifyInstance, operation: Route): void {
  const { method, path, access, answer, unlimited } = operation;
  const takesBody = method === 'POST' || method === 'PATCH';
  app.route({
    method,
    url: path,
    config: { access, unlimited },
    schema: {
      operationId: operation.operationId,
      tags: [operation.tag],
      summary: operation.summary,
      description: operation.description + roleSentence(access),
      ...(access === 'public' ? { security: [] } : { headers: organizationHeader }),
      ...(operation.params && { params: operation.params }),
      querystring: operation.query ?? nothing,
      ...(takesBody && { body: operation.body ?? nothing }),
      response: { [answer.status]: answerSchema(answer), ...errorAnswers(operation) },
    },
    // An absent body is an empty one; this runs before validation.
    preValidation: (request, _reply, done) => {
      if (takesBody && request.body === undefined) request.body = {};
      done();
    },
    handler: async (request, reply) => {
      const result = await operation.handle({
        params: request.params,
        query: request.query,
        body: request.body,
        get caller() {
          if (!request.caller) throw new Error('a public operation has no caller');
          return request.caller;
        },
        request,
        reply,
      });
      if (reply.sent) return reply;
      reply.code(answer.status);
      return answer.schema === null ? reply.send() : reply.send(result);
    },
  });
}

const organizationHeader = Type.Object({
  'x-organization-id': Type.Optional(
    Type.String({
      format: 'uuid',
      description:
        "The organization to act in. Absent: the caller's first organization, or the one the key is limited to.",
    }),
  ),
});

function roleSentence(access: Access): string {
  if (access === 'admin') return '\n\nNeeds the role `admin` or `owner`.';
  return access === 'owner' ? '\n\nNeeds the role `owner`.' : '';
}

function answerSchema(answer: Route['answer']) {
  const { description, schema, contentType } = answer;
  if (schema === null) return { description, type: 'null' };
  if (contentType) return { description, content: { [contentType]: { schema } } };
  return { description, content: { 'application/json': { schema } } };
}

/** One answer per status: the codes behind it, from the catalogue. */
function errorAnswers({ access, params, method, errors = [] }: Route) {
  const codes = new Set<ErrorCode>(['VALIDATION_ERROR', 'RATE_LIMIT_EXCEEDED', 'INTERNAL_ERROR', ...errors]);
  if (access !== 'public') {
    for (const code of ['UNAUTHORIZED', 'FORBIDDEN', 'SERVICE_UNAVAILABLE'] as const) codes.add(code);
  }
  if (params) codes.add('NOT_FOUND');
  if (method === 'POST' || method === 'PATCH') codes.add('PAYLOAD_TOO_LARGE').add('UNSUPPORTED_MEDIA_TYPE');
  const byStatus = new Map<number, string[]>();
  for (const code of codes) {
    const { status, when } = errorCatalogue[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), `\`${code}\`: ${when}`]);
  }
  return Object.fromEntries(
    [...byStatus].map(([status, lines]) => [
      status,
      { description: lines.join('\n\n'), content: { 'application/json': { schema: { $ref: 'Error#' } } } },
    ]),
  );
}
