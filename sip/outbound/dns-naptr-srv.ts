/**
 * Resolves a SIP domain (RFC 3263): NAPTR gives the transports, SRV the hosts and their order. The SIP server resolves the hosts'
 * addresses.
 */
import { promises as dns, type NaptrRecord, type SrvRecord } from 'node:dns';
import { isIP } from 'node:net';
import type { ParsedUri } from '../inbound/identity.js';

export interface NameServer {
  naptr(name: string): Promise<NaptrRecord[]>;
  srv(name: string): Promise<SrvRecord[]>;
}

export interface NamedHop {
  transport: 'udp' | 'tcp' | 'tls';
  host: string;
  port: number;
}

const system: NameServer = { naptr: (name) => dns.resolveNaptr(name), srv: (name) => dns.resolveSrv(name) };
const transports = { 'SIP+D2U': 'udp', 'SIP+D2T': 'tcp', 'SIPS+D2T': 'tls' } as const;
const services = { udp: '_sip._udp', tcp: '_sip._tcp', tls: '_sips._tcp' } as const;
const queryLimitMs = 3000;
/** Node does not report the records' time to live: short enough to follow a change, long enough to spare the name server. */
const keepMs = 60_000;
const keepNothingMs = 10_000;
const maxNames = 1000;
const maxHops = 10;

export class SipNames {
  readonly #known = new Map<string, { groups: SrvHop[]; untilMs: number }>();

  constructor(
    private readonly server: NameServer = system,
    private readonly draw: () => number = Math.random,
    private readonly nowMs: () => number = () => performance.now(),
  ) {}

  /** The hosts behind a URI's domain, in the order to try; empty when the URI's host is used as it is (RFC 3263 4.2). Never rejects. */
  async hops(uri: ParsedUri): Promise<NamedHop[]> {
    if (uri.scheme === 'tel' || uri.port !== null || isIP(uri.host) || !uri.host.includes('.')) return [];
    const written = uri.params.transport?.toLowerCase();
    const named = uri.scheme === 'sips' ? 'tls' : written;
    if (named !== undefined && named !== 'udp' && named !== 'tcp' && named !== 'tls') return [];
    const key = `${named ?? ''} ${uri.host}`;
    const now = this.nowMs();
    let known = this.#known.get(key);
    if (!known || known.untilMs <= now) {
      const groups = await this.#ask(uri.host, named ?? null);
      known = { groups, untilMs: now + (groups.length > 0 ? keepMs : keepNothingMs) };
      if (this.#known.size >= maxNames) this.#known.clear();
      this.#known.set(key, known);
    }
    return this.#inOrder(known.groups);
  }

  async #ask(host: string, named: NamedHop['transport'] | null): Promise<SrvHop[]> {
    const asked = named ? [{ transport: named, name: `${services[named]}.${host}` }] : await this.#services(host);
    const found: SrvHop[] = [];
    for (const [rank, { transport, name }] of asked.entries()) {
      for (const record of await within(this.server.srv(name))) {
        // RFC 2782: a target of "." means that the service does not exist.
        if (record.name === '' || record.name === '.') continue;
        const { priority, weight, port } = record;
        found.push({ rank, priority, weight, transport, host: record.name.replace(/\.$/, ''), port });
      }
    }
    return found;
  }

  async #services(host: string): Promise<{ transport: NamedHop['transport']; name: string }[]> {
    const pointers = (await within(this.server.naptr(host)))
      .filter((record) => record.flags.toLowerCase() === 's')
      .sort((a, b) => a.order - b.order || a.preference - b.preference)
      .flatMap((record) => {
        const transport = transports[record.service.toUpperCase() as keyof typeof transports];
        return transport ? [{ transport, name: record.replacement }] : [];
      });
    if (pointers.length > 0) return pointers;
    return (['udp', 'tcp'] as const).map((transport) => ({ transport, name: `${services[transport]}.${host}` }));
  }

  /** RFC 2782: ordered by priority, and drawn by weight within one priority. */
  #inOrder(records: readonly SrvHop[]): NamedHop[] {
    const left = [...records].sort((a, b) => a.rank - b.rank || a.priority - b.priority || a.weight - b.weight);
    const ordered: NamedHop[] = [];
    for (let first = left[0]; first && ordered.length < maxHops; first = left[0]) {
      const { rank, priority } = first;
      const group = left.filter((record) => record.rank === rank && record.priority === priority);
      let mark = this.draw() * group.reduce((sum, record) => sum + record.weight, 0);
      const drawn =
        group.find((record) => {
          mark -= record.weight;
          return mark < 0;
        }) ?? first;
      left.splice(left.indexOf(drawn), 1);
      ordered.push({ transport: drawn.transport, host: drawn.host, port: drawn.port });
    }
    return ordered;
  }
}

interface SrvHop extends NamedHop {
  /** Position of the service among the domain's services. */
  rank: number;
  priority: number;
  weight: number;
}

/** No records, no name server and no answer in time count the same: the name has no such records. */
async function within<T>(query: Promise<T[]>): Promise<T[]> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<T[]>((resolve) => {
    timer = setTimeout(() => resolve([]), queryLimitMs);
  });
  try {
    return await Promise.race([query.catch(() => []), limit]);
  } finally {
    clearTimeout(timer);
  }
}
