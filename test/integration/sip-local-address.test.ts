import { describe, expect, it } from 'vitest';
import { AdvertisedAddresses } from '../../sip/drachtio/local-address.js';
import { LocalAddresses } from '../../sip/server/transport/local-address.js';

const localNets = ['10.0.0.0/8', '127.0.0.0/8'];

describe('the address that a peer gets', () => {
  it.each([
    ['where SIP listens', {}, '127.0.0.1', '127.0.0.9', '127.0.0.9'],
    ['on a wildcard, the one that routes to the peer', {}, '127.0.0.1', '0.0.0.0', '127.0.0.1'],
    [
      'outside the local nets, the external one',
      { externalIp: '203.0.113.5' },
      '198.51.100.7',
      '10.0.0.1',
      '203.0.113.5',
    ],
    ['within the local nets, our own', { externalIp: '203.0.113.5' }, '10.9.9.9', '10.0.0.1', '10.0.0.1'],
    [
      'with an external SIP server, where our media is bound',
      { mediaHost: '127.0.0.5' },
      '127.0.0.1',
      '10.0.0.2',
      '127.0.0.5',
    ],
    [
      'with an external SIP server and a wildcard, the one that routes to the peer',
      { mediaHost: '0.0.0.0' },
      '127.0.0.1',
      '10.0.0.2',
      '127.0.0.1',
    ],
  ])('%s', async (_, options, peer, listener, told) => {
    expect(await new AdvertisedAddresses({ localNets, ...options }).facing(peer, listener)).toBe(told);
  });
});

describe('a call to an address of ours would come back', () => {
  const at = (host: string) => [{ transport: 'udp', host, port: 5060 }];
  it.each([
    ['where SIP listens', {}, '10.0.0.1', 5060, '10.0.0.1', true],
    ['at another port', {}, '10.0.0.1', 5062, '10.0.0.1', false],
    ['at another host', {}, '10.0.0.2', 5060, '10.0.0.1', false],
    ['from outside', { externalIp: '203.0.113.5' }, '203.0.113.5', 5060, '10.0.0.1', true],
    ['on a wildcard, at any address of the machine', {}, '127.0.0.1', 5060, '0.0.0.0', true],
    ['on a wildcard, elsewhere', {}, '198.51.100.7', 5060, '0.0.0.0', false],
  ])('%s', (_, options, host, port, listener, ours) => {
    expect(new AdvertisedAddresses({ localNets, ...options }).isOurs(host, port, at(listener))).toBe(ours);
  });
});

describe('a peer without a route', () => {
  // the kernel connects to a broadcast address only when it is asked to
  const unreachable = '255.255.255.255';

  it('gets the loopback address, not that of no interface', async () => {
    expect(await new AdvertisedAddresses({ localNets }).facing(unreachable, '0.0.0.0')).toBe('127.0.0.1');
  });

  it('is looked up again the next time', async () => {
    const addresses = new LocalAddresses(null, localNets);
    expect(await addresses.resolve('0.0.0.0', unreachable)).toBe('127.0.0.1');
    expect(addresses.known('0.0.0.0', unreachable)).toBeNull();
    expect(await addresses.resolve('0.0.0.0', '127.0.0.1')).toBe('127.0.0.1');
    expect(addresses.known('0.0.0.0', '127.0.0.1')).toBe('127.0.0.1');
  });
});
