/** The span of another program that asked for a call (W3C Trace Context). */
export interface TraceContext {
  /** 32 hex digits. */
  traceId: string;
  /** 16 hex digits. */
  spanId: string;
}

/** The value of a `traceparent` header (https://www.w3.org/TR/trace-context/#traceparent-header); undefined: absent, or not valid, which is no error. */
export function traceContextOf(header: string | string[] | undefined): TraceContext | undefined {
  if (typeof header !== 'string') return undefined;
  const [, version, traceId = '', spanId = '', more = ''] =
    /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/.exec(header) ?? [];
  const isValid =
    version !== undefined &&
    version !== 'ff' &&
    (version !== '00' || more === '') &&
    !/^0+$/.test(traceId) &&
    !/^0+$/.test(spanId);
  return isValid ? { traceId, spanId } : undefined;
}
