import { expect, it } from 'vitest';
import { startBanner } from '../../src/banner.js';

const first = {
  organizationId: 'o',
  ownerId: 'p',
  loopbackTrunkId: 't',
  apiKey: 'trunkline_live_x',
  number: '+15550100',
  endpointId: 'e',
};
const listening = (host: string, port = 5060) => ({ addresses: [{ transport: 'udp', host, port }], problems: [] });

it('a first start on loopback says how to dial the demo number from this host', () => {
  const banner = startBanner('http://127.0.0.1:3000', listening('127.0.0.1', 5062), first);
  expect(banner).toContain('npx trunkline call +15550100');
  expect(banner).toContain('sip:+15550100@127.0.0.1:5062');
});

it('a first start on an open address says that a trunk is needed, since this host is not trusted then', () => {
  const banner = startBanner('http://127.0.0.1:3000', listening('0.0.0.0'), { ...first, loopbackTrunkId: null });
  expect(banner).not.toContain('trunkline call');
  expect(banner).toContain('trunks add --name "My phone" --address ADDRESS');
  expect(banner).toContain('sip:+15550100@HOST with it');
});
