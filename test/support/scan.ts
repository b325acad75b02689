/** A scan from many addresses of 127.0.0.0/8 at once, by a process of its own: what it costs is not ours. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';

export interface ScanPlan {
  /** Where the SIP server listens, on 127.0.0.1. */
  port: number;
  /** How many addresses send. */
  addresses: number;
  packetsPerSec: number;
  /** It ends by itself. */
  seconds: number;
}

export interface Scan {
  /** Resolves when the first packets are out. */
  begun: Promise<unknown>;
  /** Ends it, if it has not ended by itself. Resolves with how many packets were sent, and how many answers came. */
  stop(): Promise<{ sent: number; answers: number; seconds: number }>;
}

/** INVITEs, OPTIONS, REGISTERs, answers to nothing, and a broken request: each fifth packet is of one kind. */
const program = `
  const [port, addresses, perSec, seconds] = process.argv.slice(1).map(Number);
  const dgram = require('node:dgram');
  require('node:os').setPriority(5); // it stands for other machines: what it needs must not be taken from this one's work
  const methods = ['INVITE', 'OPTIONS', 'REGISTER'];
  let sent = 0, answers = 0;
  const packet = (host, n) => {
    if (n % 5 === 3) return 'SIP/2.0 200 OK\\r\\nVia: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bK' + n + '\\r\\nCSeq: 1 INVITE\\r\\n\\r\\n';
    if (n % 5 === 4) return 'INVITE sip:' + '%'.repeat(n % 50) + ' SIP/2.0\\r\\nX\\r\\n\\r\\n';
    const method = methods[n % 5];
    return method + ' sip:+1' + n + '@h SIP/2.0\\r\\nVia: SIP/2.0/UDP ' + host + ':5;rport;branch=z9hG4bKs' + n + '\\r\\nFrom: <sip:a@h>;tag=' + n +
      '\\r\\nTo: <sip:+1' + n + '@h>\\r\\nCall-ID: s' + n + '\\r\\nCSeq: 1 ' + method + '\\r\\nContact: <sip:a@h>\\r\\nContent-Length: 0\\r\\n\\r\\n';
  };
  const sockets = Array.from({ length: addresses }, (_, i) => {
    const host = '127.' + (10 + (i >> 8)) + '.' + (i & 255) + '.' + (1 + (i % 200));
    const socket = dgram.createSocket({ type: 'udp4', lookup: (address, _options, found) => found(null, address, 4) });
    socket.on('message', () => answers++);
    socket.on('error', () => undefined);
    return { host, socket, ready: new Promise((resolve) => socket.bind(0, host, resolve)) };
  });
  Promise.all(sockets.map((each) => each.ready)).then(() => {
    const beganMs = performance.now();
    const end = () => {
      clearInterval(timer);
      console.log(JSON.stringify({ sent, answers, seconds: (performance.now() - beganMs) / 1000 }));
      process.exit(0);
    };
    const timer = setInterval(() => {
      const elapsedMs = performance.now() - beganMs;
      if (elapsedMs > seconds * 1000) return end();
      const due = Math.min(sent + perSec / 50, (elapsedMs * perSec) / 1000);
      while (sent < due) {
        const { host, socket } = sockets[sent % addresses];
        socket.send(packet(host, sent++), port, '127.0.0.1');
      }
    }, 1);
    process.on('SIGTERM', end);
    process.on('disconnect', end);
    process.send('begun');
  });`;

/** Begins a scan. */
export function scan({ port, addresses, packetsPerSec, seconds }: ScanPlan): Scan {
  const values = [port, addresses, packetsPerSec, seconds].map(String);
  const child = spawn(process.execPath, ['-e', program, ...values], { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] });
  let said = '';
  child.stdout?.on('data', (chunk: Buffer) => {
    said += chunk.toString();
  });
  const gone = once(child, 'close');
  return {
    begun: once(child, 'message'),
    stop: async () => {
      if (child.exitCode === null) child.kill('SIGTERM');
      await gone;
      return JSON.parse(said);
    },
  };
}
