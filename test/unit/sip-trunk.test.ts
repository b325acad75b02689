import fc from 'fast-check';
import ipaddr from 'ipaddr.js';
import { describe, expect, it } from 'vitest';
import { AddressRanges } from '../../sip/server/overload/prefix-table.js';
import { type TrunkRecord, TrunkTable } from '../../sip/trunk/trunk-table.js';

function trunk(name: string, change: Partial<TrunkRecord>): TrunkRecord {
  return {
    id: `id-${name}`,
    organizationId: null,
    name,
    direction: 'both',
    status: 'active',
    addresses: [],
    username: null,
    password: null,
    gateways: [],
    ...change,
  };
}

function names(table: TrunkTable, address: string): string[] {
  return table.trusting(address).map((match) => match.name);
}

describe('TrunkTable', () => {
  it('lets the longest prefix win, v4 and v6', () => {
    const table = new TrunkTable();
    const problems = table.replace([
      trunk('wide', { addresses: ['10.0.0.0/8', '2001:db8::/32'] }),
      trunk('narrow', { addresses: ['10.1.2.0/24', '2001:db8:1::/48'] }),
      trunk('one', { addresses: ['10.1.2.3', '2001:db8:1::5'] }),
      trunk('host bits', { addresses: ['172.16.5.9/12'] }),
    ]);
    expect(problems).toEqual([]);
    expect(names(table, '10.200.0.1')).toEqual(['wide']);
    expect(names(table, '10.1.2.9')).toEqual(['narrow']);
    expect(names(table, '10.1.2.3')).toEqual(['one']);
    expect(names(table, '::ffff:10.1.2.3')).toEqual(['one']);
    expect(names(table, '::FFFF:0a01:203')).toEqual(['one']);
    expect(names(table, '2001:db8:1::0.0.0.5')).toEqual(['one']);
    expect(names(table, '172.31.255.255')).toEqual(['host bits']);
    expect(names(table, '172.32.0.0')).toEqual([]);
    expect(names(table, '2001:db8:9::1')).toEqual(['wide']);
    expect(names(table, '2001:db8:1:0::9')).toEqual(['narrow']);
    expect(names(table, '2001:db8:1::5')).toEqual(['one']);
    expect(names(table, '11.0.0.1')).toEqual([]);
    expect(names(table, 'nonsense')).toEqual([]);
    expect(names(table, '10.1.2.300')).toEqual([]);
  });

  it('trusts everybody with /0, and nobody with nothing', () => {
    const table = new TrunkTable();
    expect(names(table, '127.0.0.1')).toEqual([]);
    table.replace([trunk('all', { addresses: ['0.0.0.0/0'] })]);
    expect(names(table, '203.0.113.7')).toEqual(['all']);
    expect(names(table, '::1')).toEqual([]);
  });

  it('names every trunk of the winning prefix, in the order of the list', () => {
    const table = new TrunkTable();
    table.replace([
      trunk('a', { addresses: ['198.51.100.0/24'], organizationId: 'o1' }),
      trunk('b', { addresses: ['198.51.100.77/24'], organizationId: 'o2' }),
    ]);
    expect(table.trusting('198.51.100.1')).toEqual([
      { trunkId: 'id-a', organizationId: 'o1', name: 'a', trustedBy: 'address' },
      { trunkId: 'id-b', organizationId: 'o2', name: 'b', trustedBy: 'address' },
    ]);
  });

  it('leaves out inactive trunks, and outbound ones for calls to us', () => {
    const table = new TrunkTable();
    table.replace([
      trunk('off', { status: 'inactive', addresses: ['10.0.0.1'], username: 'off', password: 'x' }),
      trunk('out', { direction: 'outbound', addresses: ['10.0.0.2'], username: 'out', password: 'x' }),
    ]);
    expect(names(table, '10.0.0.1')).toEqual([]);
    expect(names(table, '10.0.0.2')).toEqual([]);
    expect(table.withUsername('off')).toBeUndefined();
    expect(table.withUsername('out')?.name).toBe('out');
    expect(table.challengesInvites).toBe(false);
    table.replace([trunk('in', { direction: 'inbound', username: 'in', password: 'x' })]);
    expect(table.challengesInvites).toBe(true);
    expect(table.withUsername('out')).toBeUndefined();
  });

  it('says which addresses it cannot read and takes the rest', () => {
    const table = new TrunkTable();
    const problems = table.replace([
      trunk('t', { addresses: ['10.0.0.0/33', 'carrier.example', '1.2.3', '10.0.0.0/8'] }),
    ]);
    expect(problems).toHaveLength(3);
    expect(problems[1]).toContain('"carrier.example"');
    expect(names(table, '10.9.9.9')).toEqual(['t']);
  });
});

describe('AddressRanges', () => {
  it('agrees with ipaddr.js about every address', () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.ipV4(), fc.ipV6()),
        fc.oneof(fc.ipV4(), fc.ipV6()),
        fc.nat(128),
        (range, address, bits) => {
          // ipaddr.js takes the abandoned form `::1.2.3.4` for a mapped address.
          fc.pre(![range, address].some((text) => text.includes(':') && text.includes('.')));
          const net = ipaddr.process(range);
          const width = net.kind() === 'ipv4' ? bits % 33 : bits;
          const parsed = ipaddr.process(address);
          const inside = (a: typeof parsed) =>
            a.kind() === net.kind() && (a as ipaddr.IPv4).match(net as ipaddr.IPv4, width);
          const text = `${net.toString()}/${width}`;
          expect(new AddressRanges([text]).has(address), `${address} in ${text}`).toBe(inside(parsed));
          expect(new AddressRanges([text]).has(range)).toBe(true);
        },
      ),
    );
  });

  it('answers inside or outside', () => {
    const nets = new AddressRanges(['192.168.0.0/16', 'fc00::/7']);
    expect(nets.has('192.168.4.4')).toBe(true);
    expect(nets.has('192.169.0.1')).toBe(false);
    expect(nets.has('fd00::1')).toBe(true);
    expect(nets.has('2001:db8::1')).toBe(false);
    expect(nets.has('x')).toBe(false);
    expect(() => new AddressRanges(['10.0.0.0/99'])).toThrow('neither an IP address nor a CIDR');
  });
});
