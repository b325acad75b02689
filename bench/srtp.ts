/**
 * What SRTP costs per packet of 20 ms of G.711 (RFC 3711, AES_CM_128_HMAC_SHA1_80): ours, and for comparison a fresh cipher and HMAC of
 * node:crypto for every packet. Run: `npm run build && node dist/bench/srtp.js`
 */
import { createCipheriv, createHmac, randomBytes } from 'node:crypto';
import { writeRtpHeader } from '../media/rtp/packet.js';
import { derived, Srtp } from '../media/rtp/srtp.js';

const PACKETS = 100_000;
const ROUNDS = 5;
const LENGTH = 172;
const master = randomBytes(30);
const packet = new Uint8Array(LENGTH).fill(0x55);
const into = new Uint8Array(LENGTH + 14);

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
const sender = new Srtp('AES_CM_128_HMAC_SHA1_80', master);
const both = {
  sender: new Srtp('AES_CM_128_HMAC_SHA1_80', master),
  receiver: new Srtp('AES_CM_128_HMAC_SHA1_80', master),
};
measure('protect', (sequence) => {
  header(sequence);
  sender.protect(packet, LENGTH, into);
});
measure('protect and unprotect', (sequence) => {
  header(sequence);
  const length = both.sender.protect(packet, LENGTH, into);
  if (both.receiver.unprotect(into.subarray(0, length)) !== LENGTH) throw new Error('It did not come back');
});
const [key, auth] = [derived(master, 0, 16), derived(master, 1, 20)];
const iv = randomBytes(16);
measure('protect, with new node:crypto objects each', (sequence) => {
  header(sequence);
  const body = createCipheriv('aes-128-ctr', key, iv).update(packet.subarray(12));
  const tag = createHmac('sha1', auth).update(packet.subarray(0, 12)).update(body).digest();
  into.set(body, 12);
  into.set(tag.subarray(0, 10), LENGTH);
});
