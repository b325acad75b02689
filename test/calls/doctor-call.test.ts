/** `trunkline doctor --call`: a real call over a trunk, judged. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runCli } from '../../src/cli/program.js';
import { openSimulatedCarrier, type SimulatedCarrier } from '../../src/simulator/carrier.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { EchoPeer } from '../support/echo-peer.js';
import { addTrunk } from '../support/outbound.js';

let app: TestApp;
let echo: EchoPeer;
let carrier: SimulatedCarrier;
beforeAll(async () => {
  app = await startTestApp({}, { t1: 100, t2: 400, t4: 500 });
  echo = await EchoPeer.open({ ringMs: 50, delayMs: 80 });
  carrier = await openSimulatedCarrier({ ringMs: 50, timersMs: { t1: 100 } });
});
afterAll(async () => {
  await echo.close();
  await carrier.close();
  await app.end();
});

interface Answer {
  ok: boolean;
  findings: { check: string; level: string; says: string; fix?: string }[];
}

async function doctor(
  to: string,
  ...more: string[]
): Promise<{ code: number; of(check: string): Answer['findings'][0] | undefined }> {
  const out: string[] = [];
  const code = await runCli(['doctor', '--json', '--url', app.httpUrl, '--call', to, ...more], {
    env: { TRUNKLINE_API_KEY: app.key },
    out: (line) => out.push(line),
    err: (line) => out.push(line),
  });
  const { findings } = JSON.parse(out.join('\n')) as Answer;
  return { code, of: (check) => findings.find((finding) => finding.check === check) };
}

it('a number that echoes: the call, its audio, and the way there and back', async () => {
  const trunk = await addTrunk(app, [`sip:127.0.0.1:${echo.port}`]);
  const { of } = await doctor('+12025550123', '--talk', '4s');
  expect(of('call')).toMatchObject({ level: 'ok', says: expect.stringMatching(/^answered after \d+ ms, PCMU/) });
  expect(of('call audio')).toMatchObject({ level: 'ok' });
  const said = of('call echo');
  expect(said?.says).toMatch(/^echo received after \d+ ms$/);
  expect(Number(/(\d+) ms/.exec(said?.says ?? '')?.[1])).toBeGreaterThan(80);
  await app.api('DELETE', `/v1/trunks/${trunk}`);
  const { data } = await app.api<{ data: { name: string }[] }>('GET', '/v1/endpoints');
  expect(data.map(({ name }) => name)).not.toContain('trunkline doctor');
});

it.each([
  ['+15005550486', 'user_busy', 'another number'],
  ['+15005550403', 'call_rejected', 'credentials'],
  ['+15005550404', 'not_found', 'to_format'],
])('%s: %s, and what to do', async (to, cause, fix) => {
  const trunk = await addTrunk(app, [carrier.uri]);
  const { code, of } = await doctor(to);
  expect(code).toBe(1);
  expect(of('call')).toMatchObject({
    level: 'failure',
    says: expect.stringContaining(cause),
    fix: expect.stringContaining(fix),
  });
  await app.api('DELETE', `/v1/trunks/${trunk}`);
});

it('what the API refuses is a finding as well', async () => {
  const { code, of } = await doctor('12');
  expect(code).toBe(1);
  expect(of('call')).toMatchObject({ level: 'failure', says: expect.stringContaining('INVALID_PHONE_NUMBER') });
});
