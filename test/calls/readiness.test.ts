/** `GET /readyz` says whether new calls should come here; `POST /v1/calls/{id}/hangup` answers the call in its final state. */
import { renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { startTestApp, type TestApp } from '../support/app.js';

let app: TestApp;
let isStopped: boolean;
beforeEach(async () => {
  isStopped = false;
  app = await startTestApp({}, { t1: 50, t2: 200, t4: 250 });
});
afterEach(async () => {
  if (isStopped) rmSync(path.dirname(app.databaseFile), { recursive: true });
  else await app.end();
});

const readyz = async () => {
  const response = await fetch(`${app.httpUrl}/readyz`);
  return { status: response.status, body: (await response.json()) as { checks: object } };
};

/** A phone of the simulator talks to the echo agent; resolves with the call's id once it is answered. */
async function answeredCall(): Promise<{ id: string; over: Promise<unknown> }> {
  const { data: numbers } = await app.api<{ data: { number: string }[] }>('GET', '/v1/phone-numbers');
  const asked = { to: numbers[0]?.number, duration_ms: 20_000 };
  const over = app.api('POST', '/v1/simulator/calls', asked);
  over.catch(() => {}); // looked at by those who wait for it
  const running = async () =>
    (await app.api<{ data: { id: string; answered_at: string | null }[] }>('GET', '/v1/calls')).data[0];
  await expect.poll(async () => (await running())?.answered_at ?? null, { timeout: 10_000 }).not.toBeNull();
  return { id: (await running())?.id ?? '', over };
}

it('a hangup is answered with the call in its final state', async () => {
  const { id, over } = await answeredCall();
  const call = await app.api('POST', `/v1/calls/${id}/hangup`);
  expect(call).toMatchObject({ id, status: 'completed', hangup_cause: 'normal_clearing' });
  expect((call as { completed_at: string | null }).completed_at).not.toBeNull();
  await over;
});

it('is 503 while the process drains', async () => {
  expect(await readyz()).toMatchObject({ status: 200, body: { checks: { accepting: true } } });
  const { id, over } = await answeredCall();
  const stopped = app.stop(20_000);
  expect(await readyz()).toMatchObject({ status: 503, body: { checks: { accepting: false, database: true } } });
  await app.api('POST', `/v1/calls/${id}/hangup`);
  await over;
  await stopped;
  isStopped = true;
});

it('is 503 while the file of the database is not in its place', async () => {
  renameSync(app.databaseFile, `${app.databaseFile}.away`);
  expect(await readyz()).toMatchObject({ status: 503, body: { checks: { accepting: true, database: false } } });
  renameSync(`${app.databaseFile}.away`, app.databaseFile);
  expect((await readyz()).status).toBe(200);
});
