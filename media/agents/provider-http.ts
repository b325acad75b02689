/** The REST requests that some providers need before their WebSocket is opened. */
import { createSafeHttp, HttpError } from '../../net/http.js';
import { AgentFailure, type RestRequest } from './agent.js';

const maxBodyBytes = 1024 * 1024;
const safe = createSafeHttp({ allowPrivate: false });
const open = createSafeHttp({ allowPrivate: true });

/** The body of a 2xx answer. Rejects with `AgentFailure`, which contains nothing of the body or the URL, since both hold secrets. */
export async function askProvider(
  request: RestRequest,
  allowPrivateAddress: boolean,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<string> {
  try {
    const http = allowPrivateAddress ? open : safe;
    const { status, body } = await http.request({ ...request, timeoutMs, maxBodyBytes }, signal);
    if (status >= 200 && status < 300) return body.toString();
    const unauthorized = status === 401 || status === 403;
    const passing = status === 429 || status >= 500;
    const message = `The provider answered the request for a call with status ${status}.`;
    throw new AgentFailure(unauthorized ? 'unauthorized' : 'refused', message, passing);
  } catch (error) {
    if (error instanceof HttpError) throw failureOf(error);
    throw error;
  }
}

function failureOf({ code }: HttpError): AgentFailure {
  switch (code) {
    case 'blocked_address':
      return new AgentFailure(
        'blocked_address',
        "The provider's address is private, loopback, link-local or reserved.",
        false,
      );
    case 'timeout':
      return new AgentFailure('timeout', 'The provider did not answer the request for a call.', true);
    case 'aborted':
      return new AgentFailure('aborted', 'Connecting to the agent was aborted.', false);
    case 'connect':
    case 'broken':
      return new AgentFailure('refused', 'The provider could not be reached for a call.', true);
    default:
      return new AgentFailure('protocol', 'The provider gave an answer that cannot be used.', false);
  }
}
