import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { peerOf, readAddresses, readFrame } from '../../sip/drachtio/connection.js';
import type { SipTraceEntry } from '../../sip/leg.js';
import { blanked, SipTrace } from '../../sip/trace.js';

function entry(callId: string, start = 'INVITE sip:x SIP/2.0', extra = ''): SipTraceEntry {
  return {
    at: new Date(0).toISOString(),
    direction: 'received',
    peer: null,
    message: `${start}\r\nCall-ID: ${callId}\r\n${extra}\r\n`,
  };
}

describe('SipTrace', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it('keeps calls, not what only knocked', () => {
    const trace = new SipTrace({ candidates: 2 });
    trace.record(entry('call'));
    trace.keep('call');
    for (let i = 0; i < 10; i++) trace.record(entry(`scan-${i}`));
    trace.record(entry('r', 'REGISTER sip:x SIP/2.0'));
    trace.record(entry('call', 'SIP/2.0 200 OK'));
    expect(trace.of('call').map((e) => e.message.slice(0, 7))).toEqual(['INVITE ', 'SIP/2.0']);
    expect(trace.of('scan-0')).toEqual([]);
    expect(trace.of('scan-9')).toHaveLength(1);
    expect(trace.of('r')).toEqual([]);
  });

  it('keeps the opening and the newest messages of a long call', () => {
    const trace = new SipTrace({ messagesPerCall: 30 });
    for (let i = 0; i < 100; i++) trace.record(entry('c', i === 0 ? undefined : `INFO ${i}`));
    const kept = trace.of('c').map((e) => e.message.split('\r\n')[0]);
    expect(kept).toHaveLength(30);
    expect(kept[0]).toMatch(/^INVITE/);
    expect(kept[19]).toBe('INFO 19');
    expect(kept.at(-1)).toBe('INFO 99');
  });

  it('frees a trace some time after the end, by forget, and when there are too many', () => {
    const trace = new SipTrace({ calls: 2, lingerMs: 1000 });
    for (const id of ['a', 'b', 'c']) {
      trace.record(entry(id));
      trace.keep(id);
    }
    expect(trace.of('a')).toEqual([]);
    trace.ended('b');
    trace.ended('b');
    vi.advanceTimersByTime(999);
    expect(trace.of('b')).toHaveLength(1);
    vi.advanceTimersByTime(1);
    expect(trace.of('b')).toEqual([]);
    trace.forget('c');
    expect(trace.of('c')).toEqual([]);
    trace.ended('c');
    expect(vi.getTimerCount()).toBe(0);
  });

  it('blanks credentials, folded ones too', () => {
    const text =
      'A: 1\r\nAuthorization: Digest username="u",\r\n response="x"\r\nproxy-authorization :y\r\nWWW-Authenticate: z\r\n';
    expect(blanked(text)).toBe(
      'A: 1\r\nAuthorization: (blanked)\r\nproxy-authorization : (blanked)\r\nWWW-Authenticate: z\r\n',
    );
  });
});

describe('control frames', () => {
  const sip = 'OPTIONS sip:x SIP/2.0\r\nCall-ID: 1\r\n\r\n';

  it('are read for the message they carry', () => {
    expect(readFrame(`id|sip|network|20|tcp|192.0.2.1|5070|12:00:00.0|T||127.0.0.1|5060|\r\n${sip}`)).toMatchObject({
      direction: 'received',
      peer: { transport: 'tcp', address: '192.0.2.1', port: 5070 },
      message: sip,
    });
    expect(readFrame(`id|response|r|OK|application|20|udp|10.0.0.1|5060|t|T|Msg sent:|\r\n${sip}`)).toMatchObject({
      direction: 'sent',
      peer: null,
    });
    const sent = 'id|response|r|OK|application|20|udp|10.0.0.1|5060|t|T|Msg sent:|';
    expect(readFrame(`${sent}tcp/[2001:db8::1]:5070\r\n${sip}`)).toMatchObject({
      peer: { transport: 'tcp', address: '2001:db8::1', port: 5070 },
    });
    expect(
      readFrame(`id|sip|application|20|udp|10.0.0.1|5060|t|unsolicited|D|udp/192.0.2.1:5070\r\n${sip}`),
    ).toMatchObject({ direction: 'sent', peer: { transport: 'udp', address: '192.0.2.1', port: 5070 } });
    expect(
      readFrame(`id|response|r|OK|application|9|udp|192.0.2.1|5070|t|T|D||Msg sent:|\r\nSIP/2.0 200 OK\r\n\r\n`),
    ).toMatchObject({ direction: 'sent', peer: { address: '192.0.2.1', port: 5070 } });
    expect(readFrame('id|response|r|OK|pong')).toBeNull();
    expect(readFrame('id|response|r|NOK|why\r\nx')).toBeNull();
  });

  it.each([
    ['BYE sip:a@192.0.2.1:5070 SIP/2.0', '192.0.2.1', 5070],
    ['BYE sip:a@192.0.2.1 SIP/2.0', '192.0.2.1', 5060],
    ['BYE sip:a@host SIP/2.0\r\nRoute: <sip:192.0.2.7:5080;lr>, <sip:b.example;lr>', '192.0.2.7', 5080],
  ])('of a server that does not say where a request went: %s', (head, address, port) => {
    const frame = `id|response|r|OK|application|20|udp|10.0.0.1|5060|t|T|Msg sent:|\r\n${head}\r\n\r\n`;
    expect(readFrame(frame)?.peer).toEqual({ transport: 'udp', address, port });
  });

  it('name peers and listeners', () => {
    expect(peerOf('', '192.0.2.1', '0')).toEqual({ transport: 'udp', address: '192.0.2.1', port: 5060 });
    expect(peerOf('udp', '', 1)).toBeNull();
    expect(readAddresses('udp/10.0.0.1:5060,tcp/[::1]:5061,')).toEqual([
      { transport: 'udp', host: '10.0.0.1', port: 5060 },
      { transport: 'tcp', host: '::1', port: 5061 },
    ]);
  });
});
