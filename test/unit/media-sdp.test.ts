import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MediaError, type PhoneCodec } from '../../media/engine.js';
import { SdpNegotiation } from '../../media/sdp.js';

const session = (codecs: PhoneCodec[] = ['PCMU', 'PCMA']) =>
  new SdpNegotiation({ address: '192.0.2.1', rtpPort: 10_000, codecs }, '77');

const sdp = (lines: string[], connection = 'c=IN IP4 198.51.100.7') =>
  ['v=0', 'o=- 1 1 IN IP4 198.51.100.7', 's=-', connection, 't=0 0', ...lines, ''].join('\r\n');

const audio = (formats = '0 8 101', ...more: string[]) =>
  sdp([`m=audio 4000 RTP/AVP ${formats}`, 'a=rtpmap:101 telephone-event/8000', ...more]);

const mediaLines = (text: string) => text.split('\r\n').filter((line) => line.startsWith('m='));
const versionOf = (text: string) => Number(/^o=- 77 (\d+) /m.exec(text)?.[1]);

function refusal(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (error instanceof MediaError) return error.code;
    throw error;
  }
  return 'accepted';
}

describe('answers', () => {
  it.each<[string, string, string[]]>([
    ['our preference among theirs', audio('8 0 101'), ['m=audio 10000 RTP/AVP 0 101', 'a=rtpmap:0 PCMU/8000']],
    ['only PCMA', audio('8'), ['m=audio 10000 RTP/AVP 8', 'a=rtpmap:8 PCMA/8000']],
    [
      'their payload types',
      audio('97 110', 'a=rtpmap:97 pcma/8000', 'a=rtpmap:110 telephone-event/8000'),
      ['m=audio 10000 RTP/AVP 97 110', 'a=rtpmap:97 PCMA/8000', 'a=rtpmap:110 telephone-event/8000'],
    ],
    ['a static type mapped to something else', audio('0 8', 'a=rtpmap:0 G729/8000'), ['m=audio 10000 RTP/AVP 8']],
    [
      'telephone-event of 16 kHz left out',
      audio('0 102', 'a=rtpmap:102 telephone-event/16000'),
      ['m=audio 10000 RTP/AVP 0'],
    ],
    ['their ptime', audio('0', 'a=ptime:30'), ['a=ptime:30']],
    ['ptime within maxptime', audio('0', 'a=ptime:60', 'a=maxptime:40'), ['a=ptime:40']],
    ['ptime in tens', audio('0', 'a=ptime:25'), ['a=ptime:20']],
    ['ptime too long', audio('0', 'a=ptime:200'), ['a=ptime:60']],
    ['ptime too short', audio('0', 'a=ptime:5'), ['a=ptime:10']],
    ['sendonly', audio('0', 'a=sendonly'), ['a=recvonly']],
    ['recvonly', audio('0', 'a=recvonly'), ['a=sendonly']],
    ['inactive', audio('0', 'a=inactive'), ['a=inactive']],
    ['the hold of old', sdp(['m=audio 4000 RTP/AVP 0'], 'c=IN IP4 0.0.0.0'), ['a=recvonly']],
    ['direction of the whole session', sdp(['a=sendonly', 'm=audio 4000 RTP/AVP 0']), ['a=recvonly']],
    ['rtcp-mux', audio('0', 'a=rtcp-mux'), ['a=rtcp-mux']],
  ])('%s', (_what, offer, expected) => {
    const lines = session().answer(offer).split('\r\n');
    for (const line of expected) expect(lines).toContain(line);
  });

  it('does not speak of rtcp-mux unless asked', () => {
    expect(session().answer(audio())).not.toContain('rtcp-mux');
  });

  it('answers every line: the first audio that fits, the others with port 0 in their place', () => {
    const negotiation = session();
    const answer = negotiation.answer(
      sdp([
        'm=audio 5000 RTP/SAVP 0',
        'm=video 5002 RTP/AVP 96',
        'm=audio 4000 RTP/AVP 8',
        'm=audio 4002 RTP/AVP 0',
        'm=application 9 UDP/DTLS/SCTP webrtc-datachannel',
      ]),
    );
    expect(mediaLines(answer)).toEqual([
      'm=audio 0 RTP/SAVP 0',
      'm=video 0 RTP/AVP 96',
      'm=audio 10000 RTP/AVP 8',
      'm=audio 0 RTP/AVP 0',
      'm=application 0 UDP/DTLS/SCTP webrtc-datachannel',
    ]);
    expect(negotiation.agreed).toMatchObject({ codec: 'PCMA', port: 4000, rtcpPort: 4001 });
    // Our own offer keeps the lines of the dialog.
    expect(mediaLines(negotiation.offer())).toHaveLength(5);
  });

  it('raises the version of the description only when it changes', () => {
    const negotiation = session();
    const first = negotiation.answer(audio('0'));
    expect(versionOf(negotiation.answer(audio('0')))).toBe(versionOf(first));
    expect(versionOf(negotiation.answer(audio('0', 'a=sendonly')))).toBe(versionOf(first) + 1);
    expect(versionOf(negotiation.answer(audio('0')))).toBe(versionOf(first) + 2);
    expect(negotiation.localSdp).toContain('o=- 77 ');
  });

  it('takes the codec, the port and the RTCP port of a re-offer', () => {
    const negotiation = session();
    negotiation.answer(audio('0'));
    negotiation.answer(sdp(['m=audio 6000 RTP/AVP 8', 'a=rtcp:7001']));
    expect(negotiation.agreed).toMatchObject({ codec: 'PCMA', payloadType: 8, port: 6000, rtcpPort: 7001 });
  });
});

describe('hold', () => {
  it.each([
    ['a=sendonly', { held: true, send: false, receive: true }],
    ['a=inactive', { held: true, send: false, receive: false }],
    ['a=recvonly', { held: false, send: true, receive: false }],
    ['a=sendrecv', { held: false, send: true, receive: true }],
  ])('%s', (line, expected) => {
    const negotiation = session();
    negotiation.answer(audio('0', line));
    expect(negotiation.agreed).toMatchObject(expected);
  });

  it.each([
    ['sendonly', 'recvonly', { held: false, send: true, receive: false }],
    ['inactive', 'inactive', { held: false, send: false, receive: false }],
    ['sendrecv', 'sendonly', { held: true, send: false, receive: true }],
    ['sendonly', 'inactive', { held: true, send: false, receive: false }],
  ] as const)('of our own: we offer %s, the answer is %s', (ours, theirs, expected) => {
    const negotiation = session();
    negotiation.answer(audio('0'));
    expect(negotiation.offer(ours)).toContain(`a=${ours}`);
    negotiation.accept(audio('0', `a=${theirs}`), false);
    expect(negotiation.agreed).toMatchObject(expected);
  });

  it('of our own lasts while the far side re-offers, and ends by our offer', () => {
    const negotiation = session();
    negotiation.answer(audio('0'));
    negotiation.offer('inactive');
    negotiation.accept(audio('0', 'a=inactive'), false);
    expect(negotiation.answer(audio('0'))).toContain('a=inactive');
    expect(negotiation.agreed).toMatchObject({ held: false, send: false, receive: false });
    expect(negotiation.offer('sendrecv')).toContain('a=sendrecv');
    negotiation.accept(audio('0'), false);
    expect(negotiation.agreed).toMatchObject({ held: false, send: true, receive: true });
  });

  it('of our own that was refused leaves all as it was', () => {
    const negotiation = session();
    negotiation.answer(audio('0'));
    negotiation.offer('inactive');
    expect(negotiation.answer(audio('0'))).toContain('a=sendrecv');
  });
});

describe('refusals change nothing', () => {
  it.each<[string, string, string]>([
    ['no codec in common', audio('3 18'), 'incompatible_media'],
    ['encrypted only', sdp(['m=audio 4000 RTP/SAVP 0']), 'incompatible_media'],
    ['video only', sdp(['m=video 4000 RTP/AVP 96']), 'incompatible_media'],
    ['audio switched off', sdp(['m=audio 0 RTP/AVP 0']), 'incompatible_media'],
    ['no media', sdp([]), 'incompatible_media'],
    ['IPv6', sdp(['m=audio 4000 RTP/AVP 0'], 'c=IN IP6 2001:db8::1'), 'incompatible_media'],
    ['a name instead of an address', sdp(['m=audio 4000 RTP/AVP 0'], 'c=IN IP4 phone.example'), 'incompatible_media'],
    ['an address that is none', sdp(['m=audio 4000 RTP/AVP 0'], 'c=IN IP4 300.1.1.1'), 'incompatible_media'],
    ['17 media lines', sdp(Array(17).fill('m=audio 4000 RTP/AVP 0')), 'incompatible_media'],
    ['no connection line', 'v=0\r\no=- 1 1 IN IP4 1.2.3.4\r\ns=-\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0\r\n', 'bad_sdp'],
    ['a port over 65535', sdp(['m=audio 70000 RTP/AVP 0']), 'bad_sdp'],
    ['not SDP', 'hello', 'bad_sdp'],
    ['nothing', '', 'bad_sdp'],
    ['a giant', audio('0', `a=x:${'x'.repeat(20_000)}`), 'bad_sdp'],
  ])('%s', (_what, offer, code) => {
    const negotiation = session();
    const before = negotiation.answer(audio('8'));
    const agreed = negotiation.agreed;
    expect(refusal(() => negotiation.answer(offer))).toBe(code);
    expect(negotiation.localSdp).toBe(before);
    expect(negotiation.agreed).toBe(agreed);
    expect(negotiation.answer(audio('8'))).toBe(before);
  });

  it('never throws anything but a MediaError, whatever the bytes', () => {
    const line = fc.oneof(
      fc.constantFrom(
        'v=0',
        'o=- 1 1 IN IP4 1.2.3.4',
        'c=IN IP4 1.2.3.4',
        'c=IN',
        'm=audio 4000 RTP/AVP 0',
        'm=',
        'm=audio x y z',
      ),
      fc.string().map((text) => `a=${text}`),
      fc.string(),
    );
    fc.assert(
      fc.property(fc.array(line, { maxLength: 30 }), (lines) => {
        refusal(() => session().answer(lines.join('\r\n')));
      }),
      { numRuns: 500 },
    );
  });
});

describe('offers', () => {
  it('offers every codec, and takes what the answer picked, with its payload types', () => {
    const negotiation = session();
    expect(mediaLines(negotiation.offer())).toEqual(['m=audio 10000 RTP/AVP 0 8 101']);
    expect(negotiation.agreed).toBeNull();
    negotiation.accept(sdp(['m=audio 4000 RTP/AVP 8 96', 'a=rtpmap:96 telephone-event/8000']), false);
    expect(negotiation.agreed).toMatchObject({
      codec: 'PCMA',
      payloadType: 8,
      telephoneEvent: { send: 96, receive: 101 },
      send: true,
      receive: true,
    });
  });

  it('takes a provisional answer and then a final one that differs', () => {
    const negotiation = session();
    negotiation.offer();
    negotiation.accept(sdp(['m=audio 4000 RTP/AVP 0']), true);
    expect(negotiation.agreed).toMatchObject({ port: 4000, codec: 'PCMU' });
    negotiation.accept(sdp(['m=audio 5000 RTP/AVP 8']), false);
    expect(negotiation.agreed).toMatchObject({ port: 5000, codec: 'PCMA' });
  });

  it('refuses an answer without an offer, one that rejects the audio, and one without a common codec', () => {
    const negotiation = session(['PCMU']);
    expect(refusal(() => negotiation.accept(audio('0'), false))).toBe('bad_sdp');
    negotiation.offer();
    expect(refusal(() => negotiation.accept(sdp(['m=audio 0 RTP/AVP 0']), false))).toBe('incompatible_media');
    expect(refusal(() => negotiation.accept(audio('8'), false))).toBe('incompatible_media');
    expect(negotiation.agreed).toBeNull();
  });

  it('offers both directions again after a hold, as a refresh without a body needs', () => {
    const negotiation = session();
    negotiation.answer(audio('0', 'a=sendonly'));
    expect(negotiation.offer()).toContain('a=sendrecv');
  });

  it('names the codec in use first when it offers again', () => {
    const negotiation = session();
    negotiation.answer(audio('8'));
    expect(mediaLines(negotiation.offer())).toEqual(['m=audio 10000 RTP/AVP 8 0 101']);
  });
});
