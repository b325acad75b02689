/** What scanners send: REGISTER and OPTIONS for one user after the other, malformed (400), as fast as told. */
import { createSocket } from 'node:dgram';

export function flood(port: number, perSec: number, seconds: number): Promise<void> {
  const socket = createSocket('udp4');
  const packet = (i: number) => {
    const method = i % 2 ? 'REGISTER' : 'OPTIONS';
    return [
      `${method} sip:${i % 10_000}@127.0.0.1 SIP/2.0`,
      `Via: SIP/2.0/UDP 127.0.0.1:5999;branch=z9hG4bK-${i};rport`,
      `From: <sip:${i % 10_000}@127.0.0.1>;tag=${i}`,
      `To: <sip:${i % 10_000}@127.0.0.1>`,
      `Call-ID: ${i}@scanner`,
      'CSeq: 1 BYE',
      'Max-Forwards: 70',
      'Content-Length: 0',
      '',
      '',
    ].join('\r\n');
  };
  const startMs = performance.now();
  let sent = 0;
  return new Promise((resolve) => {
    const timer = setInterval(() => {
      const due = Math.min((performance.now() - startMs) / 1000, seconds) * perSec;
      while (sent < due) socket.send(packet(sent++), port, '127.0.0.1');
      if (sent < perSec * seconds) return;
      clearInterval(timer);
      socket.close(() => resolve());
    }, 1);
  });
}
