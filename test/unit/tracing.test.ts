import { expect, it, vi } from 'vitest';
import { HttpError, type HttpRequest } from '../../net/http.js';
import { createLog } from '../../src/log.js';
import { type Span, tracesBody } from '../../src/tracing/otlp-json.js';
import { tracedHttp } from '../../src/tracing/traced-http.js';
import { Tracing } from '../../src/tracing/tracing.js';

const callId = '01a2073d-4b67-738e-8e30-e4e11b828cc8';
const traceId = '01a2073d4b67738e8e30e4e11b828cc8';
const callSpanId = '8e30e4e11b828cc8';

const span = (name: string): Span => ({
  ...{ traceId, spanId: callSpanId, name, kind: 'internal', startMs: 1_795_000_000_000.25, endMs: 1_795_000_000_001 },
  attributes: { text: 'a', whole: 7, part: 0.5, yes: true, none: null, absent: undefined },
});

/** A collector that answers as told, and keeps the spans that it took. */
function collector(answer: () => number | HttpError = () => 200) {
  const taken: { name: string }[][] = [];
  const requests: HttpRequest[] = [];
  const http = {
    request: async (request: HttpRequest) => {
      requests.push(request);
      const status = answer();
      if (typeof status !== 'number') throw status;
      const body = JSON.parse(String(request.body));
      if (status === 200) taken.push(body.resourceSpans[0].scopeSpans[0].spans);
      return { status, headers: {}, body: Buffer.alloc(0), url: request.url };
    },
  };
  const log = { ...createLog('silent'), warn: vi.fn(), info: vi.fn() } as unknown as ReturnType<typeof createLog>;
  const tracing = new Tracing({ endpoint: 'http://collector:4318/', http, node: 'eu-1', log, sendEveryMs: 3_600_000 });
  return { tracing, taken, requests, log };
}

it('writes spans as OTLP has them in JSON: ids in hex, 64-bit numbers as text, nothing that is null', () => {
  expect(
    JSON.parse(tracesBody([{ ...span('x'), parentSpanId: 'b'.repeat(16), error: 'It failed.' }], { a: 'b' })),
  ).toEqual({
    resourceSpans: [
      {
        resource: { attributes: [{ key: 'a', value: { stringValue: 'b' } }] },
        scopeSpans: [
          {
            scope: { name: 'trunkline' },
            spans: [
              {
                ...{ traceId, spanId: callSpanId, parentSpanId: 'b'.repeat(16), name: 'x', kind: 1 },
                ...{ startTimeUnixNano: '1795000000000250000', endTimeUnixNano: '1795000000001000000' },
                attributes: [
                  { key: 'text', value: { stringValue: 'a' } },
                  { key: 'whole', value: { intValue: '7' } },
                  { key: 'part', value: { doubleValue: 0.5 } },
                  { key: 'yes', value: { boolValue: true } },
                ],
                status: { code: 2, message: 'It failed.' },
              },
            ],
          },
        ],
      },
    ],
  });
});

it('sends spans together, 500 in a request, to /v1/traces', async () => {
  const { tracing, taken, requests } = collector();
  for (let i = 0; i < 1_200; i++) tracing.record(span(`s${i}`));
  await tracing.close();
  expect(taken.map((spans) => spans.length)).toEqual([500, 500, 200]);
  expect(taken.flat().map(({ name }) => name)).toEqual(Array.from({ length: 1_200 }, (_, i) => `s${i}`));
  expect(requests[0]).toMatchObject({ url: 'http://collector:4318/v1/traces', method: 'POST' });
  expect(tracing.dropped).toBe(0);
});

it('a collector that is gone loses spans, is named once, and is used again when it is back', async () => {
  const answers: (number | HttpError)[] = [new HttpError('connect', 'refused'), 503, 200];
  const { tracing, taken, log } = collector(() => answers.shift() ?? 200);
  for (const name of ['a', 'b', 'c']) {
    tracing.record(span(name));
    await tracing.flush();
  }
  expect(taken.flat().map(({ name }) => name)).toEqual(['c']);
  expect(tracing.dropped).toBe(2);
  expect(log.warn).toHaveBeenCalledTimes(1);
  expect(log.info).toHaveBeenCalledTimes(1);
  for (let i = 0; i < 20_010; i++) tracing.record(span('many'));
  expect(tracing.dropped).toBe(12);
  await tracing.close();
});

it('at the end, a collector that does not answer is asked once, and all that it did not take is counted', async () => {
  const { tracing, requests } = collector(() => new HttpError('timeout', 'late'));
  for (let i = 0; i < 1_200; i++) tracing.record(span('x'));
  await tracing.close();
  expect(requests).toHaveLength(1);
  expect(tracing.dropped).toBe(1_200);
});

it('a request of a call says to which span it belongs, and leaves one, with its failure and without its query', async () => {
  const { tracing, taken } = collector();
  const asked: HttpRequest[] = [];
  const answers: (number | HttpError)[] = [200, 500, new HttpError('timeout', 'late')];
  const http = tracedHttp(
    {
      request: async (request) => {
        asked.push(request);
        const answer = answers.shift() ?? 200;
        if (typeof answer !== 'number') throw answer;
        return { status: answer, headers: {}, body: Buffer.alloc(0), url: request.url };
      },
    },
    tracing,
  );
  const request = { url: 'https://a.example/hook?token=x', method: 'POST', timeoutMs: 1, maxBodyBytes: 1 } as const;
  const trace = { callId, name: 'webhook' };
  await http.request({ ...request, headers: { a: 'b' }, trace });
  await http.request({ ...request, trace });
  await expect(http.request({ ...request, trace })).rejects.toMatchObject({ code: 'timeout' });
  await http.request(request);
  await tracing.close();
  const spans = taken.flat() as unknown as {
    spanId: string;
    parentSpanId: string;
    status: object;
    attributes: object[];
  }[];
  expect(asked.map(({ headers }) => headers?.traceparent)).toEqual([
    ...spans.map(({ spanId }) => `00-${traceId}-${spanId}-01`),
    undefined,
  ]);
  expect(asked[0]?.headers).toMatchObject({ a: 'b' });
  expect(new Set(spans.map(({ parentSpanId }) => parentSpanId))).toEqual(new Set([callSpanId]));
  expect(spans.map(({ status }) => status)).toEqual([
    ...[{}, { code: 2, message: 'The server answered 500.' }, { code: 2, message: 'timeout' }],
  ]);
  expect(JSON.stringify(spans)).not.toContain('token');
});
