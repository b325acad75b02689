import ipaddr from 'ipaddr.js';
import type { TraceEntry } from '../../store/calls/call-records.js';

const rawIp = 101; // LINKTYPE_RAW: packets begin with the IP header
const udp = 17;
/** A UDP datagram cannot be larger; a message received over TCP can. */
const maxPayloadBytes = 65_000;
const hopLimit = 64;
/** The address shown for this server: the trace contains the remote address only. */
const ours = { address: '127.0.0.1', port: 5060 };
const oursIpv6 = { address: '::1', port: 5060 };
const unknownPeer = { address: '0.0.0.0', port: 5060 };

/** The SIP messages of a call as a capture file for Wireshark: each as one UDP datagram, regardless of its transport. */
export function tracePcap(messages: readonly TraceEntry[]): Buffer {
  const head = Buffer.alloc(24);
  head.writeUInt32LE(0xa1b2c3d4, 0);
  head.writeUInt16LE(2, 4);
  head.writeUInt16LE(4, 6);
  head.writeUInt32LE(262_144, 16);
  head.writeUInt32LE(rawIp, 20);
  return Buffer.concat([head, ...messages.flatMap(record)]);
}

function record({ at, direction, peer, message }: TraceEntry): Buffer[] {
  const packet = packetOf(peer ?? unknownPeer, direction === 'sent', Buffer.from(message).subarray(0, maxPayloadBytes));
  const atMs = Date.parse(at);
  const head = Buffer.alloc(16);
  head.writeUInt32LE(Math.floor(atMs / 1000), 0);
  head.writeUInt32LE((atMs % 1000) * 1000, 4);
  head.writeUInt32LE(packet.length, 8);
  head.writeUInt32LE(packet.length, 12);
  return [head, packet];
}

function packetOf(peer: { address: string; port: number }, sent: boolean, payload: Buffer): Buffer {
  const far = ipaddr.process(ipaddr.isValid(peer.address) ? peer.address : unknownPeer.address);
  const isIpv6 = far.kind() === 'ipv6';
  const near = isIpv6 ? oursIpv6 : ours;
  const nearBytes = ipaddr.parse(near.address).toByteArray();
  const [from, to] = sent ? [nearBytes, far.toByteArray()] : [far.toByteArray(), nearBytes];
  const datagram = Buffer.alloc(8);
  datagram.writeUInt16BE(sent ? near.port : peer.port, 0);
  datagram.writeUInt16BE(sent ? peer.port : near.port, 2);
  datagram.writeUInt16BE(8 + payload.length, 4); // checksum 0: not computed
  const length = 8 + payload.length;
  const ip = Buffer.alloc(isIpv6 ? 8 : 12);
  if (isIpv6) {
    ip[0] = 0x60;
    ip.writeUInt16BE(length, 4);
    ip[6] = udp;
    ip[7] = hopLimit;
  } else {
    ip[0] = 0x45;
    ip.writeUInt16BE(20 + length, 2);
    ip[8] = hopLimit;
    ip[9] = udp;
    ip.writeUInt16BE(headerChecksum([...ip, ...from, ...to]), 10);
  }
  return Buffer.concat([ip, Buffer.from([...from, ...to]), datagram, payload]);
}

/** RFC 791: the one's complement of the one's complement sum of the header's 16-bit words. */
function headerChecksum(bytes: readonly number[]): number {
  let sum = 0;
  for (let i = 0; i < bytes.length; i += 2) sum += ((bytes[i] ?? 0) << 8) | (bytes[i + 1] ?? 0);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return ~sum & 0xffff;
}
