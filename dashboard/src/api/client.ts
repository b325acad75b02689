/** The client of the public API, typed by its OpenAPI description. */
import createClient from 'openapi-fetch';
import type { paths } from './description';
import { authorization, endSession } from './session';

/** A refusal of the API, with its sentence and what it names. */
export class ApiProblem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly fields: { path: string; message: string }[] = [],
  ) {
    super(message);
    this.name = 'ApiProblem';
  }
}

const mostTries = 4;
const longestWaitSec = 5;

/** Repeats a reading request that was one too many for the rate limit. */
async function patientFetch(request: Request): Promise<Response> {
  for (let tries = 1; ; tries += 1) {
    const response = await fetch(request.clone());
    const waitSec = Number(response.headers.get('retry-after') ?? 1);
    if (response.status !== 429 || request.method !== 'GET' || tries === mostTries || waitSec > longestWaitSec)
      return response;
    await new Promise((resolve) => setTimeout(resolve, Math.max(0.2, waitSec) * 1000));
  }
}

export const api = createClient<paths>({ baseUrl: location.origin, fetch: patientFetch });
api.use({
  onRequest({ request }) {
    for (const [name, value] of Object.entries(authorization())) request.headers.set(name, value);
    return request;
  },
});

interface Answered<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** The body of a successful answer. Throws `ApiProblem`; a session that ended returns to the sign-in. */
export async function answerOf<T>(asked: Promise<Answered<T>>): Promise<T> {
  let answered: Answered<T>;
  try {
    answered = await asked;
  } catch (error) {
    if ((error as Error).name === 'AbortError') throw error;
    throw new ApiProblem(
      0,
      'UNREACHABLE',
      'The server does not answer. Check that it runs and that this device is online.',
    );
  }
  const { data, error, response } = answered;
  if (response.ok) return data as T;
  throw problemOf(response, error);
}

export function problemOf(response: Response, body: unknown): ApiProblem {
  const { error, code, details } = (body ?? {}) as {
    error?: string;
    code?: string;
    details?: { fields?: { path: string; message: string }[] };
  };
  if (response.status === 401 && !response.url.includes('/sign-in')) endSession();
  return new ApiProblem(
    response.status,
    code ?? 'UNKNOWN',
    error ?? `The server answered ${response.status}.`,
    details?.fields ?? [],
  );
}

/** A request outside the typed client: files and streams. Throws `ApiProblem`. */
export async function rawFetch(path: string, init: RequestInit = {}): Promise<Response> {
  const response = await fetch(path, { ...init, headers: { ...init.headers, ...authorization() } });
  if (response.ok) return response;
  throw problemOf(response, await response.json().catch(() => null));
}

/** Saves an answer of the API as a file of this device. */
export async function download(path: string, fileName: string): Promise<void> {
  const response = await rawFetch(path);
  const url = URL.createObjectURL(await response.blob());
  const link = document.createElement('a');
  link.href = url;
  link.download = fileName;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1_000);
}
