/** Spans in OTLP's JSON encoding (opentelemetry-proto, `ExportTraceServiceRequest`; ids in hex, times in nanoseconds as text). */

export type AttributeValue = string | number | boolean;

export interface Span {
  /** 32 hex digits. */
  traceId: string;
  /** 16 hex digits. */
  spanId: string;
  /** Absent: the first span of the trace. */
  parentSpanId?: string;
  name: string;
  kind: 'internal' | 'server' | 'client';
  /** Milliseconds since 1970, with fractions. */
  startMs: number;
  endMs: number;
  attributes: Readonly<Record<string, AttributeValue | null | undefined>>;
  /** Spans of other traces that led to this one. */
  links?: readonly { traceId: string; spanId: string }[];
  /** One sentence; absent: it went well. */
  error?: string;
}

const kinds = { internal: 1, server: 2, client: 3 } as const;
const errorStatus = 2;

/** The body of one request to `/v1/traces`. Attributes that are null or undefined are left out. */
export function tracesBody(spans: readonly Span[], resource: Readonly<Record<string, AttributeValue>>): string {
  const scopeSpans = [{ scope: { name: 'trunkline' }, spans: spans.map(encoded) }];
  return JSON.stringify({ resourceSpans: [{ resource: { attributes: attributes(resource) }, scopeSpans }] });
}

function encoded(span: Span) {
  const { traceId, spanId, parentSpanId, name, kind, startMs, endMs, links, error } = span;
  return {
    ...{ traceId, spanId, ...(parentSpanId !== undefined && { parentSpanId }), name, kind: kinds[kind] },
    ...{ startTimeUnixNano: nanoseconds(startMs), endTimeUnixNano: nanoseconds(Math.max(startMs, endMs)) },
    attributes: attributes(span.attributes),
    ...(links && { links }),
    status: error === undefined ? {} : { code: errorStatus, message: error },
  };
}

function attributes(values: Span['attributes']) {
  return Object.entries(values).flatMap(([key, value]) =>
    value === null || value === undefined ? [] : [{ key, value: attributeValue(value) }],
  );
}

function attributeValue(value: AttributeValue) {
  if (typeof value === 'string') return { stringValue: value };
  if (typeof value === 'boolean') return { boolValue: value };
  return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}

/** A number has not the digits for nanoseconds since 1970. */
function nanoseconds(ms: number): string {
  const micros = Math.round(ms * 1000);
  return `${micros}000`;
}
