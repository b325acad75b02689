import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runCli } from '../../src/cli/program.js';
import { startBuiltInEchoAgent } from '../../src/echo-agent.js';
import { openPhone } from '../../src/simulator/phone/phone.js';
import { type PlaceCallOptions, placeCall, planDefaults } from '../../src/simulator/place-call.js';
import { placeSeveral, summarize } from '../../src/simulator/several.js';
import { type CallRecord, startTestApp, type TestApp } from '../support/app.js';

/** The simulator and a whole server: each measures the same call by itself, and they must agree. */
let app: TestApp;
beforeAll(async () => {
  app = await startTestApp({}, { t1: 50, t2: 200, t4: 250 });
});
afterAll(() => app.end());
let nextCaller = 1000;

function target(transport: 'udp' | 'tcp' = 'udp') {
  const address = app.sip.addresses.find((one) => one.transport === transport);
  return { host: '127.0.0.1', port: address?.port ?? 0, transport };
}

async function callEcho(wish: Partial<PlaceCallOptions> = {}) {
  const from = `+1500555${nextCaller++}`;
  const recording = await placeCall({ to: '+15550100', from, durationMs: 3500, target: target(), ...wish });
  const report = recording.report();
  const { data } = await app.api<{ data: { id: string; from_number: string }[] }>('GET', '/v1/calls?limit=100');
  const record = await finished(data.find((call) => call.from_number === from)!.id);
  return { report, record };
}

async function finished(id: string): Promise<CallRecord> {
  for (let tries = 0; tries < 100; tries++) {
    const record = await app.api<CallRecord>('GET', `/v1/calls/${id}`);
    if (record.status !== 'in_progress') return record;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`Call ${id} did not end.`);
}

// Each call has a caller's number of its own.
describe.concurrent('a simulated call to the demo number', () => {
  it.each(['udp', 'tcp'] as const)('hears its own audio again (%s)', async (transport) => {
    const { report, record } = await callEcho({ target: target(transport) });
    expect(report).toMatchObject({ answered: true, ok: true, problems: [], endedBy: 'us' });
    expect(report.roundTrip).toMatchObject({ sent: 2, found: 2 });
    expect(report.roundTrip?.leastMs).toBeGreaterThan(1);
    expect(report.roundTrip?.leastMs).toBeLessThan(400);
    expect(report.heard.frequencyHz).toBeGreaterThan(438);
    expect(report.heard.frequencyHz).toBeLessThan(442);
    expect(record).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing', hangup_source: 'caller' });
    expect(record.quality_metrics.packet_loss).toBe(0);
  });

  it('agrees with the server about the loss of what it sent', async () => {
    const { report, record } = await callEcho({
      impairments: { lossPercent: 10, seed: 4 },
      markers: false,
      durationMs: 8000,
    });
    const lossPercent = (report.sent.dropped / report.sent.packets) * 100;
    expect(lossPercent).toBeGreaterThan(5);
    expect(Math.abs(record.quality_metrics.packet_loss! - lossPercent)).toBeLessThan(0.6);
    // Reports come every 2.5 to 7.5 s: this one is of a part of the call.
    expect(report.sent.farLossPercent).toBeGreaterThan(3);
    expect(report.received.lost).toBe(0);
  });

  it('presses keys that the server reports in order', async () => {
    const { record } = await callEcho({ digits: '159#', digitsAfterMs: 200, durationMs: 1500 });
    const digits = record.events
      .filter((event) => event.event_type === 'dtmf.received')
      .map((event) => event.event_data.digit);
    expect(digits.join('')).toBe('159#');
  });

  it('reports an unknown number', async () => {
    const recording = await placeCall({ to: '+15559999', durationMs: 500, target: target() });
    expect(recording.report()).toMatchObject({
      answered: false,
      sipStatus: 404,
      cause: 'not_found',
      endedBy: 'far side',
    });
  });

  it('places several at a rate from one phone', async () => {
    const phone = await openPhone(target());
    try {
      const plan = { ...planDefaults, to: '+15550100', durationMs: 1500, calls: 4, callsPerSecond: 10 };
      const recordings = await placeSeveral(phone, plan, new AbortController().signal);
      const summary = summarize(recordings.map((recording) => recording.report()));
      expect(summary).toMatchObject({ calls: 4, answered: 4, ok: 4, problems: {}, lossPercent: 0 });
      expect(summary.setup?.worstMs).toBeGreaterThan(0);
    } finally {
      await phone.close();
    }
  });
});

describe('the command line against the server', () => {
  async function run(...args: string[]): Promise<{ code: number; out: string[]; err: string[] }> {
    const out: string[] = [];
    const err: string[] = [];
    const { host, port } = target();
    const code = await runCli(
      [...args, '--url', app.httpUrl, ...(args[0] === 'call' ? ['--to-host', `${host}:${port}`] : [])],
      {
        env: { TRUNKLINE_API_KEY: app.key },
        out: (line) => out.push(line),
        err: (line) => err.push(line),
      },
    );
    return { code, out, err };
  }

  it('places a call, and then lists, shows and traces it', async () => {
    const { code, out, err } = await run('call', '+15550100', '--duration', '1s', '--digits', '5');
    expect({ code, err }).toEqual({ code: 0, err: [] });
    expect(out.at(-1)).toBe('verdict: ok');
    expect(out.some((line) => /^audio RTT +\d+\.\d ms/.test(line))).toBe(true);
    const list = JSON.parse((await run('calls', '--limit', '1', '--json')).out.join('\n')) as {
      data: { id: string }[];
    };
    const { id } = list.data[0]!;
    await finished(id);
    expect((await run('calls', id)).out.at(-1)).toBe('completed: normal_clearing');
    const trace = await run('trace', id);
    expect(trace.out.some((line) => line.startsWith('INVITE sip:'))).toBe(true);
    expect(trace.out.some((line) => line.startsWith('BYE sip:'))).toBe(true);
    expect((await run('trace', id, '--json')).code).toBe(0);
  });

  it('lends a number to an agent while the call lasts', async () => {
    const before = (await run('numbers')).out.at(-1);
    const agent = await startBuiltInEchoAgent();
    try {
      const answered = await run('call', '+15550177', '--agent', agent.url.href, '--duration', '1s');
      expect(answered.out.at(-1)).toBe('verdict: ok');
    } finally {
      await agent.close();
    }
    const { code, out } = await run('call', '+15550177', '--agent', agent.url.href, '--duration', '1s');
    expect(code).toBe(1); // nobody listens there any more
    expect(out.at(-1)).toMatch(/^verdict: not ok: not answered: (480|503) /);
    expect((await run('numbers')).out.at(-1)).toBe(before);
    expect((await run('endpoints')).out.at(-1)).toBe('1 of 1 endpoint');
  });

  it('exits with 1 and says why when a call is refused', async () => {
    const { code, out } = await run('call', '+15559999');
    expect(code).toBe(1);
    expect(out.at(-1)).toBe('verdict: not ok: not answered: 404 not_found');
  });
});
