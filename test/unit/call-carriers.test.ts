import { describe, expect, it } from 'vitest';
import { presentationOf } from '../../src/call/routing/outbound-identity.js';
import { TrunkLoad } from '../../src/call/routing/trunk-load.js';
import { Carriers, inOrder } from '../../src/call/routing/trunk-selection.js';
import { CallRates } from '../../src/redis/call-rates.js';
import { plainIdentity, plainTls, type Trunk } from '../../src/store/routing/trunks.js';

const trunk = (change: Partial<Trunk>): Trunk => ({
  ...{ id: 't', organizationId: 'o', name: 't', direction: 'both', addresses: [], username: null, password: null },
  ...{
    gateways: [{ uri: 'sip:gw', priority: 0, weight: 1 }],
    transport: 'udp',
    srtp: 'off',
    tls: plainTls,
    register: false,
  },
  ...{ codecs: ['PCMA', 'PCMU'], maxCalls: null, callsPerSecond: null, outbound: plainIdentity },
  ...{ status: 'active', health: 'unknown', createdAt: new Date(0), updatedAt: new Date(0) },
  ...change,
});
const gateways = (...rows: [string, number, number][]) =>
  rows.map(([uri, priority, weight]) => ({ uri, priority, weight }));

describe('gateways in order', () => {
  const rows = gateways(['b1', 10, 3], ['a', 0, 1], ['b2', 10, 1], ['b0', 10, 0]);

  it('goes by priority; among equals the draw decides by weight', () => {
    const uris = (draw: number) => inOrder(rows, () => draw).map(({ uri }) => uri);
    expect(uris(0)).toEqual(['a', 'b1', 'b2', 'b0']);
    expect(uris(0.74)).toEqual(['a', 'b1', 'b2', 'b0']);
    expect(uris(0.76)).toEqual(['a', 'b2', 'b1', 'b0']);
  });

  it('draws in the share of the weights', () => {
    let first = 0;
    for (let i = 0; i < 1000; i++) if (inOrder(rows, () => i / 1000)[1]?.uri === 'b1') first += 1;
    expect(first).toBe(750);
  });
});

describe('carriers of an organization', () => {
  const down = new Set<string>();
  const carriers = new Carriers({ codecs: ['PCMU', 'PCMA'], isDown: (uri) => down.has(uri), draw: () => 0 });
  carriers.replace([
    trunk({ id: 'own', name: 'own', username: 'u', password: 'p', transport: 'tcp' }),
    trunk({ id: 'other', organizationId: 'x' }),
    trunk({ id: 'inbound', direction: 'inbound' }),
    trunk({ id: 'empty', gateways: [] }),
    trunk({ id: 'shared', organizationId: null, gateways: gateways(['sip:one', 0, 1], ['sip:two', 1, 1]) }),
  ]);

  it('are its own, then those that all share; never of another', () => {
    const found = carriers.of('o');
    expect(found.map(({ trunkId }) => trunkId)).toEqual(['own', 'shared']);
    const auth = { username: 'u', password: 'p' };
    expect(found[0]?.gateways).toEqual([{ uri: 'sip:gw;transport=tcp', trust: 'own', auth }]);
    expect(found[0]?.media).toEqual({ codecs: ['PCMA', 'PCMU'], srtp: 'off' });
  });

  it('a gateway that is down comes last, and comes back', () => {
    down.add('sip:one');
    expect(carriers.of('y')[0]?.gateways.map(({ uri }) => uri)).toEqual(['sip:two', 'sip:one']);
    down.clear();
    expect(carriers.of('y')[0]?.gateways.map(({ uri }) => uri)).toEqual(['sip:one', 'sip:two']);
  });
});

describe('caps of a trunk', () => {
  it('counts calls at once, and gives a place back once', async () => {
    const load = new TrunkLoad(new CallRates(null));
    const caps = { maxCalls: 2, callsPerSecond: null };
    const leave = await load.enter('t', caps);
    expect(await load.enter('t', caps)).not.toBeNull();
    expect(await load.enter('t', caps)).toBeNull();
    expect(await load.enter('u', caps)).not.toBeNull();
    leave?.();
    leave?.();
    expect(await load.enter('t', caps)).not.toBeNull();
    expect(await load.enter('t', caps)).toBeNull();
  });

  it('counts starts within a second', async () => {
    let now = 0;
    const load = new TrunkLoad(new CallRates(null, () => now));
    const caps = { maxCalls: null, callsPerSecond: 2 };
    const entered = await Promise.all([load.enter('t', caps), load.enter('t', caps), load.enter('t', caps)]);
    expect(entered.map(Boolean)).toEqual([true, true, false]);
    now = 999;
    expect(await load.enter('t', caps)).toBeNull();
    now = 1000;
    expect(await load.enter('t', caps)).not.toBeNull();
  });
});

describe('how a trunk writes numbers', () => {
  const call = { from: '+15551230000', to: '+442071234567' };

  it('in E.164 unless it says otherwise', () => {
    expect(presentationOf(call, plainIdentity)).toEqual({ ...call, headers: {} });
  });

  it('with its templates, identity and headers', () => {
    const identity = {
      ...plainIdentity,
      ...{ to_format: '9#{digits}', from_format: '00{digits}', from_domain: 'us.example' },
      ...{ asserted_identity: 'sip:{e164}@us.example', diversion: 'tel:{e164}', headers: { 'X-Plan': 'gold' } },
    };
    expect(presentationOf(call, identity)).toEqual({
      to: '9#442071234567',
      from: '0015551230000',
      fromDomain: 'us.example',
      headers: {
        'X-Plan': 'gold',
        'P-Asserted-Identity': '<sip:+15551230000@us.example>',
        Diversion: '<tel:+15551230000>;reason=unconditional',
      },
    });
  });

  it('withholds the caller from the callee, not from the carrier', () => {
    const identity = { ...plainIdentity, privacy: 'id' as const, asserted_identity: 'tel:{e164}' };
    expect(presentationOf(call, identity)).toEqual({
      to: call.to,
      from: 'anonymous',
      headers: { 'P-Asserted-Identity': '<tel:+15551230000>', Privacy: 'id' },
    });
  });
});
