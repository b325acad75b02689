import { describe, expect, it } from 'vitest';
import type { MonitoredGateway } from '../../sip/leg.js';
import { EndpointHealth } from '../../src/call/routing/endpoint-health.js';
import { healthOf, saveTrunkHealth } from '../../src/call/routing/trunk-health.js';
import { TrunkReload } from '../../src/call/routing/trunk-reload.js';
import type { Logger } from '../../src/log.js';
import { plainIdentity, plainTls, type Trunk } from '../../src/store/routing/trunks.js';

const trunk = (change: Partial<Trunk>): Trunk => ({
  ...{ id: 't', organizationId: 'o', name: 't', direction: 'both', addresses: [], username: null, password: null },
  ...{ gateways: [], transport: 'udp', srtp: 'off', tls: plainTls, register: false, codecs: ['PCMU'] },
  ...{ maxCalls: null, callsPerSecond: null, outbound: plainIdentity },
  ...{ status: 'active', health: 'unknown', createdAt: new Date(0), updatedAt: new Date(0) },
  ...change,
});
const gateway = (uri: string) => ({ uri, priority: 0, weight: 1 });

/** Collects warnings: their fields and their text. */
function warnings(): { log: Logger; warned: [object, string][] } {
  const warned: [object, string][] = [];
  return { log: { warn: (fields: object, text: string) => warned.push([fields, text]) } as unknown as Logger, warned };
}

describe('the trunks in force', () => {
  async function rig(records: Trunk[], problems: string[] = []) {
    const seen = {
      isRegistrant: true,
      table: [] as string[][],
      selection: [] as string[][],
      trusted: [] as (readonly string[])[],
      tls: [] as object[],
      kept: [] as (readonly MonitoredGateway[])[],
    };
    const ids = (trunks: readonly Trunk[]) => trunks.map(({ id }) => id);
    const { log, warned } = warnings();
    const reload = await TrunkReload.open({
      records: async () => [...records],
      table: {
        replace: (trunks) => {
          seen.table.push(ids(trunks));
          return problems;
        },
      },
      selection: { replace: (trunks) => void seen.selection.push(ids(trunks)) },
      tls: () => ({ certificate: 'own' }),
      registers: () => seen.isRegistrant,
      log,
    });
    const sip = {
      trust: (nets: readonly string[]) => void seen.trusted.push(nets),
      secure: (tls: object) => void seen.tls.push(tls),
      keepalive: { replace: (gateways: readonly MonitoredGateway[]) => void seen.kept.push(gateways) },
    };
    return { reload, sip, seen, warned };
  }

  it('are in the table of sources before the SIP side is open', async () => {
    const { seen } = await rig([trunk({ id: 'a' })]);
    expect(seen).toMatchObject({ table: [['a']], selection: [['a']], trusted: [], kept: [] });
  });

  it('reach the SIP side when it is open, and again after each change', async () => {
    const records = [trunk({ id: 'a', addresses: ['192.0.2.0/24'], gateways: [gateway('sip:gw')] })];
    const { reload, sip, seen } = await rig(records);
    await reload.follow(sip);
    expect(seen.trusted).toEqual([['192.0.2.0/24']]);
    expect(seen.kept).toEqual([[{ uri: 'sip:gw', register: null, trust: 'a' }]]);
    expect(seen.tls).toEqual([{ certificate: 'own', trust: {} }]);
    records.splice(0);
    await reload.run();
    expect(seen.table.at(-1)).toEqual([]);
    expect(seen.trusted.at(-1)).toEqual([]);
    expect(seen.kept.at(-1)).toEqual([]);
  });

  it('trust no address of an inactive trunk', async () => {
    const { reload, sip, seen } = await rig([
      trunk({ id: 'a', status: 'inactive', addresses: ['192.0.2.1'] }),
      trunk({ id: 'b', addresses: ['198.51.100.1'] }),
    ]);
    await reload.follow(sip);
    expect(seen.trusted).toEqual([['198.51.100.1']]);
  });

  it('are registered with their carriers by one node only', async () => {
    const { reload, sip, seen } = await rig([
      trunk({
        id: 'a',
        gateways: [{ uri: 'sip:carrier.test', priority: 1, weight: 1 }],
        register: true,
        username: 'u',
        password: 'p',
      }),
    ]);
    await reload.follow(sip);
    seen.isRegistrant = false;
    await reload.run();
    expect(seen.kept.map((gateways) => gateways.map(({ uri, register }) => [uri, register?.username]))).toEqual([
      [['sip:carrier.test', 'u']],
      [['sip:carrier.test', undefined]],
    ]);
  });

  it('bring their own certificate authorities', async () => {
    const { reload, sip, seen } = await rig([trunk({ id: 'a', tls: { ...plainTls, ca: 'PEM' } })]);
    await reload.follow(sip);
    expect(seen.tls).toEqual([{ certificate: 'own', trust: { a: { ca: 'PEM' } } }]);
  });

  it('are those of the latest read, however late an earlier one answers', async () => {
    const answers: ((trunks: Trunk[]) => void)[] = [];
    const table: string[][] = [];
    const replace = (trunks: readonly Trunk[]) => {
      table.push(trunks.map(({ id }) => id));
      return [];
    };
    const records = () => new Promise<Trunk[]>((resolve) => answers.push(resolve));
    const others = { tls: () => ({}), registers: () => true, log: warnings().log };
    const parts = { records, table: { replace }, selection: { replace }, ...others };
    const opening = TrunkReload.open(parts);
    answers[0]?.([]);
    const reload = await opening;
    const older = reload.run();
    const newer = reload.run();
    answers[2]?.([trunk({ id: 'new' })]);
    await newer;
    answers[1]?.([trunk({ id: 'old' })]);
    await older;
    expect(table.at(-1)).toEqual(['new']);
  });

  it('log each address that cannot be read', async () => {
    const { warned } = await rig([trunk({})], ['The address "x" is wrong.']);
    expect(warned).toEqual([[{ problem: 'The address "x" is wrong.' }, 'a trunk address was left out']]);
  });
});

describe('the health of a trunk', () => {
  const two = trunk({ id: 'two', gateways: [gateway('sip:a'), gateway('sip:b')] });
  it.each([
    [['unknown', 'unknown'], 'unknown'],
    [['up', 'unknown'], 'healthy'],
    [['up', 'down'], 'degraded'],
    [['down', 'down'], 'down'],
  ] as const)('with gateways %s is %s', (states, health) => {
    expect(healthOf(two, (uri) => (uri === 'sip:a' ? states[0] : states[1]))).toBe(health);
  });

  it('is written for every trunk', async () => {
    const written: [string, string][] = [];
    const records = {
      allForSip: async () => [two],
      observe: async (id: string, health: string) => void written.push([id, health]),
    };
    await saveTrunkHealth(records, () => 'down', warnings().log);
    expect(written).toEqual([['two', 'down']]);
  });

  it('is logged, and fails nothing, while the database is busy', async () => {
    const { log, warned } = warnings();
    const busy = new Error('database is locked');
    const records = {
      allForSip: async () => [two],
      observe: async () => {
        throw busy;
      },
    };
    await saveTrunkHealth(records, () => 'down', log);
    expect(warned).toEqual([[{ err: busy }, 'the health of a trunk could not be written']]);
  });
});

describe('the health of an endpoint', () => {
  it('changes with the outcome of calls, and is written once per change', () => {
    const written: string[] = [];
    const health = new EndpointHealth(
      async (_id, state) => void written.push(state),
      warnings().log,
      () => 0,
    );
    for (let i = 0; i < 4; i++) health.failed('e');
    health.succeeded('e');
    expect(written).toEqual(['degraded', 'down', 'healthy']);
  });

  it('lets one call in half a minute try an endpoint that is down', () => {
    let nowMs = 0;
    const health = new EndpointHealth(
      async () => undefined,
      warnings().log,
      () => nowMs,
    );
    for (let i = 0; i < 3; i++) health.failed('e');
    expect(health.admits('e')).toBe(false);
    nowMs = 30_000;
    expect([health.admits('e'), health.admits('e')]).toEqual([true, false]);
  });

  it('is logged, and the call goes on, while the database is busy', async () => {
    const { log, warned } = warnings();
    const busy = new Error('database is locked');
    const health = new EndpointHealth(
      async () => {
        throw busy;
      },
      log,
      () => 0,
    );
    health.failed('e');
    await expect.poll(() => warned.length).toBe(1);
    expect(warned).toEqual([
      [{ err: busy, endpoint_id: 'e', health: 'degraded' }, 'the health of an endpoint was not written'],
    ]);
    expect(health.admits('e')).toBe(true);
  });
});
