import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startTestApp, type TestApp } from '../support/app.js';
import { type AgentScript, type ScriptedAgent, startScriptedAgent } from '../support/scripted-agent.js';
import { type SippRun, sippSucceeds } from '../support/sipp.js';

const demo = '+15550100';
let app: TestApp;
let nextNumber = 12025550100;
const agents: ScriptedAgent[] = [];

beforeAll(async () => {
  app = await startTestApp(
    { TRUNKLINE_RTP_FIRST_TIMEOUT_SEC: '0', TRUNKLINE_AGENT_CONNECT_TIMEOUT_SEC: '4' },
    // A caller whose packets are lost repeats a BYE for longer than other tests wait for one.
    { t1: 100, t2: 400, t4: 500, lingerMs: 3200 },
  );
});
afterAll(async () => {
  for (const agent of agents) await agent.close();
  await app.end();
});

/** A number of its own, so that its call is told from all others; with a scripted agent, or with the echo agent. */
async function numberFor(script?: AgentScript, config: Record<string, unknown> = { protocol: 'raw' }) {
  const number = `+${nextNumber++}`;
  if (script === undefined) {
    const { data } = await app.api<{ data: { endpoint_id: string }[] }>('GET', '/v1/phone-numbers?limit=100');
    const echo = data.find((row) => (row as unknown as { number: string }).number === demo)?.endpoint_id;
    await app.api('POST', '/v1/phone-numbers', { number, endpoint_id: echo });
    return { number, endpointId: echo as string, agent: null };
  }
  const agent = await startScriptedAgent(script);
  agents.push(agent);
  const { endpointId } = await app.connectNumber(number, agent.url, config);
  return { number, endpointId, agent };
}

async function dial(number: string, run: Partial<SippRun> & { scenario: string }) {
  const { host, port } = app.sip.addresses[0] as { host: string; port: number };
  await sippSucceeds({ remote: { host, port }, service: number, ...run });
}

const types = (call: { events: { event_type: string }[] }) => call.events.map((event) => event.event_type);

describe('a carrier calls', () => {
  it.each(['u1', 't1'] as const)('is answered and leaves a true record (%s)', async (transport) => {
    const { number } = await numberFor();
    await dial(number, { scenario: 'uac-call', transport, pauseMs: 1500 });
    const call = await app.finishedCall(number);
    expect(call).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing', hangup_source: 'caller' });
    const spanSec = (Date.parse(call.completed_at ?? '') - Date.parse(call.answered_at ?? '')) / 1000;
    expect(Math.abs(call.duration - spanSec)).toBeLessThanOrEqual(1);
    expect(call.duration).toBeGreaterThanOrEqual(1);
    expect(call.latency_ms).toBeGreaterThan(0);
    expect(types(call)).toEqual(
      expect.arrayContaining([
        'call.initiated',
        'call.routed',
        'call.ringing',
        'agent.connected',
        'call.answered',
        'call.completed',
      ]),
    );
    expect(call.events.map((event) => event.sequence)).toEqual(call.events.map((_, index) => index + 1));
    expect(types(call).at(-1)).toBe('call.completed');
  });

  it('loses every seventh packet: each call is one record and ends once', async () => {
    const { number } = await numberFor();
    await dial(number, { scenario: 'uac-call', calls: 20, lossPercent: 15, pauseMs: 500, repeatAfterMs: 100 });
    await expect.poll(() => app.live.count, { timeout: 10_000 }).toBe(0);
    const { data } = await app.api<{ data: { to_number: string; status: string; answered_at: string | null }[] }>(
      'GET',
      '/v1/calls?limit=100',
    );
    const calls = data.filter((call) => call.to_number === number);
    expect(calls).toHaveLength(20);
    // A caller whose every ACK was lost before it hung up was never connected.
    for (const call of calls) expect(call.status).toBe(call.answered_at === null ? 'no_answer' : 'completed');
    expect(calls.filter((call) => call.status === 'completed').length).toBeGreaterThan(10);
  });

  it('cancels while it rings', async () => {
    const { number, agent } = await numberFor({ upgrade: 'stall' });
    await dial(number, { scenario: 'uac-cancel' });
    const call = await app.finishedCall(number);
    expect(call).toMatchObject({
      status: 'no_answer',
      hangup_cause: 'originator_cancel',
      duration: 0,
      answered_at: null,
    });
    expect(agent?.attempts).toBe(1);
  });

  it('holds and resumes', async () => {
    const { number } = await numberFor();
    await dial(number, { scenario: 'uac-hold' });
    const call = await app.finishedCall(number);
    expect(types(call).filter((type) => type === 'call.held' || type === 'call.resumed')).toEqual([
      'call.held',
      'call.resumed',
    ]);
    expect(call.status).toBe('completed');
  });

  it('presses 5 and #: each is heard once, by the record and by the agent', async () => {
    const { number, agent } = await numberFor({});
    await dial(number, { scenario: 'uac-dtmf' });
    const call = await app.finishedCall(number);
    const digits = call.events
      .filter((event) => event.event_type === 'dtmf.received')
      .map((event) => event.event_data.digit);
    expect(digits).toEqual(['5', '#']);
    expect(agent?.messages.filter((message) => message.event === 'dtmf').map((message) => message.digits)).toEqual([
      '5',
      '#',
    ]);
  });

  it('offers nothing in the INVITE and answers in the ACK', async () => {
    const { number } = await numberFor();
    await dial(number, { scenario: 'uac-delayed-offer' });
    expect(await app.finishedCall(number)).toMatchObject({ status: 'completed', quality_metrics: { codec: 'PCMU' } });
  });

  it('never sends the ACK: we hang up, and the call has lasted from its 200', async () => {
    const { number } = await numberFor();
    await dial(number, { scenario: 'uac-no-ack' });
    const record = await app.finishedCall(number);
    expect(record).toMatchObject({ status: 'failed', hangup_cause: 'no_ack' });
    const lastedMs = Date.parse(record.completed_at ?? '') - Date.parse(record.answered_at ?? '');
    expect(record.duration).toBe(Math.max(1, Math.round(lastedMs / 1000)));
  });
});

describe('another side hangs up', () => {
  it('the API', async () => {
    const { number } = await numberFor({});
    const running = dial(number, { scenario: 'uac-remote-bye' });
    const answered = async () => {
      const { data } = await app.api<{ data: { id: string; to_number: string; answered_at: string | null }[] }>(
        'GET',
        '/v1/calls?status=in_progress',
      );
      return data.find((call) => call.to_number === number && call.answered_at !== null)?.id;
    };
    await Promise.race([expect.poll(answered).toBeDefined(), running]);
    const id = await answered();
    await app.api('DELETE', `/v1/calls/${id}`, undefined, 409);
    expect(await app.api('POST', `/v1/calls/${id}/hangup`)).toMatchObject({ id });
    await running;
    expect(await app.finishedCall(number)).toMatchObject({
      status: 'completed',
      hangup_cause: 'normal_clearing',
      hangup_source: 'api',
    });
    await app.api('DELETE', `/v1/calls/${id}`, undefined, 204);
    await app.api('GET', `/v1/calls/${id}`, undefined, 404);
  });

  it.each<[string, AgentScript, object]>([
    [
      'the agent says so',
      { onText: (message, socket) => message.event === 'start' && socket.send('{"event":"hangup"}') },
      { status: 'completed', hangup_cause: 'agent_hangup', hangup_source: 'agent' },
    ],
    [
      'the agent closes its socket',
      { onText: (message, socket) => message.event === 'start' && socket.close(1000) },
      { status: 'completed', hangup_cause: 'agent_hangup', hangup_source: 'agent' },
    ],
    [
      'the agent breaks',
      { onText: (message, socket) => message.event === 'start' && socket.terminate() },
      { status: 'failed', hangup_cause: 'agent_error', hangup_source: 'agent' },
    ],
  ])('%s', async (_, script, record) => {
    const { number } = await numberFor(script);
    await dial(number, { scenario: 'uac-remote-bye' });
    expect(await app.finishedCall(number)).toMatchObject(record);
  });
});

describe('refusals', () => {
  const refused = (number: string, status: number, codecs = '0 8') =>
    dial(number, { scenario: 'uac-refused', replace: { STATUS: String(status), CODECS: codecs } });

  it('an unknown number is 404 and no call', async () => {
    await refused('+19995550199', 404);
    const { data } = await app.api<{ data: { to_number: string }[] }>('GET', '/v1/calls?limit=100');
    expect(data.filter((call) => call.to_number === '+19995550199')).toEqual([]);
  });

  it('a number without endpoint is 480 and a failed call', async () => {
    const number = `+${nextNumber++}`;
    await app.api('POST', '/v1/phone-numbers', { number });
    await refused(number, 480);
    expect(await app.finishedCall(number)).toMatchObject({
      status: 'failed',
      hangup_cause: 'no_endpoint',
      hangup_source: 'system',
    });
  });

  it('an inactive endpoint is 480', async () => {
    const { number, endpointId } = await numberFor({});
    await app.api('PATCH', `/v1/endpoints/${endpointId}`, { status: 'inactive' });
    await refused(number, 480);
    expect(await app.finishedCall(number)).toMatchObject({ status: 'failed', hangup_cause: 'endpoint_inactive' });
  });

  it('no common codec is 488', async () => {
    const { number } = await numberFor();
    await refused(number, 488, '3 18');
    expect(await app.finishedCall(number)).toMatchObject({ status: 'failed', hangup_cause: 'incompatible_media' });
  });

  it.each<['refuse' | 'stall', number]>([
    ['refuse', 2],
    ['stall', 1],
  ])(
    'an agent that will not answer (%s): 480 within the budget, and the record says why',
    async (upgrade, attempts) => {
      const { number, agent } = await numberFor({ upgrade });
      const startedMs = Date.now();
      await refused(number, 480);
      expect(Date.now() - startedMs).toBeLessThan(8000);
      const call = await app.finishedCall(number);
      expect(call).toMatchObject({ status: 'failed', hangup_cause: 'agent_unreachable' });
      expect(types(call)).toContain('agent.failed');
      expect(agent?.attempts).toBe(attempts);
    },
  );

  it('the fallback endpoint takes over at connect', async () => {
    const { number, endpointId } = await numberFor({ upgrade: 'refuse' });
    const spare = await numberFor({});
    await app.api('PATCH', `/v1/endpoints/${endpointId}`, { fallback_endpoint_id: spare.endpointId });
    await dial(number, { scenario: 'uac-call' });
    const call = await app.finishedCall(number);
    expect(call.status).toBe('completed');
    expect(types(call).filter((type) => type.startsWith('agent.'))).toEqual([
      'agent.connecting',
      'agent.failed',
      'agent.connecting',
      'agent.failed',
      'agent.failover',
      'agent.connecting',
      'agent.connected',
      'agent.disconnected',
    ]);
  });
});

describe('many', () => {
  it('200 parallel calls, none fails', async () => {
    // The agent only listens, and so does sipp: what is carried is ours.
    const { number } = await numberFor({}, { protocol: 'raw', frame_ms: 40 });
    await dial(number, { scenario: 'uac-call', calls: 200, rate: 50, pauseMs: 5000, limitMs: 60_000 });
    await expect.poll(() => app.live.count, { timeout: 5000 }).toBe(0);
    const { total } = await app.api<{ total: number }>('GET', '/v1/calls?status=completed&limit=1');
    expect(total).toBeGreaterThanOrEqual(200);
  });
});
