/** The catalogue of errors; error responses, the OpenAPI description and the documentation are generated from it. */
interface CatalogueEntry {
  status: number;
  /** The default `error` text. */
  message: string;
  /** When the error occurs; for the documentation. */
  when: string;
  /** An example of `details`, for the documentation; absent if the error has none. */
  details?: Record<string, unknown>;
}

const exampleId = '0198c0de-0000-7000-8000-000000000040';

export const errorCatalogue = {
  UNAUTHORIZED: {
    status: 401,
    message: 'A valid API key is required',
    when: 'The API key is missing, malformed, revoked or unknown; or the token is not signed by the identity provider, has expired, or has another audience.',
  },
  FORBIDDEN: {
    status: 403,
    message: 'The caller does not have permission for this',
    when: '`x-organization-id` names an organization the caller is not a member of; the role of the caller does not allow the operation; or the user of a valid token is not a member of any organization.',
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
    when: 'The record does not exist, or belongs to another organization or mode; or the path does not exist.',
  },
  METHOD_NOT_ALLOWED: {
    status: 405,
    message: 'The method is not allowed for this path',
    when: 'The path does not support the method; the `Allow` header lists the supported methods.',
  },
  VALIDATION_ERROR: {
    status: 400,
    message: 'The request is not valid',
    when: 'A query parameter, path parameter or body field is unknown, missing or malformed. `details.fields` lists each error as `{path, message}`.',
    details: { fields: [{ path: 'limit', message: 'must be <= 100' }] },
  },
  INVALID_PHONE_NUMBER: {
    status: 400,
    message: 'The phone number must be E.164, such as +15551234567',
    when: 'A number is not `+` and 7 to 15 digits after spaces and `-.()` are stripped, or an address is not `client:` and a name, or a SIP address that may be called. `details.field` and `details.value` name it.',
    details: { field: 'to_number', value: '555-1234' },
  },
  CALL_IN_PROGRESS: {
    status: 409,
    message: 'The call is still running',
    when: 'A running call cannot be deleted. Hang it up first.',
    details: { call_id: exampleId },
  },
  CALL_ALREADY_ENDED: {
    status: 409,
    message: 'The call has ended',
    when: 'A command, such as keys or a transfer, was sent to a call that has ended.',
    details: { call_id: exampleId },
  },
  CALL_NOT_ANSWERED: {
    status: 409,
    message: 'The call is not answered yet',
    when: 'A command, such as keys or a transfer, was sent to a call that has not been answered.',
    details: { call_id: exampleId },
  },
  CALL_COMMAND_FAILED: {
    status: 409,
    message: 'The command failed',
    when: 'The call is in progress, but the command failed; `error` states the reason.',
    details: { call_id: exampleId },
  },
  NUMBER_TAKEN: {
    status: 409,
    message: 'The number is taken',
    when: 'The phone number already exists. `details.id` is the id of the record if it is your own.',
    details: { id: exampleId },
  },
  ENDPOINT_INACTIVE: {
    status: 409,
    message: 'The endpoint is inactive',
    when: 'The endpoint of the requested call is inactive; `details.endpoint_id` is its id.',
    details: { endpoint_id: exampleId },
  },
  MEMBER_EXISTS: {
    status: 409,
    message: 'The user is already a member',
    when: 'The user is already a member of the organization; `details.user_id` is the id of the user.',
    details: { user_id: exampleId },
  },
  LAST_OWNER: {
    status: 409,
    message: 'The last owner cannot be removed',
    when: 'The request would remove the last owner; an organization must have at least one.',
  },
  IDEMPOTENCY_KEY_REUSED: {
    status: 409,
    message: 'This Idempotency-Key was used with another body',
    when: 'The same `Idempotency-Key` was received with a different body within 24 hours.',
  },
  IDEMPOTENCY_IN_PROGRESS: {
    status: 409,
    message: 'The first request with this Idempotency-Key is still in progress',
    when: 'The same `Idempotency-Key` was received while the first request with it was still in progress. `Retry-After` says when to retry; the retry gets the response of the first request.',
  },
  INSUFFICIENT_BALANCE: {
    status: 402,
    message: 'The balance does not cover this call; add credits',
    when: 'The available balance does not cover the first increment of the call. `details.balance` and `details.required` are in cents.',
    details: { balance: 0.5, required: 2 },
  },
  SPEND_LIMIT_EXCEEDED: {
    status: 402,
    message: "The organization's daily spending limit is reached",
    when: "The call would exceed the organization's `daily_spend_cents` (UTC day). `details.balance` is the remaining amount, `details.required` the amount the call requires, in cents.",
    details: { balance: 0.5, required: 2 },
  },
  PAYLOAD_TOO_LARGE: {
    status: 413,
    message: 'The body is too large',
    when: 'The body is larger than the limit (1 MiB of JSON).',
  },
  UNSUPPORTED_MEDIA_TYPE: {
    status: 415,
    message: 'The body must be JSON, with content-type application/json',
    when: 'The operation does not support the content type of the body.',
  },
  RANGE_NOT_SATISFIABLE: {
    status: 416,
    message: 'The range is outside the file',
    when: '`Range` begins after the end of the file; `details.bytes` is the size of the file.',
    details: { bytes: 640_044 },
  },
  MISSING_FILE: {
    status: 400,
    message: 'The form has no file',
    when: 'The form has no `file`, or the file is empty.',
  },
  FILE_TOO_LARGE: {
    status: 413,
    message: 'The file is larger than 25 MB',
    when: 'The audio file is larger than 25,000,000 bytes.',
  },
  TRANSCRIPTION_FAILED: {
    status: 502,
    message: 'The transcription engine failed',
    when: 'The transcription engine rejected the audio, failed, or timed out; `details.upstream_status` is the HTTP status of its response.',
    details: { upstream_status: 500 },
  },
  TRANSCRIPTION_UNAVAILABLE: {
    status: 503,
    message:
      'There is no transcription engine: run `npx trunkline setup speech` for offline recognition of English, or set TRUNKLINE_TRANSCRIPTION_URL to a server with the interface of OpenAI (and TRUNKLINE_TRANSCRIPTION_KEY if it needs one)',
    when: 'The operator has neither installed the offline recognition nor configured a transcription server.',
  },
  TRANSLATION_UNAVAILABLE: {
    status: 503,
    message:
      'There is no server for translations: set TRUNKLINE_TRANSLATION_URL to a server with the interface of OpenAI (/chat/completions), and TRUNKLINE_TRANSLATION_KEY if it needs one',
    when: 'A text in another language than English was asked for, and the operator has configured neither `translation_url` nor `transcription_url`.',
  },
  RATE_LIMIT_EXCEEDED: {
    status: 429,
    message: 'Too many requests',
    when: 'The request limit of the organization per second or per day is reached (`details.limited_by`), or an address without a valid key sent too many requests. `Retry-After` says when to retry.',
    details: { limited_by: 'second' },
  },
  CONCURRENCY_LIMIT_EXCEEDED: {
    status: 429,
    message: 'The organization has reached its limit of concurrent calls',
    when: 'The organization has as many running calls as `concurrent_calls` allows. `Retry-After` says when to retry.',
  },
  CALLS_PER_SECOND_EXCEEDED: {
    status: 429,
    message: 'The organization has reached its limit of new calls per second',
    when: 'More calls were started in one second than `calls_per_second` allows. `Retry-After` says when to retry.',
    details: { limit: 5 },
  },
  NO_TRUNK_AVAILABLE: {
    status: 503,
    message: 'No trunk is available for outbound calls',
    when: 'No active trunk with a gateway can accept the call. `Retry-After` says when to retry.',
  },
  SHUTTING_DOWN: {
    status: 503,
    message: 'The server is shutting down',
    when: 'The server accepts no new calls because it is shutting down.',
  },
  SERVICE_UNAVAILABLE: {
    status: 503,
    message: 'The service is temporarily unavailable; try again shortly',
    when: 'The database is temporarily locked or full, a query over very many records takes longer than 10 s or too many such queries run at once, all RTP ports are in use, or another process of this installation runs the call. `Retry-After` says when to retry.',
  },
  INTERNAL_ERROR: {
    status: 500,
    message: 'Internal error',
    when: 'An unexpected error. Its text is in the log only, under the `X-Request-Id` of the response.',
  },
} as const satisfies Record<string, CatalogueEntry>;

export type ErrorCode = keyof typeof errorCatalogue;

/** An example response with this code, for the documentation. */
export function exampleOf(code: ErrorCode): object {
  const { message, details }: CatalogueEntry = errorCatalogue[code];
  return { error: message, code, ...(details && { details }) };
}

/** An invalid field of the request: `path` such as `provider_config.sample_rate`, empty for the whole request. */
export interface FieldError {
  path: string;
  message: string;
}

/** An error response. Thrown anywhere in a request, sent by the error handler. */
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

/** 404 with a text that does not reveal whether the record exists in another organization. */
export function notFound(what: string): ApiError {
  return new ApiError('NOT_FOUND', `${what} not found`);
}
