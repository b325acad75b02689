import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startTestApp, type TestApp } from '../support/app.js';

/** The README's `curl` commands, run by a shell as they are printed. Only where port 3000 leads is ours: curl's own settings say it. */

const readme = readFileSync(path.resolve(import.meta.dirname, '../../README.md'), 'utf8');
const run = promisify(execFile);
let app: TestApp;
let home: string;

/** Of all `sh` blocks, with their continued lines. */
const commands = [...readme.matchAll(/```sh\n(.*?)```/gs)]
  .flatMap(([, block = '']) => block.replaceAll('\\\n', '').split('\n'))
  .filter((line) => line.startsWith('curl '));

beforeAll(async () => {
  app = await startTestApp({}, { t1: 50, t2: 200, t4: 250 });
  home = mkdtempSync(path.join(tmpdir(), 'trunkline-curl-'));
  const { host } = new URL(app.httpUrl);
  writeFileSync(
    path.join(home, '.curlrc'),
    `connect-to = "127.0.0.1:3000:${host}"\nsilent\nshow-error\nfail-with-body\n`,
  );
  // "It needs a trunk with a gateway": one that nobody answers behind.
  await app.api('POST', '/v1/trunks', { name: 'T', gateways: [{ uri: 'sip:127.0.0.1:9' }] });
});
afterAll(async () => {
  rmSync(home, { recursive: true });
  await app.end();
});

describe('the curl commands of the README', () => {
  it('run as printed', async () => {
    expect(commands.length).toBeGreaterThanOrEqual(4);
    const env = { ...process.env, CURL_HOME: home, TRUNKLINE_API_KEY: app.key, ENDPOINT_ID: '' };
    const answers: Record<string, unknown>[] = [];
    for (const command of commands) {
      const { stdout } = await run('bash', ['-c', command], { env }).catch(
        (error: { stdout?: string; stderr?: string }) => {
          throw new Error(
            `${command}\n${error.stderr ?? error} ${error.stdout ?? ''} (apt-get install curl, if it is missing)`,
          );
        },
      );
      const answer = JSON.parse(stdout) as Record<string, unknown>;
      answers.push(answer);
      if (answer.provider_config) env.ENDPOINT_ID = String(answer.id);
    }
    expect(answers).toEqual([
      expect.objectContaining({ data: [], total: 0 }),
      expect.objectContaining({ name: 'My bot', type: 'agent' }),
      expect.objectContaining({ number: '+12025550123', endpoint_id: env.ENDPOINT_ID }),
      expect.objectContaining({ to_number: '+12025550199', direction: 'outbound', status: 'in_progress' }),
    ]);
    await app.api('POST', `/v1/calls/${String(answers[3]?.id)}/hangup`);
    await app.finishedCall('+12025550199');
  });
});
