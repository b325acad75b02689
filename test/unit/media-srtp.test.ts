import { createCipheriv, createHmac, randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { writeRtpHeader } from '../../media/rtp/packet.js';
import { PacketWindow } from '../../media/rtp/packet-window.js';
import { HmacSha1 } from '../../media/rtp/srtp/hmac-sha1.js';
import { Srtp } from '../../media/rtp/srtp/srtp.js';
import { GaloisMode } from '../../media/rtp/srtp/srtp-galois.js';
import { derived, type SrtpSuite, srtpKeyBytes, srtpOverheadBytes } from '../../media/rtp/srtp/srtp-suites.js';

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

describe('test vectors of AES-GCM (RFC 7714 sections 16 and 17)', () => {
  const salt = bytes('517569642070726f2071756f');
  const keyOf = (length: number) => Uint8Array.from({ length }, (_, i) => i);
  const rtpPlain = bytes(
    '8040f17b8041f8d35501a0b2 47616c6c696120657374206f6d6e69732064697669736120696e207061727465732074726573',
  );
  const rtcpPlain = bytes(
    '81c8000d4d617273 4e5450314e545032525450200000042a0000e9304c756e61deadbeefdeadbeefdeadbeefdeadbeefdeadbeef',
  );

  it.each([
    [
      16,
      'f24de3a3fb34de6cacba861c9d7e4bcabe633bd50d294e6f42a5f47a51c7d19b36de3adf8833899d7f27beb16a9152cf765ee4390cce',
    ],
    [
      32,
      '32b1de78a822fe12ef9f78fa332e33aab18012389a58e2f3b50b2a0276ffae0f1ba63799b87b7aa3db36dfffd6b0f9bb7878d7a76c13',
    ],
  ])('RTP with a key of %d bytes', (length, expected) => {
    const into = new Uint8Array(rtpPlain.length + 16);
    const mode = new GaloisMode(keyOf(length), salt);
    expect(mode.seal(rtpPlain, 12, rtpPlain.length, into, 0x5501a0b2, 0xf17b)).toBe(into.length);
    expect(hex(into)).toBe(hex(rtpPlain.subarray(0, 12)) + expected.toUpperCase());
    expect(mode.open(into, 12, rtpPlain.length, 0x5501a0b2, 0xf17b)).toBe(true);
    expect(hex(into.subarray(0, rtpPlain.length))).toBe(hex(rtpPlain));
  });

  it.each([
    [
      16,
      '63e94885dcdab67ca727d7662f6b7e997ff5c0f76c06f32dc676a5f1730d6fda4ce09b4686303ded0bb9275bc84aa45896cf4d2fc5abf87245d9eade800005d4',
    ],
    [
      32,
      'd50ae4d1f5ce5d304ba297e47d470c282c3ece5dbffe0a50a2eaa5c1110555be8415f658c61de0476f1b6fad1d1eb30c4446839f57ff6f6cb26ac3be800005d4',
    ],
  ])('RTCP with a key of %d bytes', (length, expected) => {
    const into = new Uint8Array(rtcpPlain.length + 20);
    const mode = new GaloisMode(keyOf(length), salt);
    mode.sealRtcp(rtcpPlain, into, 0x4d617273, 0x8000_05d4);
    expect(hex(into)).toBe(hex(rtcpPlain.subarray(0, 8)) + expected.toUpperCase());
    expect(mode.openRtcp(into, rtcpPlain.length, 0x4d617273, 0x8000_05d4)).toBe(true);
    expect(hex(into.subarray(0, rtcpPlain.length))).toBe(hex(rtcpPlain));
  });

  it('RTCP that is signed and not encrypted', () => {
    const packet = bytes(`${hex(rtcpPlain)}841dd9683dd78ec92ae58790125f62b3000005d4`);
    const mode = new GaloisMode(keyOf(16), salt);
    expect(mode.openRtcp(packet, rtcpPlain.length, 0x4d617273, 0x5d4)).toBe(true);
    expect(hex(packet.subarray(0, rtcpPlain.length))).toBe(hex(rtcpPlain));
    packet[20] = 0xff;
    expect(mode.openRtcp(packet, rtcpPlain.length, 0x4d617273, 0x5d4)).toBe(false);
  });

  it('the salt of a session from a short master salt', () => {
    const keys = new Uint8Array([...keyOf(16), ...Array.from({ length: 12 }, (_, i) => 0x40 + i)]);
    expect(hex(derived(keys, 2, 12))).toBe('1FCD5D561E66DC49EC1C3CCB');
  });
});

const ssrc = 0xcafebabe;
function byCounterMode(key: Uint8Array, plain: Uint8Array, sequence: number, rollovers: number, tagBytes: number) {
  const [aes, auth, salt] = [derived(key, 0, 16), derived(key, 1, 20), derived(key, 2, 14)];
  const iv = Buffer.concat([salt, Buffer.alloc(2)]);
  iv.writeUInt32BE((iv.readUInt32BE(4) ^ ssrc) >>> 0, 4);
  iv.writeUInt32BE((iv.readUInt32BE(8) ^ rollovers) >>> 0, 8);
  iv.writeUInt16BE(iv.readUInt16BE(12) ^ sequence, 12);
  const body = createCipheriv('aes-128-ctr', aes, iv).update(plain.subarray(12));
  const count = Buffer.alloc(4);
  count.writeUInt32BE(rollovers);
  const signed = Buffer.concat([plain.subarray(0, 12), body]);
  const tag = createHmac('sha1', auth).update(signed).update(count).digest().subarray(0, tagBytes);
  return Buffer.concat([signed, tag]);
}

function byGcm(key: Uint8Array, plain: Uint8Array, sequence: number, rollovers: number) {
  const keyBytes = key.length === 44 ? 32 : 16;
  const iv = Buffer.from(derived(key, 2, 12, keyBytes));
  iv.writeUInt32BE((iv.readUInt32BE(2) ^ ssrc) >>> 0, 2);
  iv.writeUInt32BE((iv.readUInt32BE(6) ^ rollovers) >>> 0, 6);
  iv.writeUInt16BE(iv.readUInt16BE(10) ^ sequence, 10);
  const cipher = createCipheriv(`aes-${keyBytes === 32 ? 256 : 128}-gcm`, derived(key, 0, keyBytes, keyBytes), iv);
  cipher.setAAD(plain.subarray(0, 12));
  const body = Buffer.concat([cipher.update(plain.subarray(12)), cipher.final()]);
  return Buffer.concat([plain.subarray(0, 12), body, cipher.getAuthTag()]);
}

function rtp(sequence: number, fill: number, size = 160): Uint8Array {
  const packet = new Uint8Array(12 + size).fill(fill);
  writeRtpHeader(packet, 0, false, sequence & 0xffff, 7, ssrc);
  return packet;
}

describe.each<[SrtpSuite, number]>([
  ['AES_CM_128_HMAC_SHA1_80', 10],
  ['AES_CM_128_HMAC_SHA1_32', 4],
  ['AEAD_AES_128_GCM', 16],
  ['AEAD_AES_256_GCM', 16],
])('%s', (suite, tagBytes) => {
  const isGcm = tagBytes === 16;
  const key = randomBytes(srtpKeyBytes(suite));
  const pair = () => ({ sender: new Srtp(suite, key), receiver: new Srtp(suite, key) });
  const secured = (srtp: Srtp, packet: Uint8Array) => {
    const into = new Uint8Array(packet.length + srtpOverheadBytes);
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

  it('is what OpenSSL makes, beyond the first rollover too', () => {
    const { sender } = pair();
    for (const [sequence, rollovers] of [
      [65_535, 0],
      [3, 1],
      [30_000, 1],
      [60_000, 1],
      [7, 2],
    ] as const) {
      const plain = rtp(sequence, 0x33);
      const expected = (isGcm ? byGcm : byCounterMode)(key, plain, sequence, rollovers, tagBytes);
      expect(hex(secured(sender, plain))).toBe(hex(expected));
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
    expect(opened(new Srtp(suite, randomBytes(key.length)), good)).toBeNull();
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
    expect(out.length).toBe(report.length + (isGcm ? 20 : 14));
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
