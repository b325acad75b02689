import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTwimlMenu } from '../../examples/twiml-menu/index.js';
import { startWebhookEndpoint } from '../../examples/webhook-endpoint/index.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { phoneCalls } from '../support/caller.js';
import { undoBeforeNextTry } from '../support/tries.js';

const root = path.join(import.meta.dirname, '../..');
let app: TestApp;
const closing: { close(): Promise<void> }[] = [];

beforeAll(async () => {
  app = await startTestApp({ TRUNKLINE_RTP_FIRST_TIMEOUT_SEC: '0' }, { t1: 100, t2: 400, t4: 500 });
});
afterAll(async () => {
  for (const each of closing) await each.close();
  await app.end();
});

async function callFor(number: string, target: string, config: object) {
  const endpoint = await app.api<{ id: string; webhook_secret: string }>('POST', '/v1/endpoints', {
    name: number,
    type: 'webhook',
    target,
    provider_config: config,
  });
  await app.api('POST', '/v1/phone-numbers', { number, endpoint_id: endpoint.id });
  return endpoint;
}

// Each example has a number of its own.
test.concurrent('the JSON example tells the time to who presses one, and only to signed requests', async () => {
  const unchecked = await startWebhookEndpoint({ port: 0 });
  closing.push(unchecked);
  const { id, webhook_secret: secret } = await callFor('+12025550401', `${unchecked.url}/calls`, {});
  const checked = await startWebhookEndpoint({ port: 0, secret });
  closing.push(checked);
  await app.api('PATCH', `/v1/endpoints/${id}`, { target: `${checked.url}/calls` });
  await phoneCalls(app, '+12025550401', { durationMs: 20_000, digits: '1', digitsAfterMs: 500 });
  const call = await app.finishedCall('+12025550401');
  expect(call).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing', hangup_source: 'agent' });
  const actions = call.events
    .filter((event) => event.event_type === 'webhook.delivered')
    .map((event) => event.event_data.actions);
  expect(actions).toEqual([['gather'], ['say']]);
  expect((await fetch(`${checked.url}/calls`, { method: 'POST', body: '{}' })).status).toBe(401);
});

test.concurrent('the TwiML example spells the number to who presses one', async () => {
  const menu = await startTwimlMenu({ port: 0 });
  closing.push(menu);
  await callFor('+12025550402', `${menu.url}/voice`, { format: 'twiml' });
  await phoneCalls(app, '+12025550402', { durationMs: 20_000, digits: '1', digitsAfterMs: 500 });
  const call = await app.finishedCall('+12025550402');
  expect(call).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing', hangup_source: 'agent' });
  const actions = call.events
    .filter((event) => event.event_type === 'webhook.delivered')
    .map((event) => event.event_data.actions);
  expect(actions).toEqual([['gather', 'say'], ['say']]);
});

/** The commands of a README, as they are printed: the first block starts the example, the second one calls it. */
async function runAsPrinted(example: string): Promise<string> {
  const readme = await readFile(path.join(root, 'examples', example, 'README.md'), 'utf8');
  const [serve = '', use = ''] = [...readme.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, block]) => block ?? '');
  const port = /--port (\d+)/.exec(serve)?.[1] ?? '';
  // What is built already is not built again, and the ports are free ones.
  const command = serve.replace('npm run build && ', 'exec ').replace(port, '0');
  const program = spawn('bash', ['-c', command], { cwd: root });
  closing.push({
    close: async () => {
      const gone = once(program, 'exit');
      program.kill();
      await gone;
    },
  });
  const [listening] = await once(program.stdout, 'data');
  const url = /http:\S+/.exec(String(listening))?.[0] ?? '';
  const { port: sipPort } = app.sip.addresses[0] as { port: number };
  const script = use.replace(`http://127.0.0.1:${port}`, url).replaceAll('npx trunkline', 'node bin/trunkline.js');
  const env = {
    ...process.env,
    TRUNKLINE_API_KEY: app.key,
    TRUNKLINE_HTTP_PORT: new URL(app.httpUrl).port,
    TRUNKLINE_SIP_PORT: String(sipPort),
  };
  const { stdout } = await promisify(execFile)('bash', ['-e', '-c', script], { cwd: root, env });
  return stdout;
}

test.concurrent.each(['webhook-endpoint', 'twiml-menu'])('%s runs as its README prints', async (example) => {
  const number = example === 'twiml-menu' ? '+15550142' : '+15550141';
  undoBeforeNextTry(() => app.releaseNumber(number));
  const printed = await runAsPrinted(example);
  expect(printed).toContain('added number');
  expect(printed).toMatch(/not silent after \d+ ms/);
  const call = await app.finishedCall(number);
  const actions = call.events
    .filter((event) => event.event_type === 'webhook.delivered')
    .map((event) => event.event_data.actions);
  expect(actions.at(-1)).toEqual(['say']);
});
