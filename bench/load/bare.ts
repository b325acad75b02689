/**
 * The least that a call can cost in Node: a datagram of the caller becomes a WebSocket message at once, the agent's message a datagram, and
 * nothing else: no SIP, no clock, no playout, no counting. What the gateway costs more than this is its own.
 */

import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { WebSocket } from 'ws';

export type BareOrder = { kind: 'open'; calls: number; url: string; certificate: string };
export type BareAnswer = { kind: 'opened'; ports: number[] };

const headerBytes = 12;

async function openCall(index: number, url: string, certificate: string): Promise<number> {
  const agent = new WebSocket(url, { perMessageDeflate: false, ca: certificate });
  await once(agent, 'open');
  const start = { event: 'start', from: String(index), format: { encoding: 'ulaw', sample_rate: 8000 } };
  agent.send(JSON.stringify(start));
  const rtp = createSocket({ type: 'udp4', lookup: (name, _options, done) => done(null, name, 4) });
  const listening = once(rtp, 'listening');
  rtp.bind(0, '127.0.0.1');
  await listening;
  let [address, port] = ['', 0];
  rtp.on('message', (packet, from) => {
    address = from.address;
    port = from.port;
    agent.send(packet.subarray(headerBytes));
  });
  const packet = new Uint8Array(headerBytes + 160);
  packet[0] = 0x80;
  let sequence = 0;
  agent.on('message', (data: Buffer) => {
    packet.set(data.subarray(0, 160), headerBytes);
    sequence += 1;
    packet[2] = sequence >> 8;
    packet[3] = sequence;
    const timestamp = sequence * 160;
    packet[4] = timestamp >>> 24;
    packet[5] = timestamp >>> 16;
    packet[6] = timestamp >>> 8;
    packet[7] = timestamp;
    if (port > 0) rtp.send(packet, 0, packet.length, port, address);
  });
  return rtp.address().port;
}

process.on('message', async ({ calls, url, certificate }: BareOrder) => {
  const ports: number[] = [];
  for (let index = 0; index < calls; index++) ports.push(await openCall(index, url, certificate));
  process.send?.({ kind: 'opened', ports } satisfies BareAnswer);
});
process.on('disconnect', () => process.exit());
