import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test, vi } from 'vitest';
import { startReceiver } from '../support/receiver.js';

const root = path.resolve(import.meta.dirname, '../..');
/** A process with the store and the sender; `queue`: it first writes 1,000 events of 50 calls. */
const program = `
const [file, url, queue] = process.argv.slice(1);
const load = (name) => import(${JSON.stringify(`${root}/dist`)} + name);
const { Store } = await load('/src/store/store.js');
const { systemClock } = await load('/src/store/database/clock.js');
const { EventSender } = await load('/src/webhook/event-sender.js');
const { createSafeHttp } = await load('/net/http.js');
const store = await Store.open({ file });
if (queue === 'queue') {
  const { id: organizationId } = await store.organizations.create({ name: 'A', tier: 'enterprise' });
  const scope = { organizationId, mode: 'live' };
  const { record } = await store.endpoints.create(scope, { name: 'W', type: 'webhook', target: url, provider: null, providerConfig: { events_url: url } });
  for (let call = 0; call < 50; call += 1) {
    const id = store.calls.begin({ ...scope, direction: 'inbound', fromNumber: 'x', toNumber: 'y', phoneNumberId: organizationId, endpointId: record.id });
    for (let event = 1; event < 20; event += 1) store.calls.event(id, 'dtmf.received', { digit: '1' });
  }
  await store.calls.flush();
}
const log = { warn() {}, error(fields) { console.error(fields); } };
const sender = new EventSender({ deliveries: store.webhookDeliveries, endpoints: store.endpoints, http: createSafeHttp({ allowPrivate: true }), clock: systemClock, log, onDead() {} });
sender.start();
setInterval(() => {}, 1000);
`;

test('1,000 queued events survive kill -9 and arrive once each in effect, in order', { timeout: 90_000 }, async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'trunkline-events-'));
  const seen = new Map<string, { call: string; sequence: number }>();
  const lastOf = new Map<string, number>();
  const outOfOrder: string[] = [];
  let repeated = 0;
  const server = await startReceiver((request, response) => {
    const { call_id: call, sequence } = JSON.parse(request.body);
    const id = String(request.headers['webhook-id']);
    if (seen.has(id)) repeated += 1;
    else if (sequence !== (lastOf.get(call) ?? 0) + 1) outOfOrder.push(`${call} ${sequence}`);
    seen.set(id, { call, sequence });
    lastOf.set(call, sequence);
    response.writeHead(204).end();
  });
  const run = (queue: string) =>
    spawn(
      process.execPath,
      ['--input-type=module', '-e', program, path.join(folder, 'trunkline.db'), server.url, queue],
      {
        stdio: ['ignore', 'inherit', 'inherit'],
      },
    );
  const gone = (child: ReturnType<typeof run>) => new Promise((resolve) => child.once('exit', resolve));
  let child = run('queue');
  try {
    await vi.waitFor(() => expect(seen.size).toBeGreaterThan(200), { timeout: 30_000, interval: 5 });
    const killed = gone(child);
    child.kill('SIGKILL');
    await killed;
    expect(seen.size).toBeLessThan(1000);
    child = run('go on');
    await vi.waitFor(() => expect(seen.size).toBe(1050), { timeout: 50_000, interval: 50 });
    expect(outOfOrder).toEqual([]);
    // Only what was in flight at the kill may come twice: one a slot.
    expect(repeated).toBeLessThanOrEqual(8);
    // The new process also closed the calls of the dead one, and told of that: the 21st event of each.
    expect([...lastOf.values()]).toEqual(Array(50).fill(21));
  } finally {
    const ended = gone(child);
    child.kill('SIGKILL');
    await ended;
    await server.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
