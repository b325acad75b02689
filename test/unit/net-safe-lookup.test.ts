import type { LookupAddress, LookupOptions } from 'node:dns';
import { describe, expect, test } from 'vitest';
import {
  BlockedAddressError,
  createSafeLookup,
  isPublicAddress,
  refuseInternalLiteral,
} from '../../net/safe-lookup.js';

describe('addresses a resolver may give', () => {
  test.each([
    '8.8.8.8',
    '1.1.1.1',
    '93.184.216.34',
    '172.15.255.255',
    '172.32.0.1',
    '100.63.255.255',
    '100.128.0.1',
    '169.253.0.1',
    '223.255.255.254',
    '2606:4700:4700::1111',
    '2a00:1450:4001:81b::200e',
    '2400:cb00::1',
  ])('%s is public', (address) => {
    expect(isPublicAddress(address)).toBe(true);
  });

  test.each([
    '0.0.0.0',
    '0.1.2.3',
    '10.0.0.1',
    '10.255.255.255',
    '100.64.0.1',
    '100.100.100.200',
    '100.127.255.255',
    '127.0.0.1',
    '127.255.255.254',
    '168.63.129.16',
    '169.254.0.1',
    '169.254.169.254',
    '172.16.0.1',
    '172.31.255.255',
    '192.0.0.1',
    '192.0.2.1',
    '192.88.99.1',
    '192.168.0.1',
    '198.18.0.1',
    '198.19.255.255',
    '198.51.100.1',
    '203.0.113.1',
    '224.0.0.1',
    '239.255.255.255',
    '240.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    '::127.0.0.1',
    '::7f00:1',
    '::ffff:127.0.0.1',
    '::ffff:10.0.0.1',
    '::ffff:8.8.8.8',
    '::ffff:7f00:1',
    '::ffff:0:127.0.0.1',
    '64:ff9b::7f00:1',
    '64:ff9b::10.0.0.1',
    '64:ff9b:1::1',
    '100::1',
    '2001::1',
    '2001:db8::1',
    '2001:2::1',
    '2001:10::1',
    '2001:20::1',
    '2002:7f00:1::',
    '3fff::1',
    '4000::1',
    '5f00::1',
    'fc00::1',
    'fd12:3456::1',
    'fe80::1',
    'fe80::1%eth0',
    'fec0::1',
    'ff02::1',
    'ff0e::1',
    '',
    'localhost',
    '127.1',
    '0x7f.0.0.1',
    '2130706433',
    '8.8.8.8 ',
    '08.8.8.8',
    '[::1]',
  ])('%j is not', (address) => {
    expect(isPublicAddress(address)).toBe(false);
  });
});

describe('hosts in a URL', () => {
  test.each([
    '127.0.0.1',
    '127.1',
    '127.0.1',
    '127.0.0.1.',
    '2130706433',
    '0x7f000001',
    '0X7F.1',
    '0177.0.0.1',
    '017700000001',
    '0x7f.0.0.0x1',
    '0',
    '0.0.0.0',
    '0x0',
    '10.1',
    '192.168.257',
    '169.254.169.254',
    '2852039166',
    '0xa9fea9fe',
    '0251.0376.0251.0376',
    '100.64.0.1',
    '１２７.０.０.１',
    '①②⑦.0.0.1',
    '127。0。0。1',
    '%31%32%37.0.0.1',
    'user:pass@127.0.0.1',
    '8.8.8.8@127.0.0.1',
    '127.0.0.1:443',
    '10.0.0.1:22',
    '[::1]',
    '[::]',
    '[0:0:0:0:0:0:0:1]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[::ffff:a9fe:a9fe]',
    '[64:ff9b::7f00:1]',
    '[fe80::1]',
    '[fd00::1]',
    '[::127.0.0.1]',
    '[2002:7f00:1::]',
    'localhost',
    'LOCALHOST',
    'localhost.',
    'ＬＯＣＡＬＨＯＳＴ',
    'a.localhost',
  ])('%s is refused', (host) => {
    expect(() => refuseInternalLiteral(new URL(`wss://${host}/path`))).toThrow(BlockedAddressError);
  });

  test.each([
    '8.8.8.8',
    '134744072',
    '[2606:4700:4700::1111]',
    'agent.example.com',
    '10.0.0.1.example.com',
    'notlocalhost',
    '127.0.0.1.nip.io',
  ])('%s goes on to the resolver', (host) => {
    expect(() => refuseInternalLiteral(new URL(`wss://${host}/path`))).not.toThrow();
  });
});

describe('lookup', () => {
  type Answer = { error: Error | null; address: string | LookupAddress[]; family?: number };

  function ask(answer: Error | string[], all: boolean): Promise<Answer> {
    const resolve = (_host: string, { all }: LookupOptions, callback: (...values: unknown[]) => void) => {
      if (answer instanceof Error) return callback(answer);
      const addresses = answer.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
      callback(null, ...(all ? [addresses] : [addresses[0]?.address, addresses[0]?.family]));
    };
    const lookup = createSafeLookup(resolve as never);
    return new Promise((done) =>
      lookup('agent.example.com', { all }, (error, address, family) => done({ error, address, family })),
    );
  }

  test('gives what it checked, in the form that was asked for', async () => {
    expect(await ask(['8.8.8.8', '2606:4700::1'], true)).toEqual({
      error: null,
      address: [
        { address: '8.8.8.8', family: 4 },
        { address: '2606:4700::1', family: 6 },
      ],
    });
    expect(await ask(['2606:4700::1', '8.8.8.8'], false)).toEqual({ error: null, address: '2606:4700::1', family: 6 });
  });

  test.each([[['127.0.0.1']], [['8.8.8.8', '10.0.0.1']], [['8.8.8.8', '::ffff:10.0.0.1']], [['10.0.0.1', '8.8.8.8']]])(
    'refuses %j as a whole',
    async (addresses) => {
      for (const all of [true, false]) {
        expect((await ask(addresses, all)).error).toMatchObject({ code: 'EBLOCKEDADDRESS' });
      }
    },
  );

  test('an empty answer is no answer, and an error stays what it is', async () => {
    expect((await ask([], true)).error).toBeInstanceOf(Error);
    const error = new Error('ENOTFOUND');
    expect((await ask(error, true)).error).toBe(error);
  });
});
