import { expect, it } from 'vitest';
import { refuseForeignCarrier } from '../../sip/outbound/carrier-gateways.js';
import type { TrunkRecord } from '../../sip/trunk/trunk-table.js';

const addresses: Record<string, string[]> = {
  'sip.carrier.example': ['203.0.113.5', '203.0.113.6'],
  'alias.attacker.example': ['203.0.113.6'],
  'pbx.example': ['198.51.100.7'],
};
const resolve = async (host: string) => {
  const found = addresses[host];
  if (!found) throw new Error('ENOTFOUND');
  return found.map((address) => ({ address }));
};
const trunk = (
  organizationId: string | null,
  uri: string,
  direction: TrunkRecord['direction'] = 'both',
): TrunkRecord => ({
  ...{ id: uri, organizationId, name: uri, direction, status: 'active', addresses: [], username: null, password: null },
  gateways: [{ uri, priority: 0, weight: 1 }],
});
const trunks = [
  trunk(null, 'sip:sip.carrier.example'),
  trunk('other', 'sip:192.0.2.9:5080;transport=tcp'),
  trunk('mine', 'sip:pbx.example'),
  { ...trunk('other', 'sip:sip.shared.example'), username: 'u', password: 'p' },
  trunk(null, 'sip:gone.example'),
  trunk(null, 'sip:127.0.0.1:5090'),
  trunk(null, 'sip:198.51.100.99', 'inbound'),
];
const called = (uri: string) => {
  const host = uri.replace(/^sips?:(.*@)?|:\d+$|;.*$/g, '').replace(/:\d+$/, '');
  return refuseForeignCarrier({ gateway: { uri }, requestUri: uri, host }, 'mine', trunks, resolve);
};

it.each([
  'sip:+19005550100@sip.carrier.example',
  'sip:0019005550100@203.0.113.5',
  'sip:%2B19005550100@203.0.113.5',
  'sip:+1(900)555-0100@SIP.CARRIER.EXAMPLE',
  'sip:+19005550100@alias.attacker.example:5061;transport=tls',
  'sip:+19005550100@192.0.2.9',
  'sip:+19005550100@gone.example',
  'sip:100@127.0.0.1:5090',
])("a number at a carrier that is not the organization's is refused: %s", async (uri) => {
  await expect(called(uri)).rejects.toMatchObject({ code: 'protocol', hangupCause: 'destination_not_allowed' });
});

it.each([
  ['a carrier that asks for a password', 'sip:+19005550100@sip.shared.example'],
  ['a name', 'sip:agent_7@sip.carrier.example'],
  ['its own PBX', 'sip:100@pbx.example'],
  ['another host', 'sip:100@somewhere.example'],
  ["an inbound trunk's", 'sip:100@198.51.100.99'],
  ['another port of this machine', 'sip:100@127.0.0.1:5060'],
])('%s is called', async (_what, uri) => {
  await expect(called(uri)).resolves.toBeUndefined();
});
