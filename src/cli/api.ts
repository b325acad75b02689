/** The API client of the command line. */
import { DeadlineError, withDeadline } from '../../net/deadline.js';
import { CliFailure } from './failure.js';

type Query = Record<string, string | number | undefined>;

/** Every function rejects with `CliFailure`: `CODE: message`, or why the server cannot be reached. */
export interface Api {
  get<T>(path: string, query?: Query): Promise<T>;
  /** Returns a response that is not JSON, as text. */
  text(path: string, query?: Query): Promise<string>;
  post<T>(path: string, body: unknown): Promise<T>;
  patch<T>(path: string, body: unknown): Promise<T>;
  remove(path: string): Promise<void>;
}

export interface ListAnswer<T> {
  data: T[];
  total: number;
  limit: number;
  offset: number;
}

const answerTimeoutMs = 15_000;

/** `baseUrl` without `/v1`, `http://127.0.0.1:3000`. */
export function openApi(baseUrl: string, key: string): Api {
  /** Returns the text of the response. */
  async function ask(method: string, path: string, query: Query = {}, body?: unknown): Promise<string> {
    const url = new URL(`${baseUrl}/v1${path}`);
    for (const [name, value] of Object.entries(query))
      if (value !== undefined) url.searchParams.set(name, String(value));
    const headers: Record<string, string> = { authorization: `Bearer ${key}`, accept: 'application/json' };
    if (body !== undefined) headers['content-type'] = 'application/json';
    try {
      return await withDeadline(answerTimeoutMs, 'the answer', null, async (signal) => {
        const response = await fetch(url, {
          method,
          headers,
          body: body === undefined ? undefined : JSON.stringify(body),
          redirect: 'error',
          signal,
        });
        if (!response.ok) throw await refusal(response);
        return response.text();
      });
    } catch (error) {
      if (error instanceof CliFailure) throw error;
      throw new CliFailure(`Cannot reach ${baseUrl}: ${whyUnreachable(error)}`).as('SERVER_UNREACHABLE');
    }
  }
  async function json<T>(answer: Promise<string>): Promise<T> {
    const text = await answer;
    try {
      return JSON.parse(text) as T;
    } catch {
      throw new CliFailure(`${baseUrl} did not respond with JSON; is it a Trunkline server?`).as('NOT_A_TRUNKLINE');
    }
  }
  return {
    get: (path, query) => json(ask('GET', path, query)),
    text: (path, query) => ask('GET', path, query),
    post: (path, body) => json(ask('POST', path, {}, body)),
    patch: (path, body) => json(ask('PATCH', path, {}, body)),
    remove: async (path) => {
      await ask('DELETE', path);
    },
  };
}

function whyUnreachable(error: unknown): string {
  if (error instanceof DeadlineError) return `no response within ${answerTimeoutMs / 1000} s`;
  const cause = error instanceof Error ? error.cause : undefined;
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : undefined;
  if (code === 'ECONNREFUSED')
    return 'connection refused. Start the server (trunkline start), or give its address with --url.';
  return code ?? (cause instanceof Error ? cause.message : String(error));
}

/** `{error, code, details}` as lines; one for each of `details.fields` that the message does not name. */
async function refusal(response: Response): Promise<CliFailure> {
  const body = (await response.json().catch(() => null)) as {
    error?: unknown;
    code?: unknown;
    details?: { fields?: { path?: unknown; message?: unknown }[] };
  } | null;
  const code = typeof body?.code === 'string' ? body.code : `HTTP ${response.status}`;
  const message = typeof body?.error === 'string' ? body.error : response.statusText || 'no explanation';
  const fields = Array.isArray(body?.details?.fields) ? body.details.fields : [];
  const lines = fields.map((field) => `${field.path}: ${field.message}`).filter((line) => !message.includes(line));
  const failure = new CliFailure(`${code}: ${message}`, ...lines.map((line) => `  ${line}`));
  failure.message = message;
  return failure.as(typeof body?.code === 'string' ? body.code : `HTTP_${response.status}`, body?.details);
}
