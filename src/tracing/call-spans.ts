import { type EndedCall, logFields } from '../call/core/ended-call.js';
import type { Span } from './otlp-json.js';
import { callSpanIdOf, newSpanId, traceIdOf } from './tracing.js';

/** The spans of an ended call: the call, its routing, its ringing and its agents. */
export function callSpans(ended: EndedCall): Span[] {
  const { id, direction, startedAt, completedAt, durationSec, cause, status, detail, agentConnects, timings } = ended;
  const call = { traceId: traceIdOf(id), spanId: callSpanIdOf(id) };
  const within = (name: string, startMs: number, endMs: number, more: Partial<Span> = {}): Span => ({
    ...{ traceId: call.traceId, spanId: newSpanId(), parentSpanId: call.spanId, name, kind: 'internal' },
    ...{ startMs, endMs, attributes: {} },
    ...more,
  });
  const startMs = startedAt.getTime();
  const endMs = completedAt.getTime();
  const spans: Span[] = [
    {
      ...{ ...call, name: `${direction} call`, kind: direction === 'inbound' ? 'server' : 'client' },
      ...{ startMs, endMs },
      attributes: Object.fromEntries(
        Object.entries(logFields(ended)).map(([name, value]) => [`trunkline.${name}`, value as string | number | null]),
      ),
      ...(ended.requestedBy && { links: [ended.requestedBy] }),
      ...(status === 'failed' && { error: detail ?? cause }),
    },
  ];
  if (ended.admittedAt !== null) spans.push(within('routing', startMs, ended.admittedAt.getTime()));
  const { postDialDelayMs, setupMs } = timings;
  if (postDialDelayMs !== undefined)
    spans.push(within('ringing', startMs + postDialDelayMs, setupMs === undefined ? endMs : startMs + setupMs));
  if (setupMs !== undefined)
    spans.push(within('talk', startMs + setupMs, endMs, { attributes: { 'trunkline.duration_sec': durationSec } }));
  for (const { kind, provider, endpointId, readyAt, ms } of agentConnects)
    spans.push(
      within('agent connect', readyAt.getTime() - ms, readyAt.getTime(), {
        kind: 'client',
        attributes: {
          'trunkline.agent.kind': kind,
          'trunkline.agent.provider': provider,
          'trunkline.endpoint_id': endpointId,
        },
      }),
    );
  return spans;
}
