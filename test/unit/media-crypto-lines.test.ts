import { describe, expect, it } from 'vitest';
import { MediaError, type SrtpPolicy } from '../../media/engine.js';
import { SdpNegotiation } from '../../media/sdp.js';
import { blanked } from '../../sip/trace.js';

const session = (srtp: SrtpPolicy) =>
  new SdpNegotiation({ address: '192.0.2.1', rtpPort: 10_000, codecs: ['PCMU'], srtp }, '77');
const key = (fill: number) => Buffer.alloc(30, fill).toString('base64');
const sdp = (protocol: string, ...lines: string[]) =>
  [
    'v=0',
    'o=- 1 1 IN IP4 198.51.100.7',
    's=-',
    'c=IN IP4 198.51.100.7',
    't=0 0',
    `m=audio 4000 ${protocol} 0`,
    ...lines,
    '',
  ].join('\r\n');
const crypto = (fill: number, suite = 'AES_CM_128_HMAC_SHA1_80', tag = 1, rest = '') =>
  `a=crypto:${tag} ${suite} inline:${key(fill)}${rest}`;
const ofType = (text: string, start: string) => text.split('\r\n').filter((line) => line.startsWith(start));

function outcome(run: () => string): string {
  try {
    const text = run();
    return `${/RTP\/\w+/.exec(text)?.[0]} ${ofType(text, 'a=crypto')
      .map((line) => line.split(' ')[1])
      .join()}`.trim();
  } catch (error) {
    if (error instanceof MediaError) return error.code;
    throw error;
  }
}
const sha80 = 'AES_CM_128_HMAC_SHA1_80';
const sha32 = 'AES_CM_128_HMAC_SHA1_32';
const gcm128 = 'AEAD_AES_128_GCM';
const gcm256 = 'AEAD_AES_256_GCM';
const all = [sha80, sha32, gcm128, gcm256];
/** Base64 with its filling, as RFC 4568 has it, and without, as some write it. */
const gcmLine = (suite: string, bytes: number, filled = true) =>
  `a=crypto:1 ${suite} inline:${Buffer.alloc(bytes, 3)
    .toString('base64')
    .replace(/=*$/, filled ? '$&' : '')}`;

describe('an offer', () => {
  it.each<[string, string, Record<SrtpPolicy, string>]>([
    ['without keys', sdp('RTP/AVP'), { off: 'RTP/AVP', allow: 'RTP/AVP', require: 'incompatible_media' }],
    [
      'with keys beside plain RTP',
      sdp('RTP/AVP', crypto(1)),
      { off: 'RTP/AVP', allow: `RTP/AVP ${sha80}`, require: `RTP/AVP ${sha80}` },
    ],
    [
      'with keys that must be used',
      sdp('RTP/SAVP', crypto(1)),
      { off: 'incompatible_media', allow: `RTP/SAVP ${sha80}`, require: `RTP/SAVP ${sha80}` },
    ],
    [
      'of RTP/SAVP without a key',
      sdp('RTP/SAVP'),
      { off: 'incompatible_media', allow: 'incompatible_media', require: 'incompatible_media' },
    ],
    [
      'of suites we have not, and then one we have',
      sdp('RTP/SAVP', crypto(1, 'F8_128_HMAC_SHA1_80'), crypto(2, sha32, 2), crypto(3, sha80, 3)),
      { off: 'incompatible_media', allow: `RTP/SAVP ${sha32}`, require: `RTP/SAVP ${sha32}` },
    ],
    ...[gcm128, gcm256].flatMap((suite): [string, string, Record<SrtpPolicy, string>][] =>
      [true, false].map((filled) => [
        `of ${suite}${filled ? '' : ', its base64 not filled up'}`,
        sdp('RTP/SAVP', gcmLine(suite, suite === gcm256 ? 44 : 28, filled)),
        { off: 'incompatible_media', allow: `RTP/SAVP ${suite}`, require: `RTP/SAVP ${suite}` },
      ]),
    ),
    [
      'of AES-GCM with a key of another length',
      sdp('RTP/SAVP', gcmLine(gcm256, 28), gcmLine(gcm128, 30)),
      { off: 'incompatible_media', allow: 'incompatible_media', require: 'incompatible_media' },
    ],
    [
      'with a lifetime',
      sdp('RTP/SAVP', crypto(1, sha80, 1, '|2^31')),
      { off: 'incompatible_media', allow: `RTP/SAVP ${sha80}`, require: `RTP/SAVP ${sha80}` },
    ],
    [
      'with a key index',
      sdp('RTP/SAVP', crypto(1, sha80, 1, '|2^20|1:4')),
      { off: 'incompatible_media', allow: 'incompatible_media', require: 'incompatible_media' },
    ],
    [
      'that leaves RTP in clear',
      sdp('RTP/SAVP', crypto(1, sha80, 1, ' UNENCRYPTED_SRTP')),
      { off: 'incompatible_media', allow: 'incompatible_media', require: 'incompatible_media' },
    ],
    [
      'with a short key',
      sdp('RTP/SAVP', `a=crypto:1 ${sha80} inline:AAAA`),
      { off: 'incompatible_media', allow: 'incompatible_media', require: 'incompatible_media' },
    ],
    [
      'of DTLS',
      sdp('UDP/TLS/RTP/SAVPF'),
      { off: 'incompatible_media', allow: 'incompatible_media', require: 'incompatible_media' },
    ],
  ])('%s', (_what, offer, expected) => {
    for (const policy of ['off', 'allow', 'require'] as const)
      expect(
        outcome(() => session(policy).answer(offer)),
        policy,
      ).toBe(expected[policy]);
  });

  it('is answered under its tag with a key of ours; theirs is what we receive with', () => {
    const us = session('require');
    const line = ofType(us.answer(sdp('RTP/SAVP', crypto(9, sha32, 7))), 'a=crypto')[0]!;
    const [, ours] = /^a=crypto:7 AES_CM_128_HMAC_SHA1_32 inline:(\S{40})$/.exec(line) ?? [];
    expect(Buffer.from(us.agreed!.srtp!.send).toString('base64')).toBe(ours);
    expect(Buffer.from(us.agreed!.srtp!.receive).toString('base64')).toBe(key(9));
    expect(us.agreed!.srtp!.suite).toBe(sha32);
  });

  it('repeated changes no key; with a new one of theirs ours is new too', () => {
    const us = session('allow');
    const sampleFormatOf = (fill: number) => ofType(us.answer(sdp('RTP/SAVP', crypto(fill))), 'a=crypto')[0]!;
    const first = sampleFormatOf(1);
    expect(sampleFormatOf(1)).toBe(first);
    expect(sampleFormatOf(2)).not.toBe(first);
  });
});

describe('our offer', () => {
  it.each<[SrtpPolicy, string]>([
    ['off', 'RTP/AVP'],
    ['allow', `RTP/AVP ${all.join()}`],
    ['require', `RTP/SAVP ${all.join()}`],
  ])('%s', (policy, expected) => {
    expect(outcome(() => session(policy).offer())).toBe(expected);
  });

  it.each<[SrtpPolicy, string, string]>([
    ['allow', sdp('RTP/AVP'), 'plain'],
    ['allow', sdp('RTP/AVP', crypto(4)), sha80],
    ['allow', sdp('RTP/AVP', crypto(4, sha32, 2)), sha32],
    ['require', sdp('RTP/SAVP', crypto(4)), sha80],
    ['allow', sdp('RTP/SAVP', gcmLine(gcm256, 44).replace(':1', ':4')), gcm256],
    ['require', sdp('RTP/SAVP'), 'incompatible_media'],
    ['require', sdp('RTP/AVP'), 'incompatible_media'],
    ['require', sdp('RTP/SAVP', crypto(4, sha80, 5)), 'incompatible_media'],
    ['require', sdp('RTP/SAVP', crypto(4, sha32, 1)), 'incompatible_media'],
  ])('%s, answered %s', (policy, answer, expected) => {
    const us = session(policy);
    us.offer();
    const run = () => {
      us.accept(answer, false);
      return '';
    };
    const said = outcome(run);
    expect(said === 'incompatible_media' ? said : (us.agreed?.srtp?.suite ?? 'plain')).toBe(expected);
  });

  it('again keeps the key that is in use, and stays encrypted', () => {
    const us = session('allow');
    us.offer();
    us.accept(sdp('RTP/AVP', crypto(4, sha32, 2)), false);
    const again = us.offer();
    expect(outcome(() => again)).toBe(`RTP/SAVP ${sha32},${sha80},${gcm128},${gcm256}`);
    const lines = ofType(again, 'a=crypto');
    expect(lines[0]).toContain(Buffer.from(us.agreed!.srtp!.send).toString('base64'));
    expect(new Set(lines.map((line) => line.split(' ')[0])).size).toBe(4);
  });
});

it('no key is in a trace', () => {
  const text = blanked(
    `INVITE sip:a@b SIP/2.0\r\nCall-ID: 1\r\n\r\n${session('require').offer()}${sdp('RTP/SAVP', crypto(9, sha80, 2, '|2^20'))}`,
  );
  expect(text).toContain(`a=crypto:1 ${sha80} inline:(blanked)`);
  expect(text.match(/\(blanked\)\r\n/g)).toHaveLength(all.length + 1);
  expect(text).not.toContain(key(9));
});
