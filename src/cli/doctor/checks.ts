/** The checks of `doctor`: each examines the machine and returns a finding and, for a problem, the fix. */
import ipaddr from 'ipaddr.js';
import type { Settings } from '../../../config/settings.js';
import { examineCertificate } from './carrier-checks.js';
import { examineControlPorts, examineMediaServers, examineSipServers } from './engine-checks.js';
import type { Finding } from './finding.js';
import type { BindResult, Machine } from './machine.js';

type Check = (machine: Machine, settings: Settings, serverRuns: boolean) => Finding | Promise<Finding>;

/** The sockets and files of one call: two RTP sockets, the agent connection, a TCP connection for SIP. */
const filesPerCall = 4;
const filesBeside = 256;
/** The receive buffer that the SIP socket requests from the kernel. */
const wantedReceiveBytes = 4 * 1024 * 1024;
const lowDiskBytes = 1024 ** 3;
const noDiskBytes = 100 * 1024 ** 2;

/** Runs all checks in order. `serverRuns`: the server responds on the HTTP address, so its ports are expected to be in use. */
export async function examine(machine: Machine, settings: Settings, serverRuns: boolean): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const check of checks) findings.push(await check(machine, settings, serverRuns));
  return [...findings, ...(await examineMediaServers(machine, settings)), ...examineControlPorts(machine, settings)];
}

const node: Check = ({ nodeVersion }) => {
  const [major = 0, minor = 0] = nodeVersion.split('.').map(Number);
  const enough = major > 20 || (major === 20 && minor >= 19);
  return enough
    ? ok('node', `version ${nodeVersion}`)
    : failure('node', `version ${nodeVersion} is too old`, 'install Node 20.19 or newer');
};

const database: Check = (machine) => {
  const problem = machine.database();
  return problem === null
    ? ok('database', 'the SQLite driver loads')
    : failure('database', problem, 'run npm ci again, without --omit=optional');
};

const dataFolder: Check = (machine, { dataDir }) => {
  const { existing, writable, freeBytes } = machine.disk(dataDir);
  if (!writable) {
    return failure('data', `${existing} is not writable for this user`, `change its owner, or set TRUNKLINE_DATA_DIR`);
  }
  if (freeBytes === null) return warning('data', `${dataDir}: free space unknown`, 'check with df');
  const says = `${dataDir} writable, ${(freeBytes / 1024 ** 3).toFixed(1)} GiB free`;
  if (freeBytes < noDiskBytes) return failure('data', says, 'free some space, or set TRUNKLINE_DATA_DIR');
  return freeBytes < lowDiskBytes ? warning('data', says, 'a minute of recording takes about 2 MB') : ok('data', says);
};

const httpPort: Check = async (machine, { httpHost, httpPort: port }, serverRuns) =>
  ports(
    'http port',
    'TRUNKLINE_HTTP_PORT',
    httpHost,
    port,
    [['tcp', await machine.bind('tcp', httpHost, port)]],
    serverRuns,
  );

const sipPorts: Check = async (machine, { sipHost, sipPort: port, sipServer }, serverRuns) => {
  if (sipServer !== 'embedded') return examineSipServers(await machine.sipContacts(sipServer));
  const udp = await machine.bind('udp', sipHost, port);
  const tcp = await machine.bind('tcp', sipHost, port);
  const both: [string, BindResult][] = [
    ['udp', udp],
    ['tcp', tcp],
  ];
  return ports('sip port', 'TRUNKLINE_SIP_PORT', sipHost, port, both, serverRuns);
};

const tlsPort: Check = async (machine, { sipHost, sipTlsPort: port, sipServer }, serverRuns) => {
  if (sipServer !== 'embedded') return ok('tls port', 'provided by the external SIP server');
  if (port === null) return ok('tls port', 'off');
  const result = await machine.bind('tcp', sipHost, port);
  return ports('tls port', 'TRUNKLINE_SIP_TLS_PORT', sipHost, port, [['tcp', result]], serverRuns);
};

const addresses: Check = (machine, { sipHost, externalIp }) => {
  const own = machine.addresses();
  const outside = own.filter((address) => rangeOf(address) === 'unicast');
  if (sipHost !== '0.0.0.0' && !own.includes(sipHost) && rangeOf(sipHost) !== 'loopback') {
    return failure(
      'addresses',
      `${sipHost} is not an address of this host`,
      `set TRUNKLINE_SIP_HOST to one of ${own.join(', ')}`,
    );
  }
  if (externalIp !== null && rangeOf(externalIp) !== 'unicast') {
    return warning(
      'addresses',
      `external_ip ${externalIp} is not public`,
      'set TRUNKLINE_EXTERNAL_IP to the address that carriers see',
    );
  }
  if (rangeOf(sipHost) === 'loopback') return ok('addresses', `${sipHost}: calls from this host only`);
  if (externalIp === null && outside.length === 0) {
    return warning(
      'addresses',
      'only private addresses: carriers cannot send audio back',
      'set TRUNKLINE_EXTERNAL_IP to the public address',
    );
  }
  return ok('addresses', `sip on ${sipHost}, advertised outside: ${externalIp ?? outside.join(', ')}`);
};

const rtpPorts: Check = (machine, { rtpPorts: { from, to }, maxCalls }) => {
  const pairs = Math.floor((to + 1 - (from + (from & 1))) / 2);
  const says = `${from}-${to}, ${pairs} calls`;
  if (maxCalls !== null && maxCalls > pairs) {
    return failure(
      'rtp ports',
      `${says}, but max_calls is ${maxCalls}`,
      `set TRUNKLINE_RTP_PORTS to at least ${maxCalls * 2} ports`,
    );
  }
  const ephemeral = machine.read('/proc/sys/net/ipv4/ip_local_port_range')?.trim().split(/\s+/).map(Number);
  if (ephemeral?.length !== 2 || ephemeral.some(Number.isNaN)) {
    return warning('rtp ports', `${says}; the ephemeral range is unknown`, 'keep the two ranges apart');
  }
  const [low = 0, high = 0] = ephemeral;
  const reserved = portList(machine.read('/proc/sys/net/ipv4/ip_local_reserved_ports') ?? '');
  const first = Math.max(from, low);
  const last = Math.min(to, high);
  for (let port = first; port <= last; port++) {
    if (reserved.some((range) => port >= range.from && port <= range.to)) continue;
    return warning(
      'rtp ports',
      `${says}, overlaps the ephemeral range ${low}-${high}: other programs may use a port`,
      `sysctl -w net.ipv4.ip_local_reserved_ports=${first}-${last}`,
    );
  }
  return ok('rtp ports', `${says}, apart from the ephemeral range ${low}-${high}`);
};

const receiveBuffers: Check = (machine) => {
  const most = Number(machine.read('/proc/sys/net/core/rmem_max')?.trim() || Number.NaN);
  const fix = `sysctl -w net.core.rmem_max=${wantedReceiveBytes}`;
  if (Number.isNaN(most)) return warning('buffers', 'the limit of receive buffers is unknown', fix);
  const says = `receive buffers up to ${Math.round(most / 1024)} KiB`;
  return most >= wantedReceiveBytes
    ? ok('buffers', says)
    : warning('buffers', `${says}: bursts of SIP may be lost`, fix);
};

const openFiles: Check = (machine, { rtpPorts: { from, to }, maxCalls }) => {
  const soft = /^Max open files\s+(\S+)/m.exec(machine.read('/proc/self/limits') ?? '')?.[1];
  if (soft === 'unlimited') return ok('open files', 'unlimited');
  if (soft === undefined) return warning('open files', 'the limit is unknown', 'see ulimit -n');
  const calls = Math.floor((Number(soft) - filesBeside) / filesPerCall);
  const wanted = maxCalls ?? Math.min(Math.floor((to - from) / 2), 1000);
  const says = `${soft}, enough for ${Math.max(0, calls)} calls`;
  if (calls >= wanted) return ok('open files', says);
  return warning('open files', says, `ulimit -n ${wanted * filesPerCall + filesBeside} (systemd: LimitNOFILE=)`);
};

const clock: Check = async (machine) => {
  const sampleMs = 100;
  const [wall, monotonic] = [machine.wallMs(), machine.monotonicMs()];
  await machine.wait(sampleMs);
  const offMs = Math.abs(machine.wallMs() - wall - (machine.monotonicMs() - monotonic));
  const now = `${new Date(machine.wallMs()).toISOString().replace(/\.\d+/, '')}, timezone ${machine.timezone}`;
  if (machine.wallMs() < Date.UTC(2025, 0))
    return failure('clock', `${now}: in the past`, 'set the clock: chronyd or timesyncd');
  // Date.now() has millisecond resolution, and either reading may be interrupted.
  if (offMs > 20) {
    return warning(
      'clock',
      `${now}; jumped ${offMs.toFixed(0)} ms within ${sampleMs} ms`,
      'configure the time service to slew the clock, not step it',
    );
  }
  return ok('clock', `${now}; whether it is right cannot be known offline`);
};

const checks: Check[] = [
  node,
  database,
  dataFolder,
  addresses,
  httpPort,
  sipPorts,
  tlsPort,
  examineCertificate,
  rtpPorts,
  receiveBuffers,
  openFiles,
  clock,
];

function ports(
  check: string,
  setting: string,
  host: string,
  port: number,
  results: [transport: string, result: BindResult][],
  serverRuns: boolean,
): Finding {
  const where = `${host}:${port} ${results.map(([transport]) => transport).join('+')}`;
  if (port === 0) return ok(check, `${host}, any free port`);
  const [transport, code] = results.find(([, result]) => result !== 'free') ?? [];
  if (!code) return ok(check, `${where} free`);
  if (code === 'EADDRINUSE' && serverRuns) return ok(check, `${where} in use by the running server`);
  const at = `${host}:${port} ${transport}`;
  if (code === 'EADDRINUSE')
    return failure(check, `${at} is in use`, `ss -lnptu 'sport = :${port}' shows the process; or set ${setting}`);
  if (code === 'EACCES')
    return failure(check, `${at}: not allowed`, `set ${setting} to a port above 1023, or grant CAP_NET_BIND_SERVICE`);
  if (code === 'EADDRNOTAVAIL')
    return failure(check, `${at}: not an address of this host`, `set ${setting.replace(/PORT$/, 'HOST')}`);
  return failure(check, `${at}: ${code}`, setting);
}

function portList(text: string): { from: number; to: number }[] {
  return text
    .split(',')
    .map((part) => part.trim().split('-').map(Number))
    .filter(([from]) => from)
    .map(([from = 0, to = from]) => ({ from, to }));
}

function rangeOf(address: string): string {
  return ipaddr.isValid(address) ? ipaddr.process(address).range() : 'unknown';
}

function ok(check: string, says: string): Finding {
  return { check, level: 'ok', says };
}

function warning(check: string, says: string, fix: string): Finding {
  return { check, level: 'warning', says, fix };
}

function failure(check: string, says: string, fix: string): Finding {
  return { check, level: 'failure', says, fix };
}
