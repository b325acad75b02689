import { createCipheriv, createHmac, randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { HmacSha1 } from '../../media/rtp/hmac-sha1.js';
import { writeRtpHeader } from '../../media/rtp/packet.js';
import { PacketWindow } from '../../media/rtp/packet-window.js';
import { derived, Srtp, type SrtpSuite } from '../../media/rtp/srtp.js';

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex').toUpperCase();
const bytes = (text: string) => new Uint8Array(Buffer.from(text.replace(/\s/g, ''), 'hex'));

/** RFC 3711 appendix B.3, and of RFC 3711 B.2 the keystream: a derivation with label 0 is one at index 0 of SSRC 0. */
const master = bytes('E1F97A0D3E018BE0D64FA32C06DE4139 0EC675AD498AFEEBB6960B3AABE6');
const counterMode = bytes('2B7E151628AED2A6ABF7158809CF4F3C F0F1F2F3F4F5F6F7F8F9FAFBFCFD');

describe('test vectors', () => {
  it.each([
    ['cipher key', master, 0, 'C61E7A93744F39EE10734AFE3FF7A087'],
    ['cipher salt', master, 2, '30CBBC08863D8C85D49DB34A9AE1'],
    [
      'auth key',
      master,
      1,
      'CEBE321F6FF7716B6FD4AB49AF256A156D38BAA48F0A0ACF3C34E2359E6CDBCEE049646C43D9327AD175578EF72270986371C10C9A369AC2F94A8C5FBCDDDC256D6E919A48B610EF17C2041E47403576'.slice(
        0,
        80,
      ),
    ],
    [
      'keystream',
      counterMode,
      0,
      'E03EAD0935C95E80E166B16DD92B4EB4D23513162B02D0F72A43A2FE4A5F97AB41E95B3BB0A2E8DD477901E4FCA894C0',
    ],
  ])('%s', (_what, key, label, expected) => {
    expect(hex(derived(key, label, expected.length / 2))).toBe(expected);
  });

  it('a whole packet', () => {
    const plain = bytes('800f1234decafbadcafebabe abababababababababababababababab');
    const into = new Uint8Array(64);
    const length = new Srtp('AES_CM_128_HMAC_SHA1_80', master).protect(plain, plain.length, into);
    const expected = '800f1234decafbadcafebabe4e55dc4ce79978d88ca4d215949d2402b78d6acc99ea179b8dbb';
    expect(hex(into.subarray(0, length))).toBe(expected.toUpperCase());
  });

  it('HMAC-SHA1 of any length is what OpenSSL says', () => {
    const key = randomBytes(20);
    const mac = new HmacSha1(key);
    for (let length = 0; length < 300; length++) {
      const message = randomBytes(length + 3);
      mac.sign(message, length);
      expect(hex(mac.digest)).toBe(
        createHmac('sha1', key).update(message.subarray(0, length)).digest('hex').toUpperCase(),
      );
    }
  });
});

const ssrc = 0xcafebabe;
function rtp(sequence: number, fill: number, size = 160): Uint8Array {
  const packet = new Uint8Array(12 + size).fill(fill);
  writeRtpHeader(packet, 0, false, sequence & 0xffff, 7, ssrc);
  return packet;
}

describe.each<[SrtpSuite, number]>([
  ['AES_CM_128_HMAC_SHA1_80', 10],
  ['AES_CM_128_HMAC_SHA1_32', 4],
])('%s', (suite, tagBytes) => {
  const key = randomBytes(30);
  const pair = () => ({ sender: new Srtp(suite, key), receiver: new Srtp(suite, key) });
  const secured = (srtp: Srtp, packet: Uint8Array) => {
    const into = new Uint8Array(packet.length + 14);
    return into.slice(0, srtp.protect(packet, packet.length, into));
  };
  const opened = (srtp: Srtp, packet: Uint8Array) => {
    const copy = packet.slice();
    const length = srtp.unprotect(copy);
    return length < 0 ? null : copy.slice(0, length);
  };

  it('comes back as it was, of every size, with extension and CSRC; its header stays readable', () => {
    const { sender, receiver } = pair();
    let sequence = 60_000;
    for (const size of [0, 1, 15, 16, 17, 160, 480]) {
      const plain = rtp(sequence++, 0x5a, size);
      const out = secured(sender, plain);
      expect(out.length).toBe(plain.length + tagBytes);
      expect(out.subarray(0, 12)).toEqual(plain.subarray(0, 12));
      expect(opened(receiver, out)).toEqual(plain);
    }
    const extended = new Uint8Array([...rtp(sequence, 1, 0), 1, 2, 3, 4, 0xbe, 0xde, 0, 1, 9, 9, 9, 9, 7, 7, 7]);
    extended[0] = 0x91;
    const out = secured(sender, extended);
    expect(out.subarray(0, 24)).toEqual(extended.subarray(0, 24));
    expect(opened(receiver, out)).toEqual(extended);
  });

  it('is what AES in counter mode and HMAC of OpenSSL make, beyond the first rollover too', () => {
    const { sender } = pair();
    const [aes, auth, salt] = [derived(key, 0, 16), derived(key, 1, 20), derived(key, 2, 14)];
    for (const [sequence, rollovers] of [
      [65_535, 0],
      [3, 1],
      [30_000, 1],
      [60_000, 1],
      [7, 2],
    ] as const) {
      const plain = rtp(sequence, 0x33);
      const iv = Buffer.concat([salt, Buffer.alloc(2)]);
      iv.writeUInt32BE((iv.readUInt32BE(4) ^ ssrc) >>> 0, 4);
      iv.writeUInt32BE((iv.readUInt32BE(8) ^ rollovers) >>> 0, 8);
      iv.writeUInt16BE(iv.readUInt16BE(12) ^ sequence, 12);
      const body = createCipheriv('aes-128-ctr', aes, iv).update(plain.subarray(12));
      const count = Buffer.alloc(4);
      count.writeUInt32BE(rollovers);
      const signed = Buffer.concat([plain.subarray(0, 12), body]);
      const tag = createHmac('sha1', auth).update(signed).update(count).digest().subarray(0, tagBytes);
      expect(hex(secured(sender, plain))).toBe(hex(Buffer.concat([signed, tag])));
    }
  });

  it('a changed bit anywhere, a cut packet and another key are refused, and cost the stream nothing', () => {
    const { sender, receiver } = pair();
    const good = secured(sender, rtp(1, 1));
    for (let at = 0; at < good.length; at += 5) {
      const bad = good.slice();
      bad[at] = bad[at]! ^ 0x10;
      expect(opened(receiver, bad), String(at)).toBeNull();
    }
    for (let length = 0; length < good.length; length++) expect(opened(receiver, good.slice(0, length))).toBeNull();
    expect(opened(new Srtp(suite, randomBytes(30)), good)).toBeNull();
    expect(opened(receiver, good)).not.toBeNull();
  });

  it('a replayed packet is refused; reordered ones around a rollover are not', () => {
    const { sender, receiver } = pair();
    const order = [65_530, 65_531, 65_532, 65_533, 65_534, 65_535, 65_536, 65_537, 65_538];
    const sent = new Map(order.map((n) => [n, secured(sender, rtp(n, n & 0xff))]));
    for (const n of [65_530, 65_532, 65_536, 65_531, 65_535, 65_538, 65_534, 65_537, 65_533]) {
      expect(opened(receiver, sent.get(n)!), String(n)).toEqual(rtp(n, n & 0xff));
      expect(opened(receiver, sent.get(n)!), `${n} again`).toBeNull();
    }
  });

  it('no number is used twice by us', () => {
    const { sender } = pair();
    expect(secured(sender, rtp(9, 1)).length).toBeGreaterThan(0);
    expect(secured(sender, rtp(9, 2)).length).toBe(0);
  });

  it('a new stream of the same far side counts for itself', () => {
    const { sender, receiver } = pair();
    const other = rtp(3, 5);
    other[8] = 1;
    for (const packet of [rtp(65_535, 1), rtp(0, 2), other, rtp(1, 3)])
      expect(opened(receiver, secured(sender, packet))).toEqual(packet);
  });

  it('RTCP: comes back as it was, once; 80 bits sign it', () => {
    const { sender, receiver } = pair();
    const report = bytes('80c90001cafebabe 81ca000400000001 01026869 00000000');
    const out = sender.protectRtcp(report);
    expect(out.length).toBe(report.length + 14);
    expect(hex(out.subarray(0, 8))).toBe(hex(report.subarray(0, 8)));
    expect(hex(out.subarray(8, report.length))).not.toBe(hex(report.subarray(8)));
    const second = sender.protectRtcp(report);
    for (const packet of [second, out]) {
      const copy = packet.slice();
      expect(receiver.unprotectRtcp(copy)).toBe(report.length);
      expect(hex(copy.subarray(0, report.length))).toBe(hex(report));
      expect(receiver.unprotectRtcp(packet.slice())).toBe(-1);
    }
    for (let length = 0; length < out.length; length++) expect(receiver.unprotectRtcp(out.slice(0, length))).toBe(-1);
  });

  it('any bytes are refused without a throw', () => {
    const { receiver } = pair();
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (packet) => {
        expect(receiver.unprotect(packet.slice())).toBe(-1);
        expect(receiver.unprotectRtcp(packet.slice())).toBe(-1);
      }),
      { numRuns: 500 },
    );
  });
});

it('the window knows every number once, whatever order and loss (against a plain set)', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 65_535 }),
      fc.array(fc.integer({ min: -400, max: 900 }), { maxLength: 400 }),
      (start, steps) => {
        const window = new PacketWindow();
        const known = new Set<number>();
        let newest = start;
        const take = (n: number) => {
          const index = window.indexOf(((n % 65_536) + 65_536) % 65_536);
          expect(index).toBe(n);
          expect(window.isNew(index)).toBe(!known.has(n));
          window.add(index);
          known.add(n);
          newest = Math.max(newest, n);
        };
        take(start);
        for (const step of steps) if (newest + step >= 0) take(newest + step);
      },
    ),
  );
});
