import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { exampleYaml } from '../../config/describe.js';
import type { DatabaseUrl } from '../../config/kinds.js';
import { loadSettings, SettingsError } from '../../config/load.js';
import { environmentName, propertyName, settingsList } from '../../config/settings.js';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'trunkline-settings-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

function yamlFile(content: string): string {
  const file = path.join(folder, 'trunkline.yaml');
  writeFileSync(file, content);
  return file;
}

function problems(env: Record<string, string>, yaml = ''): readonly string[] {
  try {
    loadSettings({ env, configPath: yamlFile(yaml) });
    return [];
  } catch (error) {
    if (error instanceof SettingsError) return error.lines;
    throw error;
  }
}

const fileOf = ({ databaseUrl }: { databaseUrl: DatabaseUrl }) => databaseUrl.kind === 'sqlite' && databaseUrl.file;

describe('defaults', () => {
  it('are those of the contract', () => {
    const settings = loadSettings({ env: {} });
    expect(settings).toMatchObject({
      httpHost: '127.0.0.1',
      httpPort: 3000,
      sipHost: '127.0.0.1',
      sipPort: 5060,
      rtpPorts: { from: 10000, to: 19999 },
      dataDir: path.resolve('data'),
      databaseUrl: { kind: 'sqlite', file: path.resolve('data/trunkline.db') },
      sipServer: 'embedded',
      mediaEngine: 'embedded',
      externalIp: null,
      maxCalls: null,
      bootstrapKey: null,
      allowPrivateTargets: true,
      maxCallSec: 14400,
      shutdownGraceSec: 600,
    });
    expect(settings.localNets).toContain('192.168.0.0/16');
    expect(settings.mediaThreads).toBeGreaterThanOrEqual(1);
  });

  it('pass their own checks, written out', () => {
    for (const definition of settingsList) {
      if (typeof definition.default === 'string') {
        expect(problems({ [environmentName(definition.name)]: definition.default })).toEqual([]);
      }
    }
  });

  it('follow other settings', () => {
    expect(loadSettings({ env: { TRUNKLINE_SIP_HOST: '0.0.0.0' } }).allowPrivateTargets).toBe(false);
    expect(loadSettings({ env: { TRUNKLINE_HTTP_HOST: '::1' } }).allowPrivateTargets).toBe(true);
    expect(
      loadSettings({ env: { TRUNKLINE_SIP_HOST: '0.0.0.0', TRUNKLINE_ALLOW_PRIVATE_TARGETS: 'true' } }),
    ).toMatchObject({
      allowPrivateTargets: true,
    });
    expect(loadSettings({ env: { TRUNKLINE_HTTP_HOST: '::', TRUNKLINE_ALLOW_PRIVATE_TARGETS: 'auto' } })).toMatchObject(
      {
        allowPrivateTargets: false,
      },
    );
    expect(fileOf(loadSettings({ env: { TRUNKLINE_DATA_DIR: '/var/lib/x' } }))).toBe('/var/lib/x/trunkline.db');
  });
});

it('each setting is read where the list says', () => {
  for (const { name, readBy } of settingsList) {
    const source = readFileSync(new URL(`../../${readBy}`, import.meta.url), 'utf8');
    expect(source, `${readBy} does not read ${name}`).toMatch(new RegExp(`\\b${propertyName(name)}\\b`));
  }
});

describe('good values', () => {
  it.each([
    ['TRUNKLINE_HTTP_HOST', 'localhost', { httpHost: '127.0.0.1' }],
    ['TRUNKLINE_RTP_PORTS', '30000 - 30010', { rtpPorts: { from: 30000, to: 30010 } }],
    ['TRUNKLINE_TRUSTED_PROXIES', '10.0.0.1, fd00::/8', { trustedProxies: ['10.0.0.1/32', 'fd00::/8'] }],
    [
      'TRUNKLINE_CORS_ORIGINS',
      'https://a.example, http://localhost:5173',
      { corsOrigins: ['https://a.example', 'http://localhost:5173'] },
    ],
    ['TRUNKLINE_CORS_ORIGINS', '*', { corsOrigins: ['*'] }],
    ['TRUNKLINE_PUBLIC_URL', 'https://voice.example.com/', { publicUrl: 'https://voice.example.com' }],
    [
      'TRUNKLINE_DATABASE_URL',
      'postgres://u:p@h:5432/d',
      { databaseUrl: { kind: 'postgres', url: 'postgres://u:p@h:5432/d' } },
    ],
    ['TRUNKLINE_DATABASE_URL', 'sqlite:/tmp/a.db', { databaseUrl: { kind: 'sqlite', file: '/tmp/a.db' } }],
    ['TRUNKLINE_DATABASE_URL', 'sqlite:///tmp/a.db', { databaseUrl: { kind: 'sqlite', file: '/tmp/a.db' } }],
    [
      'TRUNKLINE_SIP_SERVER',
      'drachtio://:s%20x@10.0.0.1:9022,drachtio://:y@sip.example',
      {
        sipServer: [
          { host: '10.0.0.1', port: 9022, secret: 's x' },
          { host: 'sip.example', port: 9022, secret: 'y' },
        ],
      },
    ],
    [
      'TRUNKLINE_MEDIA_ENGINE',
      'freeswitch://:p%40s@10.0.0.7,freeswitch://:q@media:8022?external_ip=203.0.113.6&agent_audio=fork',
      {
        mediaEngine: [
          { host: '10.0.0.7', port: 8021, password: 'p@s', externalIp: null, agentAudio: 'rtp' },
          { host: 'media', port: 8022, password: 'q', externalIp: '203.0.113.6', agentAudio: 'fork' },
        ],
      },
    ],
    ['TRUNKLINE_HTTP_PORT', '', { httpPort: 3000 }],
  ])('%s=%s', (variable, value, expected) => {
    expect(loadSettings({ env: { [variable]: value } })).toMatchObject(expected);
  });
});

describe('bad values make one clear line each', () => {
  it.each([
    ['HTTP_HOST', 'example.com'],
    ['HTTP_PORT', '65536'],
    ['HTTP_PORT', '3000x'],
    ['HTTP_PORT', '-1'],
    ['SIP_HOST', '::1'],
    ['SIP_PORT', '5060.5'],
    ['EXTERNAL_IP', '0.0.0.0'],
    ['EXTERNAL_IP', 'my.host'],
    ['LOCAL_NETS', '10.0.0.0/33'],
    ['TRUSTED_PROXIES', 'all'],
    ['RTP_PORTS', '10000'],
    ['RTP_PORTS', '20000-10000'],
    ['RTP_PORTS', '80-10000'],
    ['RTP_PORTS', '65000-70000'],
    ['CORS_ORIGINS', 'https://a.example/'],
    ['CORS_ORIGINS', 'a.example'],
    ['CORS_ORIGINS', 'https://*.example.com'],
    ['CORS_ORIGINS', 'https://a.example, *'],
    ['PUBLIC_URL', 'voice.example.com'],
    ['PUBLIC_URL', 'https://a.example/?x=1'],
    ['MEDIA_THREADS', '0'],
    ['MAX_CALLS', 'many'],
    ['MAX_CALL_SEC', '1e3'],
    ['AGENT_CONNECT_TIMEOUT_SEC', '0'],
    ['ALLOW_PRIVATE_TARGETS', 'yes'],
    ['LOG_LEVEL', 'verbose'],
    ['SHUTDOWN_GRACE_SEC', '10m'],
    ['RTP_TIMEOUT_SEC', 'auto'],
  ])('%s=%s', (name, value) => {
    const lines = problems({ [`TRUNKLINE_${name}`]: value });
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(
      new RegExp(
        `^TRUNKLINE_${name}: ${JSON.stringify(value).replace(/[.?+()*]/g, '\\$&')} is not allowed; allowed: .+`,
      ),
    );
    expect(lines[0]).not.toContain('\n');
  });

  it.each([
    ['METRICS_TOKEN', 'hunter2'],
    ['BOOTSTRAP_KEY', 'trunkline_live_hunter2'],
    ['DATABASE_URL', 'sqlite:'],
    ['DATABASE_URL', 'postgres://u:hunter2@h'],
    ['DATABASE_URL', 'postgers://u:hunter2@h/d'],
    ['SIP_SERVER', 'drachtio://:hunter2@'],
    ['SIP_SERVER', 'drachtio://:hunter2%@host'],
    ['MEDIA_ENGINE', 'freeswitch://:hunter2@host/x'],
    ['MEDIA_ENGINE', 'freeswitch://:hunter2@host?external_ip=here'],
    ['MEDIA_ENGINE', 'freeswitch://:hunter2@host?agent_audio=both'],
    ['MEDIA_ENGINE', 'freeswitch://:hunter2%0Aapi@host'],
    ['MEDIA_ENGINE', 'drachtio://:hunter2@host'],
  ])('%s never shows its value', (name, value) => {
    const lines = problems({ [`TRUNKLINE_${name}`]: value });
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain(`TRUNKLINE_${name}: the value (hidden) is not allowed; allowed: `);
    expect(lines[0]).not.toContain('hunter2');
  });

  it('lists all of them at once', () => {
    expect(problems({ TRUNKLINE_HTTP_PORT: 'x', TRUNKLINE_LOG_LEVEL: 'x' }, 'sip_port: x\n')).toHaveLength(3);
  });

  it('sees values that do not fit together', () => {
    expect(problems({ TRUNKLINE_SIP_PORT: '10050' })[0]).toContain('inside TRUNKLINE_RTP_PORTS (10000-19999)');
    expect(problems({ TRUNKLINE_HTTP_PORT: '5060' })[0]).toContain('is TRUNKLINE_SIP_PORT too');
    expect(problems({ TRUNKLINE_HTTP_PORT: '0', TRUNKLINE_SIP_PORT: '0' })).toEqual([]);
  });
});

describe('unknown names', () => {
  it.each([
    ['TRUNKLINE_HTTP_PROT', 'did you mean TRUNKLINE_HTTP_PORT?'],
    ['TRUNKLINE_EXTERNALIP', 'did you mean TRUNKLINE_EXTERNAL_IP?'],
    ['TRUNKLINE_API_KEYS', 'did you mean TRUNKLINE_API_KEY?'],
    ['TRUNKLINE_WEATHER', '"trunkline settings" lists all'],
  ])('%s: %s', (variable, hint) => {
    expect(problems({ [variable]: '1' })).toEqual([`${variable}: no such variable; ${hint}`]);
  });

  it('leaves what Kubernetes sets for a Service named trunkline alone', () => {
    expect(
      problems({
        TRUNKLINE_SERVICE_HOST: '10.1.2.3',
        TRUNKLINE_SERVICE_PORT_HTTP: '3000',
        TRUNKLINE_PORT: 'tcp://10.1.2.3:3000',
        TRUNKLINE_PORT_3000_TCP_ADDR: '10.1.2.3',
        TRUNKLINE_API_KEY: 'x',
        TRUNKLINE_CONFIG: 'other.yaml',
      }),
    ).toEqual([]);
    expect(problems({ TRUNKLINE_PORT: '3000' })).toHaveLength(1);
  });
});

describe('trunkline.yaml', () => {
  it('is read, and the environment wins', () => {
    const configPath = yamlFile(
      'http_port: 3001\nsip_port: 5070\nlocal_nets:\n  - 10.0.0.0/8\n  - 192.0.2.1\nmax_calls: ~\n',
    );
    expect(loadSettings({ env: { TRUNKLINE_HTTP_PORT: '3002' }, configPath })).toMatchObject({
      httpPort: 3002,
      sipPort: 5070,
      localNets: ['10.0.0.0/8', '192.0.2.1/32'],
      maxCalls: null,
    });
  });

  it('keeps a long number of a secret as it was written', () => {
    const configPath = yamlFile('metrics_token: 001234567890123456789\n');
    expect(loadSettings({ env: {}, configPath }).metricsToken).toBe('001234567890123456789');
  });

  it.each([
    ['http_prot: 1\n', 'http_prot in trunkline.yaml, line 1: no such setting; did you mean http_port?'],
    [
      '\nhttp_port: abc\n',
      'http_port in trunkline.yaml, line 2: "abc" is not allowed; allowed: a port from 1 to 65535, or 0 for any free one',
    ],
    ['rtp_ports: {from: 1, to: 2}\n', 'rtp_ports in trunkline.yaml, line 1: must be a single value or a list'],
    ['- a\n', 'trunkline.yaml: must be lines of "name: value"'],
    ['http_port: 1\nhttp_port: 2\n', 'trunkline.yaml, line 2: not valid YAML (duplicate key)'],
    ['metrics_token: "x\n', 'trunkline.yaml, line 2: not valid YAML (missing char)'],
  ])('%j', (content, line) => {
    expect(problems({}, content)).toEqual([line]);
  });

  it('that was named must exist', () => {
    expect(() => loadSettings({ env: { TRUNKLINE_CONFIG: '/nowhere/t.yaml' } })).toThrow(
      '/nowhere/t.yaml: the settings file cannot be read (it does not exist)',
    );
  });

  it('has an example that is current and valid', () => {
    const example = readFileSync(new URL('../../config/trunkline.example.yaml', import.meta.url), 'utf8');
    expect(example, 'run: npx trunkline settings --example > config/trunkline.example.yaml').toBe(exampleYaml());
    const uncommented = example.replace(/^#(\w+:)/gm, '$1');
    expect(problems({}, uncommented)).toEqual([]);
  });
});
