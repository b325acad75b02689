import { describe, expect, it } from 'vitest';
import {
  codecOf,
  directionOf,
  hasTelephoneEvent,
  isSecure,
  limitedTo,
  SessionOrigin,
  usesDtls,
  withAddress,
  withCodecs,
  withDirection,
  withoutTelephoneEvent,
} from '../../media/freeswitch/far-sdp.js';
import { readCodecs } from '../../media/freeswitch/server-facts.js';

const sdp = [
  'v=0',
  'o=FreeSWITCH 1700000000 1700000001 IN IP4 10.0.0.5',
  's=FreeSWITCH',
  'c=IN IP4 10.0.0.5',
  't=0 0',
  'm=audio 20000 RTP/AVP 102 9 0 8 103 101',
  'a=rtpmap:102 opus/48000/2',
  'a=fmtp:102 useinbandfec=1',
  'a=rtpmap:9 G722/8000',
  'a=rtpmap:103 AMR-WB/16000',
  'a=fmtp:103 octet-align=1',
  'a=rtpmap:101 telephone-event/8000',
  'a=fmtp:101 0-15',
  'a=ptime:20',
  'a=sendrecv',
  '',
].join('\r\n');

describe('the SDP of FreeSWITCH', () => {
  it('keeps the codecs of the policy, in its order, and telephone events', () => {
    const less = withCodecs(sdp, ['PCMU', 'OPUS']);
    expect(less).toContain('m=audio 20000 RTP/AVP 0 102 101\r\n');
    expect(less).not.toMatch(/AMR|G722|octet-align/);
    expect(less).toContain('a=fmtp:102 useinbandfec=1\r\n');
    expect(withCodecs(sdp, ['amr-wb'])).toContain('m=audio 20000 RTP/AVP 103 101\r\n');
  });

  it('loses its telephone events', () => {
    const less = withoutTelephoneEvent(sdp);
    expect(hasTelephoneEvent(sdp)).toBe(true);
    expect(hasTelephoneEvent(less)).toBe(false);
    expect(less).not.toContain('101');
  });

  it('gets one direction, in the audio', () => {
    const held = withDirection(sdp, 'sendonly');
    expect(held.match(/^a=(sendrecv|sendonly|recvonly|inactive)/gm)).toEqual(['a=sendonly']);
    expect(directionOf(held)).toBe('sendonly');
    expect(directionOf(withDirection(held, 'inactive'))).toBe('inactive');
  });

  it.each([
    ['sendrecv', 'sendonly', 'sendonly'],
    ['recvonly', 'sendonly', 'inactive'],
    ['sendrecv', 'sendrecv', 'sendrecv'],
    ['sendonly', 'inactive', 'inactive'],
  ] as const)('%s where only %s is wanted: %s', (direction, wanted, result) => {
    expect(limitedTo(direction, wanted)).toBe(result);
  });

  it('reads the direction of the session, of the audio, and the old form of hold', () => {
    expect(directionOf('v=0\r\na=inactive\r\nm=audio 1 RTP/AVP 0\r\n')).toBe('inactive');
    expect(directionOf('v=0\r\na=inactive\r\nm=audio 1 RTP/AVP 0\r\na=sendonly\r\n')).toBe('sendonly');
    expect(directionOf('v=0\r\nc=IN IP4 0.0.0.0\r\nm=audio 1 RTP/AVP 0\r\n')).toBe('sendonly');
    expect(directionOf('v=0\r\nm=audio 1 RTP/AVP 0\r\nm=video 2 RTP/AVP 31\r\na=inactive\r\n')).toBe('sendrecv');
  });

  it('names the codec in use, and whether keys are needed', () => {
    expect(codecOf(sdp)).toBe('OPUS');
    expect(codecOf('m=audio 4 RTP/AVP 101 0\r\na=rtpmap:101 telephone-event/8000\r\n')).toBe('PCMU');
    expect(codecOf('v=0\r\n')).toBe(null);
    expect(
      [sdp, sdp.replace('RTP/AVP', 'RTP/SAVP'), sdp.replace('RTP/AVP', 'UDP/TLS/RTP/SAVPF')].map(isSecure),
    ).toEqual([false, true, true]);
    expect(usesDtls(sdp.replace('RTP/AVP', 'RTP/SAVP'))).toBe(false);
    expect(usesDtls(sdp.replace('RTP/AVP', 'UDP/TLS/RTP/SAVPF'))).toBe(true);
  });

  it('shows the public address of a server behind NAT', () => {
    const shown = withAddress(sdp, '203.0.113.7');
    expect(shown).not.toContain('10.0.0.5');
    expect(shown.match(/203\.0\.113\.7/g)).toHaveLength(2);
  });

  it('keeps one origin: the version rises with each change, also from another server', () => {
    const origin = new SessionOrigin('77');
    const lines = [sdp, sdp, withDirection(sdp, 'inactive'), sdp.replaceAll('10.0.0.5', '10.0.0.6')].map((each) =>
      /^o=.*$/m.exec(origin.mark(each))?.[0]?.trim(),
    );
    expect(lines).toEqual([
      'o=- 77 1 IN IP4 10.0.0.5',
      'o=- 77 1 IN IP4 10.0.0.5',
      'o=- 77 2 IN IP4 10.0.0.5',
      'o=- 77 3 IN IP4 10.0.0.6',
    ]);
  });
});

describe('the codecs of a FreeSWITCH', () => {
  it('are those that it can decode, without ours', () => {
    const rows = ['ADPCM (IMA)', 'G.711 alaw', 'OPUS (STANDARD)', 'GSM', 'AMR-WB / Octet Aligned', 'Speex'].map(
      (name) => ({
        name,
      }),
    );
    expect(readCodecs(JSON.stringify({ row_count: rows.length, rows }))).toEqual(['GSM', 'SPEEX']);
  });

  it.each(['', '{}', '{"rows":3}', '-ERR'])('are none in %j', (answer) => expect(readCodecs(answer)).toEqual([]));
});
