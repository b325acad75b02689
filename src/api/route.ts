import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Static, TSchema } from 'typebox';
import type { Transaction } from '../store/database/database.js';
import type { Store } from '../store/store.js';
import type { Access, Caller } from './auth/caller.js';
import { type ErrorCode, errorCatalogue, exampleOf } from './errors.js';
import { askedBy, createOnce, idempotencyKey, KeysInFlight } from './request/idempotency.js';
import { Type } from './schemas/types.js';
import { validatorCompiler } from './validation.js';

/** One operation: its name, parameters, responses and handler. The OpenAPI description is generated from it. */
export interface Operation<P extends TSchema, Q extends TSchema, B extends TSchema> {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** The path, with parameters as `:id`. */
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
  /** Instead of `body`: a form (multipart/form-data) that the operation parses itself. */
  form?: TSchema;
  /**
   * The success response. `schema` null: no body. `alsoAs`: further content types, each as text or bytes. `shownOnce`: fields that hold a secret
   * that later responses do not contain.
   */
  answer: {
    status: number;
    description: string;
    schema: TSchema | null;
    contentType?: string;
    alsoAs?: readonly string[];
    shownOnce?: readonly string[];
  };
  /** Descriptions of other responses that are not errors, with the content of `answer`. */
  alsoAnswers?: Record<number, string>;
  /** A `signature` in the query authorizes a request without a key; the operation verifies it. */
  signedLink?: boolean;
  /** A short-lived `token` in the query, of `POST /v1/events/token`, can replace the key. */
  eventToken?: boolean;
  /** The errors in addition to those of every operation. */
  errors?: ErrorCode[];
  /** Where it creates (201), it does so within `input.within`, and waits for nothing else: with an `Idempotency-Key` that is a transaction. */
  handle(input: Input<P, Q, B>): unknown;
}

export interface Input<P extends TSchema, Q extends TSchema, B extends TSchema> {
  params: Static<P>;
  query: Static<Q>;
  body: Static<B>;
  /** Throws on public operations, which have no caller. */
  caller: Caller;
  request: FastifyRequest;
  reply: FastifyReply;
  /** Registers work to run after the transaction is committed, before the response. */
  afterwards(work: Afterwards): void;
  /** The transaction in which a creating operation (201) writes, and what it reads of it; undefined: it opens its own. */
  readonly within: Transaction | undefined;
}

/** Done once the records of an operation are committed, before its response. */
export type Afterwards = () => void | Promise<void>;

/** An operation with its type parameters erased. */
export type Route = Operation<TSchema, TSchema, TSchema>;

export function route<
  P extends TSchema = ReturnType<typeof Type.Object<Record<never, never>>>,
  Q extends TSchema = ReturnType<typeof Type.Object<Record<never, never>>>,
  B extends TSchema = ReturnType<typeof Type.Object<Record<never, never>>>,
>(operation: Operation<P, Q, B>): Route {
  return operation as unknown as Route;
}

/** The limit of a form: the largest file plus its other fields. */
const formLimitBytes = 26_000_000;

/** Skips validation of a form's body, which the operation parses; validates the other parts. */
const formValidator: typeof validatorCompiler = (route) =>
  route.httpPart === 'body' ? () => true : validatorCompiler(route);

const nothing = Type.Object({}, { additionalProperties: false });

export function register(app: FastifyInstance, operation: Route, store: Store): void {
  const { method, path, access, answer, unlimited } = operation;
  const takesBody = method === 'POST' || method === 'PUT' || method === 'PATCH';
  const creates = method === 'POST' && answer.status === 201;
  const inFlight = new KeysInFlight();
  app.route({
    method,
    url: path,
    config: { access, unlimited, signedLink: operation.signedLink, eventToken: operation.eventToken },
    schema: {
      operationId: operation.operationId,
      tags: [operation.tag],
      summary: operation.summary,
      description: operation.description + roleSentence(access),
      ...(access === 'public' ? { security: [] } : { headers: creates ? creatingHeaders : commonHeaders }),
      ...(operation.params && { params: operation.params }),
      querystring: operation.query ?? nothing,
      ...(takesBody && { body: operation.form ?? operation.body ?? nothing }),
      ...(operation.form && { consumes: ['multipart/form-data'] }),
      response: {
        [answer.status]: answerSchema(answer),
        ...Object.fromEntries(
          Object.entries(operation.alsoAnswers ?? {}).map(([status, description]) => [
            status,
            answerSchema({ ...answer, description }),
          ]),
        ),
        ...errorAnswers(operation),
      },
    },
    ...(operation.form && { validatorCompiler: formValidator, bodyLimit: formLimitBytes }),
    // Runs after the hook of all routes, which sets the caller.
    ...(creates && {
      onRequest: (request: FastifyRequest, reply: FastifyReply, done: () => void) => {
        inFlight.note(request, reply);
        done();
      },
    }),
    // An absent body is treated as an empty object, before validation.
    ...(takesBody && {
      preValidation: (request: FastifyRequest, _reply: FastifyReply, done: () => void) => {
        if (request.body === undefined) request.body = {};
        done();
      },
    }),
    handler: (request, reply) => {
      const { caller } = request;
      const afterwards: Afterwards[] = [];
      const key = creates ? idempotencyKey(request) : undefined;
      if (caller && key !== undefined) {
        inFlight.requireFirst(request);
        const { status, shownOnce = [] } = answer;
        const by = askedBy(caller, path, request.params);
        return createOnce(store, { by, key, body: request.body, status, shownOnce, reply }, (within) =>
          operation.handle(new RequestInput(request, reply, afterwards, within)),
        ).then(async (text) => {
          for (const work of afterwards) await work();
          return reply.code(status).type('application/json; charset=utf-8').serializer(String).send(text);
        });
      }
      const answered = (result: unknown): void => {
        if (reply.sent || reply.raw.headersSent) return; // a stream that the client left early is not `sent`
        reply.code(answer.status);
        if (answer.schema === null) reply.send();
        else reply.send(result);
      };
      const result = operation.handle(new RequestInput(request, reply, afterwards, undefined));
      // Return a promise for asynchronous handlers only: Fastify would otherwise listen for the end of every reply.
      if (!(result instanceof Promise)) {
        answered(result);
        return;
      }
      return result.then(async (value) => {
        for (const work of afterwards) await work();
        answered(value);
        return reply;
      });
    },
  });
}

/** A class, because creating an object with its own getter per request is slow. */
class RequestInput implements Input<TSchema, TSchema, TSchema> {
  readonly params: unknown;
  readonly query: unknown;
  readonly body: unknown;

  constructor(
    readonly request: FastifyRequest,
    readonly reply: FastifyReply,
    private readonly works: Afterwards[],
    readonly within: Transaction | undefined,
  ) {
    this.params = request.params;
    this.query = request.query;
    this.body = request.body;
  }

  get caller(): Caller {
    const { caller } = this.request;
    if (!caller) throw new Error('a public operation has no caller');
    return caller;
  }

  readonly afterwards = (work: Afterwards): void => {
    this.works.push(work);
  };
}

const organizationHeader = Type.Optional(
  Type.String({
    format: 'uuid',
    description:
      "The organization to act in. Default: the organization the key is limited to, else the caller's first organization.",
  }),
);
const commonHeaders = Type.Object({ 'x-organization-id': organizationHeader });
const creatingHeaders = Type.Object({
  'x-organization-id': organizationHeader,
  'idempotency-key': Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 255,
      description:
        'A unique text, such as a UUID. For 24 hours, a request repeated with the same key is executed once and gets the same response (`Idempotent-Replayed: true`). The key is scoped to the API key that sent it (with a token, to the user). A secret that is shown once is in the first response only.',
    }),
  ),
});

function roleSentence(access: Access): string {
  if (access === 'admin') return '\n\nRequires the role `admin` or `owner`.';
  return access === 'owner' ? '\n\nRequires the role `owner`.' : '';
}

function answerSchema(answer: Route['answer']) {
  const { description, schema, contentType = 'application/json', alsoAs = [] } = answer;
  if (schema === null) return { description, type: 'null' };
  const others = alsoAs.map((type) => [type, { schema: Type.String() }]);
  return { description, content: { [contentType]: { schema }, ...Object.fromEntries(others) } };
}

/** One response per status, with its error codes from the catalogue. */
function errorAnswers({ access, answer, params, method, errors = [] }: Route) {
  const codes = new Set<ErrorCode>(['VALIDATION_ERROR', 'RATE_LIMIT_EXCEEDED', 'INTERNAL_ERROR', ...errors]);
  if (access !== 'public') {
    for (const code of ['UNAUTHORIZED', 'FORBIDDEN', 'SERVICE_UNAVAILABLE'] as const) codes.add(code);
  }
  if (params) codes.add('NOT_FOUND');
  if (method === 'POST' && answer.status === 201 && access !== 'public')
    codes.add('IDEMPOTENCY_KEY_REUSED').add('IDEMPOTENCY_IN_PROGRESS');
  if (method === 'POST' || method === 'PUT' || method === 'PATCH')
    codes.add('PAYLOAD_TOO_LARGE').add('UNSUPPORTED_MEDIA_TYPE');
  const byStatus = new Map<number, string[]>();
  for (const code of codes) {
    const { status, when } = errorCatalogue[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), `\`${code}\`: ${when}`]);
  }
  return Object.fromEntries(
    [...byStatus].map(([status, lines]) => [
      status,
      {
        description: lines.join('\n\n'),
        content: { 'application/json': { schema: { $ref: 'Error#' }, examples: errorExamples(codes, Number(status)) } },
      },
    ]),
  );
}

/** One example for each code of this status, by its name. */
function errorExamples(codes: ReadonlySet<ErrorCode>, status: number): Record<string, { value: object }> {
  const ofStatus = [...codes].filter((code) => errorCatalogue[code].status === status);
  return Object.fromEntries(ofStatus.map((code) => [code, { value: exampleOf(code) }]));
}
