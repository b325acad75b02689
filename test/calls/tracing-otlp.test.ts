/** A whole call as a collector of OpenTelemetry gets it. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startTestApp, type TestApp } from '../support/app.js';
import { addTrunk } from '../support/outbound.js';
import { type Receiver, startReceiver } from '../support/receiver.js';
import { startScriptedAgent } from '../support/scripted-agent.js';
import { webhookApp } from '../support/webhook-app.js';

interface OtlpSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: { key: string; value: Record<string, unknown> }[];
  links?: { traceId: string; spanId: string }[];
  status: { code?: number };
}

let collector: Receiver;
let app: TestApp;
beforeAll(async () => {
  collector = await startReceiver((_request, response) => void response.writeHead(200).end('{}'));
  const environment = { TRUNKLINE_OTEL_ENDPOINT: collector.url, TRUNKLINE_NODE_NAME: 'eu-1' };
  app = await startTestApp(environment, { t1: 50, t2: 400, t4: 500 });
});
afterAll(async () => {
  await app.end();
  await collector.close();
});

const spansOf = (callId: string) =>
  collector.requests
    .filter(({ path }) => path === '/v1/traces')
    .flatMap(({ body }) => JSON.parse(body).resourceSpans[0].scopeSpans[0].spans as OtlpSpan[])
    .filter(({ traceId }) => traceId === callId.replaceAll('-', ''));

async function call(number: string): Promise<string> {
  await app.api('POST', '/v1/simulator/calls', { to: number, duration_ms: 600 });
  return (await app.finishedCall(number)).id;
}

it('has one trace with the call, its routing, ringing and agent, and nothing outside of the call', async () => {
  const id = await call('+15550100');
  await expect.poll(() => spansOf(id).map(({ name }) => name), { timeout: 20_000 }).toContain('inbound call');
  const spans = spansOf(id);
  expect(spans.map(({ name }) => name).sort()).toEqual(['agent connect', 'inbound call', 'ringing', 'routing', 'talk']);
  const root = spans.find(({ name }) => name === 'inbound call') as OtlpSpan;
  expect(root.parentSpanId).toBeUndefined();
  expect(root.attributes).toContainEqual({ key: 'trunkline.call_id', value: { stringValue: id } });
  expect(root.status).toEqual({});
  for (const span of spans) {
    if (span !== root) expect(span.parentSpanId).toBe(root.spanId);
    expect(BigInt(span.startTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(root.startTimeUnixNano));
    expect(BigInt(span.endTimeUnixNano)).toBeLessThanOrEqual(BigInt(root.endTimeUnixNano));
  }
  const [first] = collector.requests;
  expect(JSON.parse(first?.body ?? '').resourceSpans[0].resource.attributes).toEqual([
    { key: 'service.name', value: { stringValue: 'trunkline' } },
    { key: 'service.instance.id', value: { stringValue: 'eu-1' } },
  ]);
});

it('tells a webhook which span asks it', async () => {
  const { number, server } = await webhookApp(
    app,
    { '/start': [{ action: 'answer' }, { action: 'pause', seconds: 1 }, { action: 'hangup' }] },
    { format: 'json' },
  );
  const id = await call(number);
  await expect.poll(() => spansOf(id).map(({ name }) => name), { timeout: 20_000 }).toContain('webhook');
  const asked = server.requests.find(({ path }) => path === '/start')?.headers.traceparent;
  const webhooks = spansOf(id).filter(({ name }) => name === 'webhook');
  expect(webhooks.map(({ traceId, spanId }) => `00-${traceId}-${spanId}-01`)).toContain(asked);
  await server.close();
});

it('tells an agent which call it is connected for, also one that fails', async () => {
  const agents = [await startScriptedAgent({ upgrade: 'refuse' }), await startScriptedAgent()];
  const [refusing, talking] = agents;
  const { endpointId } = await app.connectNumber('+12025550191', talking?.url ?? '');
  const first = await app.connectNumber('+12025550192', refusing?.url ?? '');
  await app.api('PATCH', `/v1/endpoints/${first.endpointId}`, { fallback_endpoint_id: endpointId });
  const id = await call('+12025550192');
  await expect.poll(() => spansOf(id).map(({ name }) => name), { timeout: 20_000 }).toContain('inbound call');
  const root = spansOf(id).find(({ name }) => name === 'inbound call');
  const traceparent = `00-${root?.traceId}-${root?.spanId}-01`;
  for (const agent of agents) {
    expect(agent.headers.length).toBeGreaterThan(0);
    for (const headers of agent.headers) expect(headers.traceparent).toBe(traceparent);
    await agent.close();
  }
});

it('links an outbound call with the request that asked for it', async () => {
  const talking = await startScriptedAgent();
  const from = '+12025550193';
  const { endpointId } = await app.connectNumber(from, talking.url);
  const trunk = await addTrunk(app, ['sip:127.0.0.1:9']); // nobody answers there
  const place = async (path: string, body: string, type: string, traceparent: string) => {
    const headers = { authorization: `Bearer ${app.key}`, connection: 'close', 'content-type': type, traceparent };
    const answer = await fetch(`${app.httpUrl}${path}`, { method: 'POST', headers, body });
    expect(answer.status).toBe(201);
    const call = (await answer.json()) as { id?: string };
    await expect
      .poll(() => spansOf(call.id ?? '').map(({ name }) => name), { timeout: 20_000 })
      .toContain('outbound call');
    return spansOf(call.id ?? '').find(({ name }) => name === 'outbound call')?.links;
  };
  const wish = JSON.stringify({ to_number: '+12025550194', from_number: from, endpoint_id: endpointId });
  const json = (traceparent: string) => place('/v1/outbound-calls', wish, 'application/json', traceparent);
  const [traceId, spanId] = ['0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331'];
  expect(await json(`00-${traceId}-${spanId}-01`)).toEqual([{ traceId, spanId }]);
  expect(await json('00-nonsense-01'), 'it is not refused').toBeUndefined();
  await app.api('DELETE', `/v1/trunks/${trunk}`);
  await talking.close();
}, 60_000);
