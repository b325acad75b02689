import { HttpError, type SafeHttp } from '../../net/http.js';
import { callSpanIdOf, newSpanId, type Tracing, traceIdOf, traceparentOf } from './tracing.js';

/** Requests that belong to a call get `traceparent`, and a span each. */
export function tracedHttp(http: SafeHttp, tracing: Tracing): SafeHttp {
  return {
    request: async (request, signal) => {
      if (request.trace === undefined) return http.request(request, signal);
      const { callId, name } = request.trace;
      const spanId = newSpanId();
      const startMs = Date.now();
      const startedMs = performance.now();
      const over = (status: number | null, error?: string) => {
        const { host, pathname } = new URL(request.url);
        tracing.record({
          ...{ traceId: traceIdOf(callId), spanId, parentSpanId: callSpanIdOf(callId), name, kind: 'client' },
          ...{ startMs, endMs: startMs + performance.now() - startedMs },
          attributes: {
            'http.request.method': request.method,
            'server.address': host,
            'url.path': pathname, // without the query, which may hold keys
            'http.response.status_code': status,
          },
          ...(error !== undefined && { error }),
        });
      };
      const headers = { ...request.headers, traceparent: traceparentOf(callId, spanId) };
      try {
        const answer = await http.request({ ...request, headers }, signal);
        over(answer.status, answer.status >= 400 ? `The server answered ${answer.status}.` : undefined);
        return answer;
      } catch (error) {
        over(null, error instanceof HttpError ? error.code : 'failed');
        throw error;
      }
    },
  };
}
