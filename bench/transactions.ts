/**
 * What a transaction keeps once it is finally answered. Run: `npm run build && node --expose-gc dist/bench/transactions.js [--count 10000]`
 *
 * INVITEs without ACK, refused by the server itself: each stays for 64·T1 with the bytes of its answer, for the repeats.
 */
import { createSocket } from 'node:dgram';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { openServer } from '../sip/server/server.js';

const { values } = parseArgs({ options: { count: { type: 'string', default: '10000' } } });
const count = Number(values.count);
const collect = globalThis.gc;
if (!collect) throw new Error('Run with --expose-gc.');

const listen = [{ transport: 'udp' as const, host: '127.0.0.1', port: 0 }];
const timersMs = { t1: 60_000, t2: 60_000 }; // no transaction repeats or expires during the measurement
const server = await openServer({ listen, timersMs }, (error) => process.stderr.write(`${String(error)}\n`));
const port = server.addresses[0]?.port ?? 0;
const socket = createSocket('udp4');
const sdp = 'v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 40000 RTP/AVP 0\r\n';
let sent = 0;
async function invite(until: number): Promise<void> {
  for (; sent < until; sent++) {
    socket.send(
      `INVITE sip:+15550100@127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:5999;branch=z9hG4bKt${sent}\r\nMax-Forwards: 70\r\n` +
        `From: <sip:a@127.0.0.1>;tag=${sent}\r\nTo: <sip:+15550100@127.0.0.1>\r\nCall-ID: ${sent}@bench\r\nCSeq: 1 INVITE\r\n` +
        `Contact: <sip:a@127.0.0.1>\r\nContent-Type: application/sdp\r\nContent-Length: ${sdp.length}\r\n\r\n${sdp}`,
      port,
      '127.0.0.1',
    );
    if (sent % 50 === 49) await sleep(2);
  }
  while (server.stats().live.transactions < until * 0.99) await sleep(20);
}
function kept(): number {
  collect?.();
  const { heapUsed, arrayBuffers, external } = process.memoryUsage();
  return heapUsed + Math.max(arrayBuffers, external);
}

await invite(1000);
const before = { bytes: kept(), transactions: server.stats().live.transactions };
await invite(1000 + count);
const after = { bytes: kept(), transactions: server.stats().live.transactions };
const each = (after.bytes - before.bytes) / (after.transactions - before.transactions);
process.stdout.write(`${after.transactions} transactions held, ${each.toFixed(0)} bytes each\n`);
socket.close();
await server.close();
