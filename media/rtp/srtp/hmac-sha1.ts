/**
 * HMAC-SHA1 (RFC 2104, RFC 3174) with one key over many short messages, without allocation: node:crypto creates objects for each message,
 * which costs a media thread more than the arithmetic. SHA-1 uses no lookup tables, so its timing does not depend on the key.
 */

const blockBytes = 64;
export const sha1Bytes = 20;

const schedule = new Int32Array(80);
const tail = new Uint8Array(2 * blockBytes);

export class HmacSha1 {
  private readonly inner = new Int32Array(5);
  private readonly outer = new Int32Array(5);
  private readonly state = new Int32Array(5);
  readonly digest = new Uint8Array(sha1Bytes);

  /** `key`: at most 64 bytes. */
  constructor(key: Uint8Array) {
    const pad = new Uint8Array(blockBytes);
    pad.set(key);
    for (let i = 0; i < blockBytes; i++) pad[i] = pad[i]! ^ 0x36;
    begin(this.inner);
    compress(this.inner, pad, 0);
    for (let i = 0; i < blockBytes; i++) pad[i] = pad[i]! ^ 0x36 ^ 0x5c;
    begin(this.outer);
    compress(this.outer, pad, 0);
  }

  /** Signs the first `length` bytes; `digest` holds the result until the next call. */
  sign(bytes: Uint8Array, length: number): void {
    const { state, digest } = this;
    state.set(this.inner);
    const whole = length - (length % blockBytes);
    for (let at = 0; at < whole; at += blockBytes) compress(state, bytes, at);
    const left = length - whole;
    for (let i = 0; i < left; i++) tail[i] = bytes[whole + i]!;
    finish(state, left, blockBytes + length);
    write(state, digest);
    state.set(this.outer);
    for (let i = 0; i < sha1Bytes; i++) tail[i] = digest[i]!;
    finish(state, sha1Bytes, blockBytes + sha1Bytes);
    write(state, digest);
  }
}

function begin(state: Int32Array): void {
  state[0] = 0x67452301;
  state[1] = 0xefcdab89;
  state[2] = 0x98badcfe;
  state[3] = 0x10325476;
  state[4] = 0xc3d2e1f0;
}

/** Processes the last bytes, which lie in `tail`, with their padding; `total`: length of the whole message. */
function finish(state: Int32Array, left: number, total: number): void {
  const end = left + 9 > blockBytes ? 2 * blockBytes : blockBytes;
  tail[left] = 0x80;
  tail.fill(0, left + 1, end);
  const bits = total * 8;
  for (let i = 0; i < 4; i++) tail[end - 1 - i] = bits >>> (8 * i);
  compress(state, tail, 0);
  if (end > blockBytes) compress(state, tail, blockBytes);
}

function write(state: Int32Array, into: Uint8Array): void {
  for (let i = 0; i < 5; i++) {
    const word = state[i]!;
    into[4 * i] = word >>> 24;
    into[4 * i + 1] = word >>> 16;
    into[4 * i + 2] = word >>> 8;
    into[4 * i + 3] = word;
  }
}

function compress(state: Int32Array, bytes: Uint8Array, at: number): void {
  const w = schedule;
  for (let i = 0, p = at; i < 16; i++, p += 4) {
    w[i] = (bytes[p]! << 24) | (bytes[p + 1]! << 16) | (bytes[p + 2]! << 8) | bytes[p + 3]!;
  }
  for (let i = 16; i < 80; i++) {
    const x = w[i - 3]! ^ w[i - 8]! ^ w[i - 14]! ^ w[i - 16]!;
    w[i] = (x << 1) | (x >>> 31);
  }
  let a = state[0]!;
  let b = state[1]!;
  let c = state[2]!;
  let d = state[3]!;
  let e = state[4]!;
  // four loops: one with a branch in it is slower
  for (let i = 0; i < 20; i++) {
    const t = (((a << 5) | (a >>> 27)) + ((b & c) | (~b & d)) + 0x5a827999 + e + w[i]!) | 0;
    e = d;
    d = c;
    c = (b << 30) | (b >>> 2);
    b = a;
    a = t;
  }
  for (let i = 20; i < 40; i++) {
    const t = (((a << 5) | (a >>> 27)) + (b ^ c ^ d) + 0x6ed9eba1 + e + w[i]!) | 0;
    e = d;
    d = c;
    c = (b << 30) | (b >>> 2);
    b = a;
    a = t;
  }
  for (let i = 40; i < 60; i++) {
    const t = (((a << 5) | (a >>> 27)) + ((b & c) | (d & (b | c))) - 0x70e44324 + e + w[i]!) | 0;
    e = d;
    d = c;
    c = (b << 30) | (b >>> 2);
    b = a;
    a = t;
  }
  for (let i = 60; i < 80; i++) {
    const t = (((a << 5) | (a >>> 27)) + (b ^ c ^ d) - 0x359d3e2a + e + w[i]!) | 0;
    e = d;
    d = c;
    c = (b << 30) | (b >>> 2);
    b = a;
    a = t;
  }
  state[0] = state[0]! + a;
  state[1] = state[1]! + b;
  state[2] = state[2]! + c;
  state[3] = state[3]! + d;
  state[4] = state[4]! + e;
}
