/** Sends every datagram back, and nothing else: what the load generator itself adds to its figures. */
import { createSocket } from 'node:dgram';

const socket = createSocket({
  type: 'udp4',
  recvBufferSize: 4_194_304,
  lookup: (name, _o, done) => done(null, name, 4),
});
socket.on('message', (packet, from) => socket.send(packet, 0, packet.length, from.port, from.address));
socket.bind(0, '127.0.0.1', () => process.send?.({ kind: 'listening', port: socket.address().port }));
process.on('disconnect', () => process.exit());
