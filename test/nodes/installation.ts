/** Three nodes as processes on one PostgreSQL database, behind the Kamailio of `examples/kamailio/`, with Redis; all on loopback. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, vi } from 'vitest';
import { type Balancer, startBalancer } from '../support/balancer.js';
import { asSetting, freePort, processPorts } from '../support/port-ranges.js';
import { PostgresRelay } from '../support/postgres-relay.js';
import { type PostgresServer, query, startPostgres } from '../support/postgres-server.js';

const root = path.resolve(import.meta.dirname, '../..');
const key = `trunkline_live_${'k'.repeat(32)}`;
const names = ['one', 'two', 'three'] as const;
const limit = { timeout: 60_000, interval: 250 };

export interface Node {
  name: string;
  sipPort: number;
  httpPort: number;
  url: string;
  child: ChildProcess;
  exited: Promise<unknown>;
  /** Its own way to the database. */
  relay: PostgresRelay;
}

export interface Answered {
  status: number;
  body: Record<string, unknown>;
}

export class Installation {
  readonly nodes: Node[] = [];
  private redis: ChildProcess | null = null;
  private kamailio: Balancer | null = null;

  private constructor(
    private readonly folder: string,
    readonly postgres: PostgresServer,
    readonly databaseUrl: string,
    readonly kamailioPort: number,
    private readonly redisPort: number,
  ) {}

  static async start(): Promise<Installation> {
    const folder = await mkdtemp(path.join(tmpdir(), 'trunkline-nodes-'));
    const postgres = await startPostgres();
    await query(postgres.url('postgres'), 'create database nodes');
    const [kamailioPort, redisPort] = [await freePort(), await freePort()];
    const made = new Installation(folder, postgres, postgres.url('nodes'), kamailioPort, redisPort);
    await made.startRedis();
    for (const name of names) {
      const relay = await PostgresRelay.to(postgres.port);
      const node = { name, relay, sipPort: await freePort(), httpPort: await freePort() };
      made.nodes.push({ ...node, ...(await made.spawnNode(node)) });
    }
    await made.startKamailio();
    return made;
  }

  /** Starts a node that ended; with the same name and ports. */
  async again(node: Node): Promise<void> {
    Object.assign(node, await this.spawnNode(node));
  }

  /** Whether all nodes say that they are ready. */
  async allReady(): Promise<boolean> {
    const ready = async ({ url }: Node) => (await fetch(`${url}/readyz`).catch(() => null))?.status === 200;
    return (await Promise.all(this.nodes.map(ready))).every(Boolean);
  }

  /** A request at a node; status 0: it does not answer within 5 s. */
  async api({ url }: Node, method: string, route: string, body?: unknown, apiKey = key): Promise<Answered> {
    const ending = new AbortController();
    const timer = setTimeout(() => ending.abort(), 5_000);
    try {
      const response = await fetch(`${url}${route}`, {
        method,
        headers: {
          authorization: `Bearer ${apiKey}`,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        signal: ending.signal,
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      return { status: response.status, body: (text === '' ? {} : JSON.parse(text)) as Record<string, unknown> };
    } catch {
      return { status: 0, body: {} };
    } finally {
      clearTimeout(timer);
    }
  }

  async counted(what: string): Promise<number> {
    return Number((await query(this.databaseUrl, `select count(*)::int as n from ${what}`))[0]?.n);
  }

  async restartRedis(): Promise<void> {
    const { redis } = this;
    redis?.kill('SIGKILL');
    if (redis) await once(redis, 'exit');
    await this.startRedis();
  }

  /** All nodes stand still for a moment, as on a machine that is moved. */
  async standStill(ms: number): Promise<void> {
    for (const { child } of this.nodes) child.kill('SIGSTOP');
    await new Promise((resolve) => setTimeout(resolve, ms)); // real time
    for (const { child } of this.nodes) child.kill('SIGCONT');
  }

  async stop(): Promise<void> {
    for (const { child, exited, relay } of this.nodes) {
      child.kill('SIGCONT');
      child.kill('SIGKILL');
      await exited;
      await relay.close();
    }
    await this.kamailio?.close();
    this.redis?.kill('SIGKILL');
    await this.postgres.stop();
    await rm(this.folder, { recursive: true, force: true });
  }

  private async spawnNode({ name, sipPort, httpPort, relay }: Pick<Node, 'name' | 'sipPort' | 'httpPort' | 'relay'>) {
    const at = names.indexOf(name as (typeof names)[number]);
    const count = Math.floor((processPorts.to - processPorts.from) / names.length / 2) * 2;
    const from = processPorts.from + at * count;
    const env = {
      PATH: process.env.PATH,
      TRUNKLINE_DATABASE_URL: relay.url(this.databaseUrl),
      TRUNKLINE_REDIS_URL: `redis://127.0.0.1:${this.redisPort}`,
      TRUNKLINE_NODE_NAME: name,
      TRUNKLINE_HTTP_PORT: String(httpPort),
      TRUNKLINE_SIP_PORT: String(sipPort),
      TRUNKLINE_RTP_PORTS: asSetting({ from, to: from + count - 1 }),
      TRUNKLINE_MEDIA_THREADS: '1',
      TRUNKLINE_LOG_LEVEL: process.env.NODES_LOGS ? 'info' : 'error',
      TRUNKLINE_RTP_FIRST_TIMEOUT_SEC: '300', // the phones send no audio
      TRUNKLINE_RTP_TIMEOUT_SEC: '300',
      TRUNKLINE_ALLOW_PRIVATE_TARGETS: 'true',
      TRUNKLINE_APOLOGY: 'off',
      TRUNKLINE_SHUTDOWN_GRACE_SEC: '60',
      TRUNKLINE_SHUTDOWN_NOTICE_SEC: '8', // this machine may do other things too
      TRUNKLINE_BOOTSTRAP_KEY: key,
      TRUNKLINE_DATA_DIR: path.join(this.folder, name),
    };
    const program = path.join(root, 'bin/trunkline.js');
    const child = spawn(process.execPath, [program, 'start'], {
      env,
      cwd: this.folder,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const logs = process.env.NODES_LOGS;
    child.stderr.pipe(logs ? createWriteStream(path.join(logs, `${name}.log`), { flags: 'a' }) : process.stderr, {
      end: false,
    });
    let said = '';
    child.stdout.on('data', (chunk) => {
      said += chunk;
    });
    const exited = once(child, 'exit');
    const address = () => /API +(http:\/\/\S+)\/v1/.exec(said)?.[1];
    await vi.waitFor(() => expect(address()).toBeTruthy(), limit);
    return { url: address() ?? '', child, exited };
  }

  private async startKamailio(): Promise<void> {
    const logs = process.env.NODES_LOGS;
    const log = logs && path.join(logs, 'kamailio.log');
    const ports = this.nodes.map(({ sipPort }) => sipPort);
    this.kamailio = await startBalancer(this.kamailioPort, ports, this.folder, log);
  }

  private async startRedis(): Promise<void> {
    const args = ['--port', String(this.redisPort), '--bind', '127.0.0.1', '--save', '', '--dir', this.folder];
    const redis = spawn('redis-server', args, { stdio: ['ignore', 'pipe', 'inherit'] });
    this.redis = redis;
    await new Promise<void>((resolve, reject) => {
      redis.once('error', reject);
      redis.stdout.on('data', (data) => String(data).includes('Ready to accept connections') && resolve());
    });
  }
}
