/** Maps errors of `ws`, TCP, TLS and DNS to `AgentFailure`. */
import { BlockedAddressError } from '../../../net/safe-lookup.js';
import { AgentConfigError, AgentFailure } from '../agent.js';

/** The answer to the upgrade request had a status other than 101. Redirects are not followed. */
export function refusedUpgrade(status: number): AgentFailure {
  const unauthorized = status === 401 || status === 403;
  const message = `The agent answered the WebSocket upgrade with status ${status}.`;
  return new AgentFailure(unauthorized ? 'unauthorized' : 'refused', message, !unauthorized);
}

/** The status of the response to an HTTP/2 request; `type`: the service's name of the error, if it has one. */
export function refusedRequest(status: number, type: unknown): AgentFailure {
  const unauthorized = status === 401 || status === 403;
  const name = typeof type === 'string' ? /^[A-Za-z]{1,64}/.exec(type)?.[0] : undefined;
  const message = `The agent answered the request with status ${status}${name === undefined ? '' : ` (${name})`}.`;
  return new AgentFailure(unauthorized ? 'unauthorized' : 'refused', message, status === 429 || status >= 500);
}

/** An error event before the socket was open. */
export function connectFailure(error: Error): AgentFailure {
  const code = errorCode(error);
  switch (code) {
    case 'EBLOCKEDADDRESS':
      return new AgentFailure(
        'blocked_address',
        "The agent's address is private, loopback, link-local or reserved.",
        false,
      );
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
    case 'ENODATA':
      return new AgentFailure('refused', `The agent's host name could not be resolved (${code}).`, true);
    case 'ECONNREFUSED':
      return new AgentFailure('refused', 'The agent refused the connection.', true);
    case 'ECONNRESET':
    case 'EPIPE':
      return new AgentFailure('refused', 'The agent closed the connection before the WebSocket was open.', true);
    case 'ETIMEDOUT':
      return new AgentFailure('timeout', 'The agent did not answer the connection.', true);
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
    case 'EADDRNOTAVAIL':
      return new AgentFailure('refused', `The agent's address cannot be reached (${code}).`, true);
  }
  if (isTlsCode(code)) return new AgentFailure('refused', `TLS with the agent failed (${code}).`, true);
  if (code.startsWith('HPE_')) return new AgentFailure('protocol', `The agent's answer is not HTTP (${code}).`, true);
  return new AgentFailure('protocol', "The agent's WebSocket handshake failed.", true);
}

/** An error event on an open socket: the agent broke the WebSocket protocol. */
export function brokenSocket(error: Error): string {
  const code = errorCode(error);
  if (code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH') return 'The agent sent a message that is too long.';
  return code === '' ? "The agent's socket broke." : `The agent broke the WebSocket protocol (${code}).`;
}

/** An error event on an open TCP connection or HTTP/2 stream. */
export function brokenConnection(error: Error): string {
  const code = errorCode(error);
  return /^[A-Z0-9_]+$/.test(code) ? `The agent's connection broke (${code}).` : "The agent's connection broke.";
}

/** An error that prevented dialling the socket at all. */
export function unusable(error: unknown): AgentFailure {
  if (error instanceof AgentFailure) return error;
  if (error instanceof BlockedAddressError) return connectFailure(error);
  const why = error instanceof AgentConfigError ? error.message : "The agent's URL or headers cannot be used.";
  return new AgentFailure('protocol', why, false);
}

/** The connection broke, or the agent broke the protocol; another attempt may succeed. */
export function broken(message: string): AgentFailure {
  return new AgentFailure('protocol', message, true);
}

export function givenUp(): AgentFailure {
  return new AgentFailure('aborted', 'Connecting to the agent was aborted.', false);
}

function errorCode(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : '';
}

/** Node names certificate errors after OpenSSL's verify results, and handshake errors `EPROTO` or `ERR_SSL_*`. */
function isTlsCode(code: string): boolean {
  return /^(ERR_TLS_|ERR_SSL_|EPROTO$|CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|HOSTNAME_MISMATCH$|INVALID_CA$)/.test(
    code,
  );
}

/** How an agent closed its connection, for a sentence. 1006 means that there was no close frame. */
export function howClosed(code: number, reason: string): string {
  if (code === 1006) return 'without a close frame';
  const printable = reason.replace(/[^\x20-\x7e]/g, ''); // others would break a log line
  return `with code ${code}${printable === '' ? '' : `: ${printable}`}`;
}
