import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { get } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { pino } from 'pino';
import { expect, it } from 'vitest';
import { testApi } from '../support/api.js';

it('a client that leaves in the middle of a recording is no error of the server', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'trunkline-aborted-'));
  const lines: string[] = [];
  const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) });
  const api = await testApi({ recordingsFolder: folder, log });
  await api.app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = api.app.server.address() as AddressInfo;
  const id = api.store.calls.begin({
    ...{ organizationId: api.a.organizationId, mode: 'live', direction: 'inbound', fromNumber: 'x', toNumber: 'y' },
    ...{ phoneNumberId: api.a.userId, endpointId: null },
  });
  const file = path.join(folder, '2026-01-15', `${id}.wav`);
  mkdirSync(path.dirname(file));
  writeFileSync(file, Buffer.alloc(30_000_000)); // more than sockets hold
  api.store.calls.recorded(id, pathToFileURL(file).href);
  const end = { status: 'completed', hangupCause: 'normal_clearing', hangupSource: 'caller', durationSec: 1 } as const;
  api.store.calls.finish(id, end);
  await new Promise<void>((resolve, reject) => {
    const options = { host: '127.0.0.1', port, path: `/v1/calls/${id}/recording`, headers: { 'x-api-key': api.a.key } };
    get(options, (response) => response.once('data', () => resolve(void response.destroy()))).on('error', reject);
  });
  const connections = () =>
    new Promise<number>((resolve) => api.app.server.getConnections((_error, count) => resolve(count)));
  await expect.poll(connections).toBe(0);
  await new Promise((resolve) => setImmediate(resolve));
  expect(lines.filter((line) => line.includes('failed'))).toEqual([]);
  await api.close();
  rmSync(folder, { recursive: true });
});
