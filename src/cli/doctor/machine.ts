/** The facts of this machine that `doctor` examines; replaced in tests. No function throws. */
import { X509Certificate } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { resolveSrv } from 'node:dns/promises';
import { accessSync, constants, existsSync, readFileSync, statfsSync } from 'node:fs';
import { createServer, isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import path from 'node:path';
import { connect as connectTls } from 'node:tls';
import { withDeadline } from '../../../net/deadline.js';
import type { MediaServerReport } from '../../simulator/external-media.js';
import type { ServerContacts } from '../../simulator/external-server.js';
import { loadDriver } from '../../store/sqlite/driver.js';

/** `free`, or the error code of binding: `EADDRINUSE`, `EACCES`, `EADDRNOTAVAIL`. */
export type BindResult = 'free' | string;

export interface Machine {
  nodeVersion: string;
  timezone: string;
  /** null if the file cannot be read, for example on systems other than Linux. */
  read(file: string): string | null;
  bind(transport: 'udp' | 'tcp', host: string, port: number): Promise<BindResult>;
  /** The addresses of this host's interfaces. */
  addresses(): string[];
  /** The folder or its nearest existing parent, whether it is writable, and its free space. */
  disk(folder: string): { existing: string; writable: boolean; freeBytes: number | null };
  /** null if the driver loads, else the reason why it does not. */
  database(): string | null;
  /** The certificate of a TLS server, trusted or not; a sentence if there is none. */
  certificateAt(host: string, port: number): Promise<X509Certificate | string>;
  /** The host and port of SIP over TLS for a name by SRV; the name and 5061 without an SRV record. */
  secureHost(name: string): Promise<{ host: string; port: number }>;
  /** The contact addresses that the external SIP servers of the settings report. */
  sipContacts(servers: readonly { host: string; port: number; secret: string }[]): Promise<ServerContacts[]>;
  /** What the FreeSWITCH servers of the settings report of themselves. */
  mediaServers(servers: readonly { host: string; port: number; password: string }[]): Promise<MediaServerReport[]>;
  /** Whether a Trunkline server answers `GET /healthz` there. */
  answers(baseUrl: string): Promise<boolean>;
  wallMs(): number;
  monotonicMs(): number;
  wait(ms: number): Promise<void>;
}

const answerTimeoutMs = 2000;

export const thisMachine: Machine = {
  nodeVersion: process.versions.node,
  timezone: Intl.DateTimeFormat().resolvedOptions().timeZone,
  read(file) {
    try {
      return readFileSync(file, 'utf8');
    } catch {
      return null;
    }
  },
  bind: (transport, host, port) => (transport === 'udp' ? bindUdp(host, port) : bindTcp(host, port)),
  addresses: () =>
    Object.values(networkInterfaces()).flatMap((list) => (list ?? []).map((each) => each.address.replace(/%.*$/, ''))),
  disk(folder) {
    let existing = path.resolve(folder);
    while (!existsSync(existing) && path.dirname(existing) !== existing) existing = path.dirname(existing);
    let writable = true;
    try {
      accessSync(existing, constants.W_OK | constants.X_OK);
    } catch {
      writable = false;
    }
    try {
      const { bavail, bsize } = statfsSync(existing);
      return { existing, writable, freeBytes: bavail * bsize };
    } catch {
      return { existing, writable, freeBytes: null };
    }
  },
  database() {
    try {
      loadDriver();
      return null;
    } catch (error) {
      return error instanceof Error ? (error.message.split('\n')[0] ?? error.message) : String(error);
    }
  },
  certificateAt: (host, port) =>
    new Promise((resolve) => {
      const socket = connectTls({ host, port, rejectUnauthorized: false, ...(isIP(host) ? {} : { servername: host }) });
      const done = (found: X509Certificate | string) => {
        socket.destroy();
        resolve(found);
      };
      socket.setTimeout(answerTimeoutMs, () => done('the server does not respond'));
      socket.once('error', (error: NodeJS.ErrnoException) => done(error.code ?? error.message));
      socket.once('secureConnect', () => {
        const { raw } = socket.getPeerCertificate();
        done(raw === undefined ? 'the server sends no certificate' : new X509Certificate(raw));
      });
    }),
  async secureHost(name) {
    if (isIP(name)) return { host: name, port: 5061 };
    const [first] = await resolveSrv(`_sips._tcp.${name}`).catch(() => []);
    return { host: first?.name ?? name, port: first?.port ?? 5061 };
  },
  sipContacts: async (servers) => (await import('../../simulator/external-server.js')).askExternalServers(servers),
  mediaServers: async (servers) => (await import('../../simulator/external-media.js')).askMediaServers(servers),
  async answers(baseUrl) {
    try {
      return await withDeadline(
        answerTimeoutMs,
        'the answer of the server',
        null,
        async (signal) => (await fetch(`${baseUrl}/healthz`, { signal })).ok,
      );
    } catch {
      return false;
    }
  },
  wallMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  wait: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
};

function bindUdp(host: string, port: number): Promise<BindResult> {
  return new Promise((resolve) => {
    const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4');
    socket.once('error', (error: NodeJS.ErrnoException) => {
      socket.close();
      resolve(error.code ?? error.message);
    });
    socket.bind({ address: host, port, exclusive: true }, () => socket.close(() => resolve('free')));
  });
}

function bindTcp(host: string, port: number): Promise<BindResult> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve('free')));
  });
}
