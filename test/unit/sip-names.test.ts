import type { NaptrRecord, SrvRecord } from 'node:dns';
import { describe, expect, it } from 'vitest';
import { parseUri } from '../../sip/inbound/identity.js';
import { SipNames } from '../../sip/outbound/dns-naptr-srv.js';

function names(records: { naptr?: Record<string, NaptrRecord[]>; srv?: Record<string, SrvRecord[]> }, draw = 0) {
  const asked: string[] = [];
  let now = 0;
  const look = async <T>(kind: string, table: Record<string, T[]> | undefined, name: string): Promise<T[]> => {
    asked.push(`${kind} ${name}`);
    const found = table?.[name];
    if (!found) throw Object.assign(new Error('no such name'), { code: 'ENOTFOUND' });
    return found;
  };
  const server = {
    naptr: (name: string) => look('NAPTR', records.naptr, name),
    srv: (name: string) => look('SRV', records.srv, name),
  };
  const sip = new SipNames(
    server,
    () => draw,
    () => now,
  );
  return {
    asked,
    pass: (ms: number) => {
      now += ms;
    },
    async hops(text: string) {
      const uri = parseUri(text);
      if (!uri) throw new Error(`${text} is no URI`);
      return (await sip.hops(uri)).map(({ transport, host, port }) => `${transport} ${host}:${port}`);
    },
  };
}
const srv = (name: string, priority: number, weight: number, port = 5060): SrvRecord => ({
  name,
  priority,
  weight,
  port,
});
const naptr = (service: string, order: number, replacement: string): NaptrRecord => ({
  ...{ flags: 's', service, regexp: '', replacement, order, preference: 0 },
});

describe('SIP names', () => {
  it('an address, a port and a single label are what they say: nobody is asked', async () => {
    const { hops, asked } = names({});
    for (const uri of [
      'sip:1@192.0.2.1',
      'sip:1@carrier.example:5070',
      'sip:1@[2001:db8::1]',
      'sip:1@gw',
      'tel:+15551234567',
    ])
      expect(await hops(uri)).toEqual([]);
    expect(asked).toEqual([]);
  });

  it('NAPTR selects the transport, SRV the host; transports that we lack are skipped', async () => {
    const { hops } = names({
      naptr: {
        'carrier.example': [
          naptr('SIP+D2U', 20, '_sip._udp.carrier.example'),
          naptr('SIP+D2W', 2, '_sip._ws.carrier.example'),
          naptr('SIPS+D2T', 5, '_sips._tcp.carrier.example'),
          naptr('SIP+D2T', 10, '_sip._tcp.x.example'),
        ],
      },
      srv: {
        '_sip._tcp.x.example': [srv('b.example', 20, 0), srv('a.example', 10, 0, 5080)],
        '_sip._udp.carrier.example': [srv('c.example.', 1, 0)],
        '_sips._tcp.carrier.example': [srv('s.example', 1, 0, 5061)],
      },
    });
    expect(await hops('sip:1@carrier.example')).toEqual([
      'tls s.example:5061',
      'tcp a.example:5080',
      'tcp b.example:5060',
      'udp c.example:5060',
    ]);
  });

  it('without NAPTR: SRV over UDP, then TCP; a named transport is the only one', async () => {
    const records = { srv: { '_sip._udp.c.example': [srv('u', 0, 0)], '_sip._tcp.c.example': [srv('t', 0, 0)] } };
    expect(await names(records).hops('sip:1@c.example')).toEqual(['udp u:5060', 'tcp t:5060']);
    expect(await names(records).hops('sip:1@c.example;transport=tcp')).toEqual(['tcp t:5060']);
    expect(await names(records).hops('sip:1@c.example;transport=ws')).toEqual([]);
  });

  it('sips and TLS: the secure service alone', async () => {
    const records = {
      srv: { '_sips._tcp.c.example': [srv('s', 0, 0, 5061)], '_sip._tcp.c.example': [srv('t', 0, 0)] },
    };
    for (const uri of ['sips:1@c.example', 'sip:1@c.example;transport=tls', 'sips:1@c.example;transport=tcp'])
      expect(await names(records).hops(uri)).toEqual(['tls s:5061']);
  });

  it('weight decides among equals, and everybody has a turn', async () => {
    const records = { srv: { '_sip._udp.c.example': [srv('small', 0, 1), srv('big', 0, 3)] } };
    const uri = 'sip:1@c.example;transport=udp';
    expect(await names(records, 0.2).hops(uri)).toEqual(['udp small:5060', 'udp big:5060']);
    expect(await names(records, 0.3).hops(uri)).toEqual(['udp big:5060', 'udp small:5060']);
  });

  it('an answer is kept for a minute, none for ten seconds; a lone root is no service', async () => {
    const none = { srv: { '_sip._udp.c.example': [srv('', 0, 0)] } };
    const { hops, asked, pass } = names(none);
    expect(await hops('sip:1@c.example;transport=udp')).toEqual([]);
    pass(9999);
    await hops('sip:1@c.example;transport=udp');
    expect(asked).toHaveLength(1);
    pass(1);
    none.srv['_sip._udp.c.example'] = [srv('a', 0, 0)];
    expect(await hops('sip:1@c.example;transport=udp')).toEqual(['udp a:5060']);
    pass(59_999);
    await hops('sip:1@c.example;transport=udp');
    expect(asked).toHaveLength(2);
  });
});
