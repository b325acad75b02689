/** How long a command to a call of another node takes. `npm run test:nodes`. */
import { expect, it } from 'vitest';
import { Store } from '../../src/store/store.js';
import { query, startPostgres } from '../support/postgres-server.js';

const commands = 500;

it('a command to a call of another node is answered, and takes as long as is printed', async ({ onTestFinished }) => {
  const postgres = await startPostgres();
  onTestFinished(() => postgres.stop());
  await query(postgres.url('postgres'), 'create database commands');
  const open = async (nodeName: string) => {
    const store = await Store.open({ url: postgres.url('commands'), nodeName, process: { host: nodeName } });
    onTestFinished(() => store.close());
    return store;
  };
  const [one, two] = [await open('one'), await open('two')];
  const organizationId = (await one.organizations.create({ name: 'A', tier: 'free' })).id;
  const id = one.calls.begin({
    ...{ organizationId, mode: 'live', direction: 'inbound', fromNumber: 'x', toNumber: 'y' },
    ...{ phoneNumberId: 'n', endpointId: null },
  });
  await one.calls.flush();
  one.nodeCommands?.serve(async (callId, command) => `${callId} ${command}`);
  const tookMs: number[] = [];
  for (let i = 0; i < commands; i++) {
    const startedMs = performance.now();
    expect(await two.nodeCommands?.send(id, `command ${i}`)).toMatchObject({ answer: `${id} command ${i}` });
    tookMs.push(performance.now() - startedMs);
  }
  tookMs.sort((a, b) => a - b);
  const at = (share: number) => tookMs[Math.floor(share * commands)]?.toFixed(1);
  console.log(
    `${commands} commands to another node, one after the other: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, worst ${tookMs.at(-1)?.toFixed(1)} ms (aim: p99 50 ms)`,
  );
  const left = () => query(postgres.url('commands'), 'select count(*)::int as n from node_commands');
  await expect.poll(left).toEqual([{ n: 0 }]);
}, 120_000);
