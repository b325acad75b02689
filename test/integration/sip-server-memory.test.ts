import { setTimeout as sleep } from 'node:timers/promises';
import type Srf from 'drachtio-srf';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openServer, type RunningServer } from '../../sip/server/server.js';
import { collectGarbage } from '../support/collect-garbage.js';
import { oddMessages } from '../support/odd-messages.js';
import { SipPeer } from '../support/sip-peer.js';
import { connect, FAST_TIMERS } from '../support/sip-server.js';

const host = '127.0.0.1';
const failures: unknown[] = [];
/** In this thread, whose collector can be asked, and not in a worker. */
let server: RunningServer;
let srf: Srf;
let peer: SipPeer;

beforeAll(async () => {
  const listen = [{ transport: 'udp' as const, host, port: 0 }];
  server = await openServer({ listen, timersMs: FAST_TIMERS }, (error) => failures.push(error));
  srf = await connect(server as never);
  srf.invite((_req, res) => {
    res.send(486);
  });
  peer = await SipPeer.open(server.addresses[0]!.port);
});
afterAll(async () => {
  await peer.close();
  srf.disconnect();
  await server.close();
});

const live = () => {
  const { transactions, dialogs } = server.stats().live;
  return transactions + dialogs;
};

const waves = process.env.FAULTS === 'long' ? 60 : 8;

it(
  'malformed messages leave nothing in memory',
  async () => {
    const perWave = 1000;
    const usedKb: number[] = [];
    for (let wave = 0; wave < waves; wave++) {
      for (let sent = 0; sent < perWave; sent += 100) {
        for (const message of oddMessages(peer, 100, wave * perWave + sent)) peer.send(message);
        await sleep(10);
      }
      await expect.poll(live, { timeout: 20_000 }).toBe(0);
      peer.received.length = 0;
      collectGarbage();
      usedKb.push(Math.round(process.memoryUsage().heapUsed / 1024));
    }
    expect(failures).toEqual([]);
    expect(server.stats().messagesReceived).toBeGreaterThan((waves * perWave) / 2);
    // Code is compiled and tables find their size at first; then 100 bytes kept of each message would be more than this.
    const half = usedKb.slice(waves / 3);
    expect(half.at(-1)! - half[0]!, `kB: ${usedKb.join(' ')}`).toBeLessThan((half.length * perWave) / 10);
  },
  22_500 * waves,
);
