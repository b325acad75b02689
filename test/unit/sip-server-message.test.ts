import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseCSeq, parseNameAddr, parseVia, splitList, uriOf } from '../../sip/server/message/fields.js';
import { parseMessage, SipRequest, type SipResponse } from '../../sip/server/message/message.js';
import { parseUri } from '../../sip/server/message/uri.js';
import { viaForResponse, writeMessage, writeResponse } from '../../sip/server/message/write.js';

function request(text: string, body = ''): SipRequest {
  const message = parseMessage(Buffer.from(`${text.trim().replace(/\n/g, '\r\n')}\r\n\r\n${body}`));
  if (!(message instanceof SipRequest)) throw new Error('not a request');
  return message;
}

const INVITE = `INVITE sip:bob@example.com SIP/2.0
Via: SIP/2.0/UDP 10.0.0.1:5070;branch=z9hG4bKabc;rport
From: "Al, ice" <sip:alice@example.com;x=1>;tag=aa
To: <sip:bob@example.com>
Call-ID: 1@example.com
CSeq: 1 INVITE
Max-Forwards: 70`;

describe('reading a message', () => {
  it('knows compact forms, folded lines and any case', () => {
    const m = request(`INVITE sip:b@h SIP/2.0
v: SIP/2.0/UDP h;branch=z9hG4bK1
F: <sip:a@h>;tag=1
t : <sip:b@h>
i: 7@h
cSeQ: 2
  INVITE
m: <sip:a@10.0.0.1>
s: two
 lines
	here`);
    expect(m.problem).toBeNull();
    expect(m.topVia?.branch).toBe('z9hG4bK1');
    expect(m.fromTag).toBe('1');
    expect(m.callId).toBe('7@h');
    expect(m.cseq).toEqual({ number: 2, method: 'INVITE' });
    expect(m.contact?.uri).toBe('sip:a@10.0.0.1');
    expect(m.get('subject')).toBe('two lines here');
  });

  it('reads a list however it is spread over lines', () => {
    const m = request(`${INVITE}
Route: <sip:a;lr>, "x, y" <sip:b;lr>
Route: <sip:c,d;lr>`);
    expect(m.list('route')).toEqual(['<sip:a;lr>', '"x, y" <sip:b;lr>', '<sip:c,d;lr>']);
  });

  it('cuts the body at Content-Length and keeps bytes as they are', () => {
    const bytes = Buffer.concat([
      Buffer.from(`${INVITE.replace(/\n/g, '\r\n')}\r\nContent-Length: 3\r\n\r\n`),
      Buffer.from([0, 255, 13, 10]),
    ]);
    const m = parseMessage(bytes)!;
    expect([...m.body]).toEqual([0, 255, 13]);
    expect(m.raw.length).toBe(bytes.length - 1);
  });

  it('keeps UTF-8 and bytes that are none through to a response', () => {
    const name = Buffer.from([0xc3, 0xa4, 0xff, 0xfe]);
    const bytes = Buffer.concat([
      Buffer.from(`${INVITE.replace(/\n/g, '\r\n').replace('From: ', 'X: ')}\r\nFrom: "`),
      name,
      Buffer.from('" <sip:a@h>;tag=1\r\n\r\n'),
    ]);
    const m = parseMessage(bytes) as SipRequest;
    const source = { address: '10.0.0.1', port: 5070 };
    const response = writeResponse(m, {
      status: 200,
      reason: 'OK',
      source,
      toTag: 't',
      extra: [],
      body: Buffer.alloc(0),
    });
    expect(response.includes(name)).toBe(true);
  });

  const broken: [string, string][] = [
    ['a line without a colon', `${INVITE}\nrubbish`],
    ['a name with a blank in it', `${INVITE}\nBad Name: 1`],
    ['a negative Content-Length', `${INVITE}\nContent-Length: -1`],
    ['a huge Content-Length', `${INVITE}\nContent-Length: 99999999999999999999`],
    ['two different Content-Lengths', `${INVITE}\nContent-Length: 0\nl: 1`],
    ['a NUL in a value', `${INVITE}\nSubject: a\0b`],
    ['a body shorter than said', `${INVITE}\nContent-Length: 10`],
  ];
  it.each(broken)('reports %s', (_what, text) => {
    expect(request(text).problem).not.toBeNull();
  });

  it('takes nothing for a message that has no start line', () => {
    for (const text of ['', '\r\n\r\n', 'SIP/2.0 abc OK\r\n\r\n', 'SIP/2.0 700 No\r\n\r\n', 'a'.repeat(70_000)]) {
      expect(parseMessage(Buffer.from(text))).toBeNull();
    }
  });

  it('takes a broken request line for a request with a problem, and nothing for one in a frame of the application', () => {
    for (const line of [
      'INVITE',
      'INVITE sip:a@b',
      'INVITE  sip:a@b SIP/2.0',
      'INVITE sip:a@b SIP/2.0 ',
      '<> sip:a@b SIP/2.0',
    ]) {
      const message = parseMessage(Buffer.from(`${line}\r\nCall-ID: x\r\n\r\n`));
      expect(message).toMatchObject({ kind: 'request', problem: 'The request line is malformed' });
      expect(message?.callId).toBe('x');
      expect(parseMessage(Buffer.from(line), { bodyIsRest: true })).toBeNull();
    }
    expect(request('INVITE sip:a@b HTTP/1.1')).toMatchObject({ method: 'INVITE', version: 'HTTP/1.1', problem: null });
  });

  it('takes a NUL behind a backslash in quotes, and no other, in time that grows with length', () => {
    const problemOf = (value: string) => request(`${INVITE}\nSubject: ${value}`).problem;
    expect(problemOf('"a\\\0b\\"c\\\0" d')).toBeNull();
    for (const bad of ['a\0', '\\\0', '"a\0"', '"a\\\\\0"', '"a" \\\0', '"\\\0', '"a\\\rb"'])
      expect(problemOf(bad), JSON.stringify(bad)).not.toBeNull();
    const began = performance.now();
    problemOf(`\0${'"\\"'.repeat(20_000)}`);
    expect(performance.now() - began).toBeLessThan(1000);
  });

  it('takes the length of a 64 kB datagram and of 10,000 headers', () => {
    const many = request(`${INVITE}\n${Array.from({ length: 10_000 }, (_, i) => `X-${i}: ${i}`).join('\n')}`);
    expect(many.headers).toHaveLength(10_006);
    const long = request(`${INVITE}\nContact: ${'<sip:a@b>,'.repeat(6000)}`);
    expect(long.list('contact')).toHaveLength(6000);
    const quotes = request(`${INVITE}\nContact: ${'"'.repeat(60_001)}`);
    expect(quotes.contact).toBeNull();
  });

  it('time grows with length, not with its square', () => {
    const measure = (size: number) => {
      const bytes = Buffer.from(
        `${INVITE}\nX: ${'<",;=\\'.repeat(size)}\nVia: ${';a=";'.repeat(size)}`.replace(/\n/g, '\r\n'),
      );
      const started = process.cpuUsage().user;
      for (let i = 0; i < 20; i++) {
        const m = parseMessage(bytes)!;
        m.list('x');
        m.list('via');
        parseNameAddr(m.get('x') ?? '');
        parseVia(m.get('via') ?? '');
      }
      return process.cpuUsage().user - started;
    };
    measure(1000);
    // sixteen times the input: linear is 16, quadratic 256
    expect(measure(16_000)).toBeLessThan(100 * Math.max(measure(1000), 1000));
  });
});

describe('never throws', () => {
  const piece = fc.oneof(
    fc.constantFrom(
      'INVITE',
      ' ',
      'sip:',
      'SIP/2.0',
      '\r\n',
      '\r\n ',
      ':',
      ';',
      ',',
      '"',
      '<',
      '>',
      '\\',
      '@',
      '[',
      ']',
      'Via',
      'From',
      'To',
      'l',
      '\0',
      ';tag=',
      'CSeq: ',
      '99999999999',
    ),
    fc.string({ maxLength: 8 }),
  );
  const touch = (bytes: Buffer) => {
    const m = parseMessage(bytes);
    if (!m) return;
    void [m.topVia, m.from, m.to, m.cseq, m.contact, m.callId, m.list('route'), m.lists('require', 'x')];
    if (m instanceof SipRequest) {
      parseUri(m.uri);
      viaForResponse(m, { address: '::1', port: 1 });
    }
  };
  it('on any bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), (bytes) => touch(Buffer.from(bytes))),
      { numRuns: 1000 },
    );
  });
  it('on pieces of messages in any order', () => {
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 60 }), (pieces) =>
        touch(Buffer.from(`INVITE sip:a@b SIP/2.0\r\n${pieces.join('')}`)),
      ),
      { numRuns: 2000 },
    );
  });
  it('on a sound message with bytes changed', () => {
    const sound = Buffer.from(`${INVITE.replace(/\n/g, '\r\n')}\r\nContent-Length: 0\r\n\r\n`);
    const change = fc.array(fc.tuple(fc.nat(sound.length - 1), fc.nat(255)), { minLength: 1, maxLength: 8 });
    fc.assert(
      fc.property(change, (changes) => {
        const bytes = Buffer.from(sound);
        for (const [at, value] of changes) bytes[at] = value;
        touch(bytes);
      }),
      { numRuns: 2000 },
    );
  });
});

describe('header fields', () => {
  it('finds the URI whatever is in the display name', () => {
    expect(parseNameAddr('"a \\" <sip:no@no> " <sip:b@h;p=1?h=2>;tag=x;q')?.uri).toBe('sip:b@h;p=1?h=2');
    expect(parseNameAddr('sip:b@h;tag=x')).toMatchObject({ uri: 'sip:b@h' });
    expect(parseNameAddr('sip:b@h;tag=x')?.parameters.get('tag')).toBe('x');
    expect(parseNameAddr('"open <sip:b@h>')).toBeNull();
    expect(parseNameAddr('<sip:b@h')).toBeNull();
    expect(parseNameAddr('sip:b@h?Route=x')).toBeNull();
    expect(parseNameAddr('<>')).toBeNull();
  });
  it('leaves the parameters of a bare URI to the URI', () => {
    expect(uriOf('sip:b@h;transport=tcp')).toBe('sip:b@h;transport=tcp');
    expect(uriOf('<sip:b@h;transport=tcp>;x')).toBe('sip:b@h;transport=tcp');
  });
  it('splits lists outside quotes and brackets only', () => {
    expect(splitList(' a, "b,c" <d,e> , ,f')).toEqual(['a', '"b,c" <d,e>', 'f']);
  });
  it('reads Via with IPv6, blanks and parameters', () => {
    expect(parseVia('SIP/3.0/UDP h')?.version).toBe('3.0');
    expect(parseVia('SIP / 2.0 / udp [2001:db8::1]:5062 ; branch=z9hG4bKx ;rport')).toMatchObject({
      transport: 'udp',
      host: '[2001:db8::1]',
      port: 5062,
      branch: 'z9hG4bKx',
    });
    for (const bad of [
      '',
      'SIP/2.0/UDP',

      'SIP/2.0/UDP h:0',
      'SIP/2.0/UDP h:99999',
      'SIP/2.0/UDP [::1',
    ])
      expect(parseVia(bad)).toBeNull();
  });
  it('limits CSeq to 31 bits', () => {
    expect(parseCSeq('2147483647 INVITE')?.number).toBe(2147483647);
    for (const bad of ['2147483648 INVITE', '-1 INVITE', 'x INVITE', '1', '']) expect(parseCSeq(bad)).toBeNull();
  });
  it('reads URIs, IPv6 and users with @ and ; in them', () => {
    expect(parseUri('sip:a;b=c@[::1]:5060;transport=TCP?x=1')).toMatchObject({
      user: 'a;b=c',
      host: '[::1]',
      port: 5060,
      headers: 'x=1',
    });
    expect(parseUri('SIPS:EXAMPLE.com')).toMatchObject({ scheme: 'sips', user: '', host: 'example.com', port: null });
    for (const bad of ['', 'tel:+1', 'sip:', 'sip:a@', 'sip:a b@h', 'sip:a@h:0', 'http://h'])
      expect(parseUri(bad)).toBeNull();
  });
});

describe('writing', () => {
  it('comes back as it was read', () => {
    fc.assert(
      fc.property(
        fc.array(fc.stringMatching(/^[!-~]([ -~]{0,30}[!-~])?$/), { maxLength: 5 }),
        fc.uint8Array({ maxLength: 50 }),
        (values, body) => {
          const headers = values.map((value, i) => ({ name: `x-h${i}`, value }));
          const m = parseMessage(writeMessage('OPTIONS sip:a@b SIP/2.0', headers, Buffer.from(body)))!;
          expect(m.problem).toBeNull();
          expect(values.map((_, i) => m.get(`x-h${i}`))).toEqual(values);
          expect([...m.body]).toEqual([...body]);
        },
      ),
    );
  });

  it('spells names as everybody does, and private ones as given', () => {
    const bytes = writeMessage(
      'SIP/2.0 200 OK',
      [
        { name: 'call-id', value: '1' },
        { name: 'p-asserted-identity', value: '2' },
        { name: 'x-color', value: '3', written: 'X-cOlor' },
      ],
      Buffer.alloc(0),
    );
    expect(bytes.toString()).toContain(
      'Call-ID: 1\r\nP-Asserted-Identity: 2\r\nX-cOlor: 3\r\nContent-Length: 0\r\n\r\n',
    );
  });

  it('says in Via where the request really came from', () => {
    const via = (value: string, address: string) =>
      viaForResponse(request(INVITE.replace(/^Via: .*$/m, `Via: ${value}`)), { address, port: 4000 })[0];
    expect(via('SIP/2.0/UDP 10.0.0.1:5070;branch=z9hG4bKa', '10.0.0.1')).toBe(
      'SIP/2.0/UDP 10.0.0.1:5070;branch=z9hG4bKa',
    );
    expect(via('SIP/2.0/UDP 10.0.0.1:5070;branch=z9hG4bKa', '10.9.9.9')).toBe(
      'SIP/2.0/UDP 10.0.0.1:5070;branch=z9hG4bKa;received=10.9.9.9',
    );
    expect(via('SIP/2.0/UDP 10.0.0.1;rport;branch=z9hG4bKa', '10.0.0.1')).toBe(
      'SIP/2.0/UDP 10.0.0.1;rport=4000;branch=z9hG4bKa;received=10.0.0.1',
    );
  });

  it('answers with all Via, and a tag where none was', () => {
    const m = request(`${INVITE}\nVia: SIP/2.0/UDP p2;branch=z9hG4bKd`);
    const answer = {
      status: 180,
      reason: 'Ringing',
      source: { address: '10.0.0.1', port: 5070 },
      toTag: 'tt',
      extra: [],
      body: Buffer.alloc(0),
    };
    const response = parseMessage(writeResponse(m, answer)) as SipResponse;
    expect(response.list('via')).toHaveLength(2);
    expect(response.toTag).toBe('tt');
    expect(response.get('from')).toBe(m.get('from'));
    expect((parseMessage(writeResponse(m, { ...answer, status: 100 })) as SipResponse).toTag).toBe('');
  });
});
