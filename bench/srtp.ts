/**
 * What SRTP costs per packet of 20 ms of G.711: ours, suite by suite (RFC 3711, RFC 7714), and for comparison AES-CM with a fresh cipher and
 * HMAC of node:crypto for every packet. Run: `npm run build && node dist/bench/srtp.js`
 */
import { createCipheriv, createHmac, randomBytes } from 'node:crypto';
import { writeRtpHeader } from '../media/rtp/packet.js';
import { Srtp } from '../media/rtp/srtp/srtp.js';
import { derived, srtpKeyBytes, srtpOverheadBytes, srtpSuiteNames } from '../media/rtp/srtp/srtp-suites.js';

const PACKETS = 100_000;
const ROUNDS = 5;
const LENGTH = 172;
const master = randomBytes(30);
const packet = new Uint8Array(LENGTH).fill(0x55);
const into = new Uint8Array(LENGTH + srtpOverheadBytes);

function measure(name: string, once: (sequence: number) => void): void {
  const figures: number[] = [];
  let heapBytes = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const heap = process.memoryUsage().heapUsed;
    const started = performance.now();
    for (let i = 0; i < PACKETS; i++) once(round * PACKETS + i);
    figures.push(((performance.now() - started) / PACKETS) * 1000);
    heapBytes = Math.max(0, process.memoryUsage().heapUsed - heap);
  }
  figures.sort((a, b) => a - b);
  const median = figures[Math.floor(ROUNDS / 2)] ?? 0;
  console.log(
    `${name.padEnd(44)} ${median.toFixed(2).padStart(6)} us a packet, heap +${(heapBytes / 2 ** 20).toFixed(1)} MiB a round`,
  );
}

const header = (sequence: number) => writeRtpHeader(packet, 0, false, sequence & 0xffff, sequence * 160, 7);
for (const suite of srtpSuiteNames) {
  const keys = randomBytes(srtpKeyBytes(suite));
  const alone = new Srtp(suite, keys);
  measure(`${suite}: protect`, (sequence) => {
    header(sequence);
    alone.protect(packet, LENGTH, into);
  });
  const [sender, receiver] = [new Srtp(suite, keys), new Srtp(suite, keys)];
  measure(`${suite}: and unprotect`, (sequence) => {
    header(sequence);
    const length = sender.protect(packet, LENGTH, into);
    if (receiver.unprotect(into.subarray(0, length)) !== LENGTH) throw new Error('It did not come back');
  });
}
const [key, auth] = [derived(master, 0, 16), derived(master, 1, 20)];
const iv = randomBytes(16);
measure('AES_CM_128_HMAC_SHA1_80 by node:crypto', (sequence) => {
  header(sequence);
  const body = createCipheriv('aes-128-ctr', key, iv).update(packet.subarray(12));
  const tag = createHmac('sha1', auth).update(packet.subarray(0, 12)).update(body).digest();
  into.set(body, 12);
  into.set(tag.subarray(0, 10), LENGTH);
});
