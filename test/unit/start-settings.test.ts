import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { chooseSipServer } from '../../sip/choose.js';
import { tokenSettings } from '../../src/api/auth/token-settings.js';
import { firstStart } from '../../src/first-start.js';
import type { Logger } from '../../src/log.js';
import { Store } from '../../src/store/store.js';

describe('the SIP server', () => {
  const settings = { sipServer: 'embedded' as const, sipHost: '127.0.0.1', sipPort: 5060, sipTlsPort: null };
  const embedded = { tls: { requireClientCertificate: false }, mediaLagMs: () => 7 };

  it('listens on UDP and TCP, and on TLS with a port for it', () => {
    const transports = (sipTlsPort: number | null) => {
      const server = chooseSipServer({ ...settings, sipTlsPort }, embedded);
      return server.kind === 'embedded' ? server.listen.map(({ transport, port }) => `${transport} ${port}`) : [];
    };
    expect(transports(null)).toEqual(['udp 5060', 'tcp 5060']);
    expect(transports(5061)).toEqual(['udp 5060', 'tcp 5060', 'tls 5061']);
  });

  it('asks how late the media threads are', () => {
    const server = chooseSipServer(settings, embedded);
    expect(server.kind === 'embedded' && server.mediaLagMs?.()).toBe(7);
  });

  it('is an external one when the settings name some', () => {
    const servers = [{ host: 'sip.example', port: 9022, secret: 's' }];
    expect(chooseSipServer({ ...settings, sipServer: servers }, embedded)).toEqual({
      ...{ kind: 'drachtio', servers, mediaHost: '127.0.0.1' },
    });
  });
});

describe('tokens of an identity provider', () => {
  const all = { jwtIssuer: ['https://id.example'], jwtAudience: 'trunkline', jwksUrl: 'https://id.example/keys' };

  it('are off without settings', () => {
    expect(tokenSettings({ jwtIssuer: null, jwtAudience: null, jwksUrl: null })).toBeNull();
  });

  it('need all three settings', () => {
    expect(tokenSettings(all)).toEqual({
      ...{ issuers: all.jwtIssuer, audience: all.jwtAudience, jwksUrl: all.jwksUrl },
    });
    for (const missing of ['jwtIssuer', 'jwtAudience', 'jwksUrl'] as const)
      expect(() => tokenSettings({ ...all, [missing]: null })).toThrow('must be set together or not at all');
  });
});

describe('the first start', () => {
  let folder: string;
  let store: Store;
  let warned: string[];
  const log = { warn: (_fields: object, text: string) => warned.push(text) } as unknown as Logger;
  const trunks = async () => (await store.trunks.allForSip()).filter(({ status }) => status === 'active');
  beforeEach(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'first-start-'));
    store = await Store.open({ file: path.join(folder, 'test.db') });
    warned = [];
  });
  afterEach(async () => {
    await store.close();
    rmSync(folder, { recursive: true });
  });

  it('trusts this host while SIP listens on a loopback address', async () => {
    expect(await firstStart(store, { bootstrapKey: null, sipHost: '127.0.0.1' }, log)).toMatchObject({
      apiKey: expect.stringMatching(/^trunkline_live_\w{32}$/),
    });
    expect(await trunks()).toHaveLength(1);
    expect(warned).toEqual([]);
  });

  it('trusts nothing while SIP listens on any other address', async () => {
    await firstStart(store, { bootstrapKey: null, sipHost: '0.0.0.0' }, log);
    expect(await trunks()).toEqual([]);
  });

  it('withdraws the trust when a later start opens SIP to others, and says so', async () => {
    await firstStart(store, { bootstrapKey: null, sipHost: '::1' }, log);
    expect(await firstStart(store, { bootstrapKey: null, sipHost: '192.0.2.1' }, log)).toBeNull();
    expect(await trunks()).toEqual([]);
    expect(warned).toEqual([expect.stringContaining('was set inactive: sip_host is no loopback address')]);
  });
});
