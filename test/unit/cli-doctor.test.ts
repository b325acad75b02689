import { describe, expect, it } from 'vitest';
import { loadSettings } from '../../config/load.js';
import { examine } from '../../src/cli/doctor/checks.js';
import type { Finding } from '../../src/cli/doctor/finding.js';
import type { Machine } from '../../src/cli/doctor/machine.js';
import { runCli } from '../../src/cli/program.js';

const files: Record<string, string> = {
  '/proc/sys/net/ipv4/ip_local_port_range': '32768\t60999\n',
  '/proc/sys/net/ipv4/ip_local_reserved_ports': '\n',
  '/proc/sys/net/core/rmem_max': '4194304\n',
  '/proc/self/limits':
    'Limit                     Soft Limit           Hard Limit           Units\nMax open files            65536                65536                files\n',
};

/** A machine where everything is fine. */
function machine(changes: Partial<Machine> & { files?: Record<string, string | null> } = {}): Machine {
  const { files: changedFiles, ...rest } = changes;
  let nowMs = Date.UTC(2026, 5, 1);
  return {
    nodeVersion: '22.14.0',
    timezone: 'UTC',
    read: (file) => ({ ...files, ...changedFiles })[file] ?? null,
    bind: async () => 'free',
    addresses: () => ['127.0.0.1', '192.0.2.10', '10.0.0.5'],
    disk: (folder) => ({ existing: folder, writable: true, freeBytes: 50 * 1024 ** 3 }),
    database: () => null,
    answers: async () => false,
    sipContacts: async () => [],
    mediaServers: async () => [],
    certificateAt: async () => 'nobody is there',
    secureHost: async (host) => ({ host, port: 5061 }),
    wallMs: () => nowMs,
    monotonicMs: () => nowMs - 1_000_000,
    wait: async (ms) => {
      nowMs += ms;
    },
    ...rest,
  };
}

async function finding(
  check: string,
  changed: Machine,
  env: Record<string, string> = {},
  serverRuns = false,
): Promise<Finding> {
  const findings = await examine(changed, loadSettings({ env: { TRUNKLINE_DATA_DIR: '/data', ...env } }), serverRuns);
  return findings.find((one) => one.check === check)!;
}

const binds = (code: string, transports = ['udp', 'tcp']) => ({
  bind: async (transport: 'udp' | 'tcp') => (transports.includes(transport) ? code : 'free'),
});

describe('external SIP servers', () => {
  const env = { TRUNKLINE_SIP_SERVER: 'drachtio://:s@10.0.0.1:9022,drachtio://:s@10.0.0.2:9022' };
  const there = {
    server: '10.0.0.1:9022',
    version: 'v0.9.10',
    contacts: [{ transport: 'udp', host: '192.0.2.1', port: 5066 }],
    problem: null,
  };
  const gone = {
    server: '10.0.0.2:9022',
    version: '',
    contacts: [],
    problem: 'The port 10.0.0.2:9022 cannot be reached.',
  };
  const look = (...told: Awaited<ReturnType<Machine['sipContacts']>>) =>
    finding('sip port', machine({ sipContacts: async () => told }), env);

  it('are named by where they listen', async () => {
    expect(await look(there)).toMatchObject({
      level: 'ok',
      says: 'the server at 10.0.0.1:9022 (drachtio-server v0.9.10) listens on udp 192.0.2.1:5066',
    });
  });

  it('are a warning when one is not there, and a failure when none is', async () => {
    expect(await look(there, gone)).toMatchObject({
      level: 'warning',
      says: expect.stringContaining('10.0.0.2:9022 cannot'),
    });
    expect(await look(gone)).toMatchObject({ level: 'failure', fix: expect.stringContaining('TRUNKLINE_SIP_SERVER') });
  });
});

describe('FreeSWITCH servers', () => {
  const env = { TRUNKLINE_MEDIA_ENGINE: 'freeswitch://:p@10.0.0.3:8021,freeswitch://:p@127.0.0.1:8021' };
  const facts = {
    ...{ version: '1.10.11', sipAddress: '10.0.0.3:5080', rtpAddress: '10.0.0.3', hasAudioFork: true },
    ...{ rtpPorts: { from: 20000, to: 29999 }, moreCodecs: ['AMR-WB', 'GSM'] },
  };
  const there = { server: '10.0.0.3:8021', facts, problem: null };
  const gone = { server: '127.0.0.1:8021', facts: null, problem: 'FreeSWITCH at 127.0.0.1:8021 refused the password.' };
  const look = async (told: Awaited<ReturnType<Machine['mediaServers']>>, files: Record<string, string> = {}) => {
    const findings = await examine(machine({ files, mediaServers: async () => told }), loadSettings({ env }), false);
    return findings.filter(({ check }) => check === 'media' || check === 'control port');
  };

  it('are named by version, addresses, ports and codecs', async () => {
    expect(await look([there])).toEqual([
      {
        ...{ check: 'media', level: 'ok' },
        says: 'FreeSWITCH 1.10.11 at 10.0.0.3:8021: sip 10.0.0.3:5080, rtp 10.0.0.3 20000-29999, also AMR-WB GSM, mod_audio_fork',
      },
    ]);
  });

  it('are a warning while another is there, and a failure when none is', async () => {
    expect((await look([there, gone])).map(({ level }) => level)).toEqual(['ok', 'warning']);
    expect(await look([gone])).toMatchObject([{ level: 'failure', says: gone.problem }]);
  });

  it('must not be controlled from everywhere', async () => {
    const line = '   0: 00000000:1F55 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1';
    const open = await look([there], { '/proc/net/tcp': `  sl  local_address rem_address   st\n${line}\n` });
    expect(open[1]).toMatchObject({
      check: 'control port',
      level: 'warning',
      says: expect.stringContaining('port 8021'),
    });
  });
});

describe('doctor', () => {
  it('finds nothing on a good machine', async () => {
    const findings = await examine(machine(), loadSettings({ env: {} }), false);
    expect(findings.map((one) => [one.check, one.level])).toEqual(
      [
        'node',
        'database',
        'data',
        'addresses',
        'http port',
        'sip port',
        'tls port',
        'tls',
        'rtp ports',
        'buffers',
        'open files',
        'clock',
        'media',
      ].map((check) => [check, 'ok']),
    );
  });

  const rows: [string, Machine, Record<string, string>, 'warning' | 'failure', RegExp, RegExp][] = [
    ['node', machine({ nodeVersion: '18.20.0' }), {}, 'failure', /18\.20\.0 is too old/, /Node 20\.19/],
    ['node', machine({ nodeVersion: '20.18.3' }), {}, 'failure', /too old/, /Node 20\.19/],
    ['database', machine({ database: () => 'better-sqlite3: no binary' }), {}, 'failure', /no binary/, /npm ci again/],
    [
      'data',
      machine({ disk: () => ({ existing: '/', writable: false, freeBytes: 1 }) }),
      {},
      'failure',
      /^\/ is not writable/,
      /change its owner/,
    ],
    [
      'data',
      machine({ disk: () => ({ existing: '/', writable: true, freeBytes: 50e6 }) }),
      {},
      'failure',
      /0\.0 GiB/,
      /free some/,
    ],
    [
      'data',
      machine({ disk: () => ({ existing: '/', writable: true, freeBytes: 5e8 }) }),
      {},
      'warning',
      /0\.5 GiB/,
      /recording/,
    ],
    [
      'addresses',
      machine(),
      { TRUNKLINE_SIP_HOST: '192.0.2.99' },
      'failure',
      /not an address of this host/,
      /192\.0\.2\.10/,
    ],
    [
      'addresses',
      machine({ addresses: () => ['127.0.0.1', '10.0.0.5'] }),
      { TRUNKLINE_SIP_HOST: '0.0.0.0' },
      'warning',
      /only private/,
      /TRUNKLINE_EXTERNAL_IP/,
    ],
    [
      'addresses',
      machine(),
      { TRUNKLINE_SIP_HOST: '0.0.0.0', TRUNKLINE_EXTERNAL_IP: '10.1.1.1' },
      'warning',
      /not public/,
      /carriers/,
    ],
    [
      'http port',
      machine(binds('EADDRINUSE')),
      {},
      'failure',
      /127\.0\.0\.1:3000 tcp is in use/,
      /ss -lnptu.*TRUNKLINE_HTTP_PORT/,
    ],
    [
      'http port',
      machine(binds('EACCES')),
      { TRUNKLINE_HTTP_PORT: '80' },
      'failure',
      /not allowed/,
      /CAP_NET_BIND_SERVICE/,
    ],
    [
      'sip port',
      machine(binds('EADDRINUSE', ['tcp'])),
      {},
      'failure',
      /127\.0\.0\.1:5060 tcp is in use/,
      /TRUNKLINE_SIP_PORT/,
    ],
    [
      'sip port',
      machine(binds('EADDRINUSE', ['udp'])),
      {},
      'failure',
      /127\.0\.0\.1:5060 udp is in use/,
      /TRUNKLINE_SIP_PORT/,
    ],
    ['sip port', machine(binds('EADDRNOTAVAIL')), {}, 'failure', /not an address of this host/, /TRUNKLINE_SIP_HOST/],
    [
      'rtp ports',
      machine(),
      { TRUNKLINE_RTP_PORTS: '30000-40000' },
      'warning',
      /overlaps the ephemeral range 32768-60999/,
      /ip_local_reserved_ports=32768-40000/,
    ],
    [
      'rtp ports',
      machine(),
      { TRUNKLINE_RTP_PORTS: '10000-10099', TRUNKLINE_MAX_CALLS: '51' },
      'failure',
      /50 calls.*51/,
      /102 ports/,
    ],
    [
      'rtp ports',
      machine({ files: { '/proc/sys/net/ipv4/ip_local_port_range': null } }),
      {},
      'warning',
      /unknown/,
      /apart/,
    ],
    [
      'buffers',
      machine({ files: { '/proc/sys/net/core/rmem_max': '212992\n' } }),
      {},
      'warning',
      /208 KiB/,
      /rmem_max=4194304/,
    ],
    ['buffers', machine({ files: { '/proc/sys/net/core/rmem_max': null } }), {}, 'warning', /unknown/, /sysctl/],
    [
      'open files',
      machine({ files: { '/proc/self/limits': 'Max open files   1024   4096   files' } }),
      {},
      'warning',
      /for 192 calls/,
      /ulimit -n/,
    ],
    ['clock', machine({ wallMs: () => 0 }), {}, 'failure', /1970.*in the past/, /chronyd/],
  ];
  it.each(rows)('%s (%#)', async (check, changed, env, level, says, fix) => {
    const found = await finding(check, changed, env);
    expect(found.level).toBe(level);
    expect(found.says).toMatch(says);
    expect(found.fix).toMatch(fix);
  });

  it('sees the clock being stepped', async () => {
    let reading = 0;
    const found = await finding(
      'clock',
      machine({ wallMs: () => Date.UTC(2026, 1) + (reading++ > 0 ? 3_600_000 : 0), monotonicMs: () => 0 }),
    );
    expect(found).toMatchObject({ level: 'warning', says: expect.stringContaining('jumped 3600000 ms') });
  });

  it('takes reserved ports for apart', async () => {
    const reserved = machine({
      files: { '/proc/sys/net/ipv4/ip_local_reserved_ports': '8080,32768-36000,36001-40000\n' },
    });
    expect((await finding('rtp ports', reserved, { TRUNKLINE_RTP_PORTS: '30000-40000' })).level).toBe('ok');
    const partly = machine({ files: { '/proc/sys/net/ipv4/ip_local_reserved_ports': '32768-36000\n' } });
    expect((await finding('rtp ports', partly, { TRUNKLINE_RTP_PORTS: '30000-40000' })).level).toBe('warning');
  });

  it('knows the ports of the running server', async () => {
    const found = await finding('sip port', machine(binds('EADDRINUSE')), {}, true);
    expect(found).toMatchObject({ level: 'ok', says: '127.0.0.1:5060 udp+tcp in use by the running server' });
  });

  async function run(fake: Machine, ...args: string[]): Promise<{ code: number; out: string[] }> {
    const out: string[] = [];
    const code = await runCli(['doctor', ...args], {
      env: { TRUNKLINE_DATA_DIR: '/data' },
      out: (line) => out.push(line),
      err: (line) => out.push(`! ${line}`),
      machine: fake,
    });
    return { code, out };
  }

  it('prints a line a finding, the verdict last, and the exit code agrees', async () => {
    const bad = machine({ ...binds('EADDRINUSE', ['tcp']), files: { '/proc/sys/net/core/rmem_max': '212992' } });
    expect(await run(bad)).toEqual({
      code: 1,
      out: [
        'ok    node        version 22.14.0',
        'ok    database    the SQLite driver loads',
        'ok    data        /data writable, 50.0 GiB free',
        'ok    addresses   127.0.0.1: calls from this host only',
        "FAIL  http port   127.0.0.1:3000 tcp is in use  -> ss -lnptu 'sport = :3000' shows the process; or set TRUNKLINE_HTTP_PORT",
        "FAIL  sip port    127.0.0.1:5060 tcp is in use  -> ss -lnptu 'sport = :5060' shows the process; or set TRUNKLINE_SIP_PORT",
        'ok    tls port    off',
        'ok    tls         no listener; outbound calls use TLS on trunks with transport tls',
        'ok    rtp ports   10000-19999, 5000 calls, apart from the ephemeral range 32768-60999',
        'WARN  buffers     receive buffers up to 208 KiB: bursts of SIP may be lost  -> sysctl -w net.core.rmem_max=4194304',
        'ok    open files  65536, enough for 16320 calls',
        'ok    clock       2026-06-01T00:00:00Z, timezone UTC; whether it is right cannot be known offline',
        'ok    media       embedded',
        '13 checks, 2 failures, 1 warning: not ready',
      ],
    });
    expect(await run(machine())).toMatchObject({
      code: 0,
      out: expect.arrayContaining(['13 checks, 0 failures, 0 warnings: ready to start']),
    });
  });

  it('answers in JSON', async () => {
    const { code, out } = await run(machine(binds('EACCES', ['tcp'])), '--json');
    expect(code).toBe(1);
    expect(JSON.parse(out.join('\n'))).toMatchObject({
      ok: false,
      failures: 2,
      warnings: 0,
      findings: expect.any(Array),
    });
  });
});
