import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { listElements, nameAddress, readHeaders, reasons } from '../../sip/drachtio/header.js';
import { calledIdentity, callerIdentity, escapeUser, identityOfUri, parseUri } from '../../sip/inbound/identity.js';

const numbers: [uri: string, number: string][] = [
  ['sip:+15551234567@carrier.example', '+15551234567'],
  ['sip:1000@10.0.0.1:5062;transport=tcp', '1000'],
  ['sip:0015551234567@carrier.example', '0015551234567'],
  ['tel:+1-555-123-4567', '+15551234567'],
  ['tel:(0555)123.4567;phone-context=+49', '05551234567'],
  ['sip:+1-555-123-4567@host;user=phone', '+15551234567'],
  ['sip:7042;phone-context=example.com@host;user=phone', '7042'],
  ['sip:+15551234567;npdi;rn=+15550000000@host', '+15551234567'],
  ['sip:alice%20smith@host', 'alice smith'],
  ['sip:%2B4930@host', '+4930'],
  ['sip:al-ice.b@host', 'al-ice.b'],
  ['sip:user:secret@host', 'user'],
  ['sip:anonymous@anonymous.invalid', 'anonymous'],
  ['sip:Anonymous@10.0.0.1', 'anonymous'],
  ['sip:restricted@host', 'restricted'],
  ['sip:10.0.0.1', '10.0.0.1'],
  ['sips:bob@[2001:db8::1]:5061', 'bob'],
  ['sip:%zz@host', '%zz'],
  ['sip:*72#@host', '*72#'],
];

describe('identities', () => {
  it.each(numbers)('%s is %s', (uri, number) => {
    expect(identityOfUri(uri)).toEqual({ number, uri, displayName: null });
  });

  it.each(['', 'http://x', 'sip:', 'sip:a@', 'mailto:a@b', 'sip:a@b:0', 'sip:a@b:99999', 'tel:', 'sip:a b@c d'])(
    'does not understand %j',
    (uri) => {
      expect(identityOfUri(uri)).toBeNull();
    },
  );

  it('reads the parts of a URI', () => {
    expect(parseUri('sip:bob;x=1@[::1]:5080;transport=tcp;lr?Replaces=a%3Bb')).toMatchObject({
      user: 'bob',
      userParams: { x: '1' },
      host: '::1',
      port: 5080,
      params: { transport: 'tcp', lr: '' },
      headers: 'Replaces=a%3Bb',
    });
  });

  const from = 'From: "Shown" <sip:+1222@carrier>;tag=1';
  const message = (...lines: string[]) => readHeaders(['INVITE sip:x SIP/2.0', ...lines, '', ''].join('\r\n'));

  it('believes P-Asserted-Identity only from a trusted source', () => {
    const headers = message(from, 'P-Asserted-Identity: "Real" <sip:+1333@carrier>, <tel:+1333>');
    expect(callerIdentity(headers, true)).toEqual({ number: '+1333', uri: 'tel:+1333', displayName: 'Real' });
    expect(callerIdentity(headers, false)).toMatchObject({ number: '+1222', displayName: 'Shown' });
  });

  it('does not show what the caller withholds', () => {
    const headers = message(
      'f: Anonymous <sip:anonymous@anonymous.invalid>;tag=1',
      'P-Asserted-Identity: <tel:+1333>',
      'Privacy: id;critical',
    );
    expect(callerIdentity(headers, true)).toMatchObject({ number: 'anonymous' });
  });

  it('takes the called number from the request-URI, from To only when that names nobody', () => {
    const headers = message('To: "Desk" <sip:+1999@host>');
    expect(calledIdentity('sip:+1444@us', headers)).toMatchObject({ number: '+1444', displayName: 'Desk' });
    expect(calledIdentity('sip:10.0.0.9:5060', headers)).toMatchObject({ number: '+1999' });
    expect(calledIdentity('urn:service:sos', headers)).toBeNull();
  });

  it('escapes what may not stand in a user part', () => {
    expect(escapeUser('+1555')).toBe('+1555');
    expect(escapeUser('a b@c\r\n#é')).toBe('a%20b%40c%0D%0A%23%C3%A9');
  });

  it('never throws, whatever it reads', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (text) => {
        const headers = readHeaders(`INVITE x\r\nFrom: ${text}\r\n${text}: x\r\n`);
        callerIdentity(headers, true);
        calledIdentity(text, headers);
        nameAddress(text);
        reasons([text]);
        listElements([text]);
      }),
    );
  });
});

describe('header fields', () => {
  it('unfolds, expands compact names and keeps repeated lines apart', () => {
    const headers = readHeaders('X\r\nSubject: a\r\n  b\r\nf: <sip:a@b>\r\nVia: 1\r\nv: 2\r\n\r\nf: body');
    expect(headers.get('subject')).toEqual(['a b']);
    expect(headers.get('from')).toEqual(['<sip:a@b>']);
    expect(headers.get('via')).toEqual(['1', '2']);
  });

  it('splits lists outside of quotes and brackets only', () => {
    expect(listElements(['"a, \\"b" <sip:x,y@z>;q=1 , <sip:c@d>', '', 'e'])).toEqual([
      '"a, \\"b" <sip:x,y@z>;q=1',
      '<sip:c@d>',
      'e',
    ]);
  });

  it('tells header parameters from URI parameters', () => {
    expect(nameAddress('<sip:a@b;x=1>;tag=2;flag;Q="z"')).toEqual({
      displayName: null,
      uri: 'sip:a@b;x=1',
      params: { tag: '2', flag: '', q: 'z' },
    });
    expect(nameAddress('sip:a@b;tag=2')).toMatchObject({ uri: 'sip:a@b', params: { tag: '2' } });
    expect(nameAddress('"x')).toBeNull();
    expect(nameAddress('<sip:a@b')).toBeNull();
  });

  it('reads Reason', () => {
    expect(reasons(['Q.850;cause=16;text="Normal, call clearing", SIP ;cause=200'])).toEqual([
      { protocol: 'Q.850', cause: 16, text: 'Normal, call clearing' },
      { protocol: 'SIP', cause: 200 },
    ]);
  });
});
