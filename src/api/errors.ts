/** The one catalogue of errors: what the server answers, the OpenAPI description and the documentation are made from it. */
interface CatalogueEntry {
  status: number;
  /** The `error` text when the place that throws has nothing better to say. */
  message: string;
  /** When it happens; for the documentation. */
  when: string;
  /** `details` as they may be, for the documentation; absent: there are none. */
  details?: Record<string, unknown>;
}

const exampleId = '0198c0de-0000-7000-8000-000000000040';

export const errorCatalogue = {
  UNAUTHORIZED: {
    status: 401,
    message: 'A valid API key is required',
    when: 'The key is missing, malformed, revoked or unknown; or the token is not signed by the identity provider, expired, or not meant for us.',
  },
  FORBIDDEN: {
    status: 403,
    message: 'The key does not have this right',
    when: '`x-organization-id` names an organization the caller is not a member of, or the role of the caller does not allow the operation, or a good token names a user who is no member of any organization.',
  },
  CALLER_ID_NOT_ALLOWED: {
    status: 403,
    message: 'from_number is not a number of the organization',
    when: '`from_number` is not a phone number of the organization, in the mode of the key.',
  },
  DESTINATION_NOT_ALLOWED: {
    status: 403,
    message: 'Calls to this number are not allowed',
    when: "`to_number` begins with none of the organization's `allowed_prefixes`.",
  },
  NOT_FOUND: {
    status: 404,
    message: 'Not found',
    when: 'There is no such record, or it belongs to another organization or mode; or there is no such path.',
  },
  METHOD_NOT_ALLOWED: {
    status: 405,
    message: 'This path does not take that method',
    when: 'The path exists, but not with this method; the `Allow` header lists those it takes.',
  },
  VALIDATION_ERROR: {
    status: 400,
    message: 'The request is not valid',
    when: 'A query parameter, path parameter or body field is unknown, missing or malformed. `details.fields` lists each as `{path, message}`.',
    details: { fields: [{ path: 'limit', message: 'must be <= 100' }] },
  },
  INVALID_PHONE_NUMBER: {
    status: 400,
    message: 'The phone number must be E.164, like +15551234567',
    when: 'A number is not `+` and 7 to 15 digits, after spaces and ` -.()` are stripped. `details.field` and `details.value` say which.',
    details: { field: 'to_number', value: '555-1234' },
  },
  CALL_IN_PROGRESS: {
    status: 409,
    message: 'The call is still running',
    when: 'A running call cannot be deleted: hang it up first.',
    details: { call_id: exampleId },
  },
  CALL_ALREADY_ENDED: {
    status: 409,
    message: 'The call has ended',
    when: 'Keys or a transfer were asked of a call that is over.',
    details: { call_id: exampleId },
  },
  CALL_NOT_ANSWERED: {
    status: 409,
    message: 'The call is not answered yet',
    when: 'Keys or a transfer were asked of a call that nobody has answered.',
    details: { call_id: exampleId },
  },
  CALL_COMMAND_FAILED: {
    status: 409,
    message: 'The call could not do that',
    when: 'The call runs, but what was asked of it failed; `error` says why.',
    details: { call_id: exampleId },
  },
  NUMBER_TAKEN: {
    status: 409,
    message: 'The number is taken',
    when: 'The phone number exists already. `details.id` names the record when it is your own.',
    details: { id: exampleId },
  },
  ENDPOINT_INACTIVE: {
    status: 409,
    message: 'The endpoint is inactive',
    when: 'A call was asked for whose endpoint is inactive; `details.endpoint_id` names it.',
    details: { endpoint_id: exampleId },
  },
  MEMBER_EXISTS: {
    status: 409,
    message: 'The user is a member already',
    when: 'The user is a member of the organization already; `details.user_id` says who.',
    details: { user_id: exampleId },
  },
  LAST_OWNER: {
    status: 409,
    message: 'The last owner cannot be removed',
    when: 'An organization keeps at least one owner.',
  },
  IDEMPOTENCY_KEY_REUSED: {
    status: 409,
    message: 'This Idempotency-Key was used with another body',
    when: 'Within 24 hours the same `Idempotency-Key` came with a different body.',
  },
  IDEMPOTENCY_IN_PROGRESS: {
    status: 409,
    message: 'The first request with this Idempotency-Key is not answered yet',
    when: 'The same `Idempotency-Key` came again while its first request was still being received or carried out. `Retry-After` says when to ask again: then the answer of the first is given.',
  },
  INSUFFICIENT_BALANCE: {
    status: 402,
    message: 'The balance does not pay for this call; credits must be added',
    when: 'What is free of the balance does not pay for the first increment of the call. `details.balance` and `details.required` are cents.',
    details: { balance: 0.5, required: 2 },
  },
  SPEND_LIMIT_EXCEEDED: {
    status: 402,
    message: "The organization's spending of today is used up",
    when: "The call would pass the organization's `daily_spend_cents` (UTC day). `details.balance` is what is left of it, `details.required` what the call needs, in cents.",
    details: { balance: 0.5, required: 2 },
  },
  PAYLOAD_TOO_LARGE: {
    status: 413,
    message: 'The body is too large',
    when: 'The body is larger than the server reads (1 MiB of JSON).',
  },
  UNSUPPORTED_MEDIA_TYPE: {
    status: 415,
    message: 'The body must be JSON, with content-type application/json',
    when: 'The content type of the body is not one the operation reads.',
  },
  RANGE_NOT_SATISFIABLE: {
    status: 416,
    message: 'The file has nothing in that range',
    when: '`Range` begins behind the end of the file; `details.bytes` is its size.',
    details: { bytes: 640_044 },
  },
  MISSING_FILE: {
    status: 400,
    message: 'The form has no file',
    when: 'The form has no `file`, or an empty one.',
  },
  FILE_TOO_LARGE: {
    status: 413,
    message: 'The file is larger than 25 MB',
    when: 'The audio file is larger than 25,000,000 bytes.',
  },
  TRANSCRIPTION_FAILED: {
    status: 502,
    message: 'The transcription engine failed',
    when: 'The transcription engine refused the audio, failed, or took too long; `details.upstream_status` is what it answered.',
    details: { upstream_status: 500 },
  },
  TRANSCRIPTION_UNAVAILABLE: {
    status: 503,
    message:
      'No transcription engine is configured: set TRUNKLINE_TRANSCRIPTION_URL to an OpenAI-compatible server, and TRUNKLINE_TRANSCRIPTION_KEY if it needs one',
    when: 'The operator has set up no transcription engine.',
  },
  RATE_LIMIT_EXCEEDED: {
    status: 429,
    message: 'Too many requests',
    when: "The organization's requests of this second or this day are used up (`details.limited_by`), or an address without a valid key asked too often. `Retry-After` says when to come back.",
    details: { limited_by: 'second' },
  },
  CONCURRENCY_LIMIT_EXCEEDED: {
    status: 429,
    message: 'The organization has as many calls as it may have at once',
    when: 'As many calls of the organization run as `concurrent_calls` allows. `Retry-After` says when to ask again.',
  },
  CALLS_PER_SECOND_EXCEEDED: {
    status: 429,
    message: 'The organization may not start more calls in this second',
    when: 'More calls were started in one second than `calls_per_second` allows. `Retry-After` says when to ask again.',
    details: { limit: 5 },
  },
  NO_TRUNK_AVAILABLE: {
    status: 503,
    message: 'There is no trunk for outbound calls',
    when: 'No active trunk with a gateway can take the call. `Retry-After` says when to ask again.',
  },
  SHUTTING_DOWN: {
    status: 503,
    message: 'The server is shutting down',
    when: 'The server takes no new calls, because it is about to stop.',
  },
  SERVICE_UNAVAILABLE: {
    status: 503,
    message: 'The server cannot do this right now; try again shortly',
    when: 'The database is locked or full for the moment, a question over very many records takes longer than 10 s or too many of them are asked at once, all RTP ports are in use, or the call is run by another process of this installation. `Retry-After` says when to come back.',
  },
  INTERNAL_ERROR: {
    status: 500,
    message: 'Internal error',
    when: 'Anything else. The text of the fault stays in the log, under the `X-Request-Id` of the answer.',
  },
} as const satisfies Record<string, CatalogueEntry>;

export type ErrorCode = keyof typeof errorCatalogue;

/** An answer with this code, for the documentation. */
export function exampleOf(code: ErrorCode): object {
  const { message, details }: CatalogueEntry = errorCatalogue[code];
  return { error: message, code, ...(details && { details }) };
}

/** A wrong field of the request: `path` as in `provider_config.sample_rate`, empty for the whole. */
export interface FieldError {
  path: string;
  message: string;
}

/** An answer that is not a success. Thrown anywhere in a request, sent by the error handler. */
export class ApiError extends Error {
  readonly status: number;

  constructor(
    readonly code: ErrorCode,
    message: string = errorCatalogue[code].message,
    readonly details?: Record<string, unknown>,
    readonly headers: Record<string, string> = {},
  ) {
    super(message);
    this.name = 'ApiError';
    this.status = errorCatalogue[code].status;
  }

  body(): { error: string; code: ErrorCode; details?: Record<string, unknown> } {
    return { error: this.message, code: this.code, ...(this.details && { details: this.details }) };
  }
}

/** 400 with `details.fields`. */
export function invalid(...fields: FieldError[]): ApiError {
  const first = fields[0];
  const message = first ? `${first.path === '' ? 'The request' : first.path}: ${first.message}` : undefined;
  return new ApiError('VALIDATION_ERROR', message, { fields });
}

/** 404 in words that do not tell whether the record exists elsewhere. */
export function notFound(what: string): ApiError {
  return new ApiError('NOT_FOUND', `${what} not found`);
}
