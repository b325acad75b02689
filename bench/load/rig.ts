/** Gateway, agent and load generator, and one measured case after the other. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { AgentAnswer, AgentOrder, Stall } from './agent.js';
import type { BareAnswer, BareOrder } from './bare.js';
import { startBursts } from './bursts.js';
import type { CallerAnswer, CallerOrder, ChurnNumber } from './caller.js';
import { type Recovery, recoveries, stopAgainAndAgain } from './disturb.js';
import {
  cpuPercent,
  figuresOf,
  figuresOfAll,
  type ProcessFigures,
  type Spread,
  spread,
  threadPercents,
} from './figures.js';
import { oldCalls } from './old-calls.js';
import { benchFolder, type Gateway, Helper, startGateway } from './processes.js';
import type { StreamFigures } from './streams.js';

export interface Case {
  name: string;
  protocol: 'raw' | 'twilio';
  secure: boolean;
  config: Record<string, unknown>;
  record: boolean;
}

const ulaw = { encoding: 'ulaw' };
const linear = (sampleRate: number) => ({ encoding: 'l16', sample_rate: sampleRate });
const plain = { secure: false, record: false };
export const cases: readonly Case[] = [
  { ...plain, name: 'raw ws μ-law', protocol: 'raw', config: ulaw },
  { ...plain, name: 'raw ws μ-law recorded', protocol: 'raw', config: ulaw, record: true },
  { ...plain, name: 'raw wss μ-law', protocol: 'raw', config: ulaw, secure: true },
  { ...plain, name: 'raw ws 16 kHz', protocol: 'raw', config: linear(16_000) },
  { ...plain, name: 'raw ws 24 kHz', protocol: 'raw', config: linear(24_000) },
  { ...plain, name: 'raw wss 24 kHz', protocol: 'raw', config: linear(24_000), secure: true },
  { ...plain, name: 'twilio ws', protocol: 'twilio', config: {} },
  { ...plain, name: 'twilio wss', protocol: 'twilio', config: {}, secure: true },
];

export interface Result {
  name: string;
  answered: number;
  failures: string[];
  /** null for a process that the bench did not start. */
  cpuPerCall: number | null;
  threads: string;
  agentPercent: number;
  callerPercent: number;
  wire: Spread | null;
  ear: Spread | null;
  uplink: Spread | null;
  pace: Spread | null;
  figures: StreamFigures;
  recovery: Recovery | null;
  memoryPerCallMb: number | null;
  /** Before, during, after. */
  descriptors: [number, number, number] | null;
}

export interface Load {
  calls: number;
  seconds: number;
  /** The process is stopped for so long every few seconds. */
  stopMs?: number | undefined;
  /** Another program computes for so long in every half second. */
  burstMs?: number | undefined;
  /** How fast the calls are placed; as fast as the machine allows when absent. */
  callsPerSecond?: number | undefined;
}

/** The load generator was late: what it measured is its own lateness, and the calls did not get their packets in time. */
export function wasLate({ figures, pace }: Result): boolean {
  return figures.ownGaps > 0 || (pace?.p99 ?? 0) > lateFromMs;
}

/** From the last answer until the figures count. */
const settleMs = 2000;
const afterMs = 1500;
const idleMs = 1500;
const idleLooks = 4;
/** For this long, as many calls warm code and memory before anything counts: V8 compiles in the background for ten seconds and more. */
const warmUpSec = 15;
/** A turn says nothing when the load generator itself was this late. */
const lateFromMs = 10;
/** A pulse that takes longer is lost. */
const longestUplinkMs = 200;

export class Rig {
  idlePercent = 0;
  idleMemoryMb = 0;
  private numbers = 0;
  private callsPerSecond = 40;
  /** The bare relays, over ws and wss, and their ports: warm after their first turn. */
  private readonly bares = new Map<boolean, { bare: Helper<BareOrder, BareAnswer>; ports: number[] }>();

  private constructor(
    readonly gateway: Gateway,
    private readonly agent: Helper<AgentOrder, AgentAnswer>,
    private readonly caller: Helper<CallerOrder, CallerAnswer>,
    private readonly ports: { wsPort: number; wssPort: number },
    private readonly certificate: string,
    private readonly removeFolder: () => void,
    /** Processes that work for the gateway: FreeSWITCH. */
    private readonly beside: readonly number[] = [],
  ) {}

  /** Of the gateway, and of what works for it. */
  private figures(): ProcessFigures {
    return figuresOfAll([this.gateway.pid, ...this.beside]);
  }

  /** `agentPort`: where the agent listens without TLS, for a server that is configured by hand. */
  static async start(options: {
    nodeOptions: readonly string[];
    environment?: Record<string, string>;
    oldCalls?: number;
    agentPort?: number;
    /** The agent and the load generator before other programs, so that what disturbs the servers does not disturb what measures them. */
    ahead?: boolean;
  }): Promise<Rig> {
    const { folder, key, cert, remove } = benchFolder();
    const agent = new Helper<AgentOrder, AgentAnswer>('agent');
    const caller = new Helper<CallerOrder, CallerAnswer>('caller');
    try {
      const wsPort = options.agentPort ?? 0;
      const ports = await agent.ask({ kind: 'listen', key, cert, wsPort }, 'listening');
      if (options.ahead) for (const helper of [agent, caller]) helper.goAhead();
      let gateway = await startGateway({ folder, ...options });
      if (options.oldCalls !== undefined) {
        // The first start creates the organization of the calls.
        await gateway.stop();
        oldCalls(folder, options.oldCalls);
        gateway = await startGateway({ folder, ...options });
      }
      return new Rig(gateway, agent, caller, ports, cert, remove);
    } catch (error) {
      agent.end();
      caller.end();
      remove();
      throw error;
    }
  }

  /** Also measures the gateway without calls, once it is warm. */
  async warmUp(wanted: Case, calls: number): Promise<void> {
    await this.run({ ...wanted, name: 'warm-up' }, { calls, seconds: warmUpSec });
    await sleep(afterMs);
    this.idlePercent = await idlePercentOf(() => this.figures());
    this.idleMemoryMb = this.figures().memoryMb;
  }

  /** The load generator against a bare echo. */
  async baseline(calls: number, seconds: number) {
    const echo = new Helper<never, { kind: 'listening'; port: number }>('udp-echo');
    try {
      const { port } = await echo.next('listening');
      await this.caller.ask({ kind: 'echo', ports: new Array(calls).fill(port) }, 'dialled');
      await sleep(500);
      const { figures } = await this.caller.ask({ kind: 'measure', seconds }, 'measured');
      return { figures, wire: spread(figures.wireMs), pace: spread(figures.paceMs) };
    } finally {
      await this.caller.ask({ kind: 'hangUp' }, 'hungUp');
      echo.end();
    }
  }

  /** Another build of the gateway, with the same agent and load generator. */
  async otherBuild(build: string, warm: Case, calls: number): Promise<Rig> {
    const { folder, remove } = benchFolder(this.certificate);
    const gateway = await startGateway({ folder, build });
    const rig = new Rig(gateway, this.agent, this.caller, this.ports, this.certificate, remove);
    await rig.warmUp(warm, calls);
    return rig;
  }

  /** This build with media in a FreeSWITCH, whose processes count too; the same agent and load generator. */
  async throughFreeSwitch(setting: string, pids: readonly number[], warm: Case, calls: number): Promise<Rig> {
    const { folder, remove } = benchFolder(this.certificate);
    const environment = { TRUNKLINE_MEDIA_ENGINE: setting, TRUNKLINE_RTP_PORTS: '25000-29999' };
    const gateway = await startGateway({ folder, environment });
    const rig = new Rig(gateway, this.agent, this.caller, this.ports, this.certificate, remove, pids);
    rig.callsPerSecond = 10; // each call takes two channels there, and a refused one ends the bench
    await rig.warmUp(warm, calls);
    return rig;
  }

  async run(wanted: Case, load: Load): Promise<Result> {
    const { gateway } = this;
    const number = await this.numberFor(wanted);
    const before = this.figures();
    const uri = `sip:127.0.0.1:${gateway.sipPort}`;
    const few = Math.ceil(load.calls / 10);
    const failures = await this.dial(uri, number, few, load);
    await sleep(settleMs / 2);
    const withFew = this.figures();
    failures.push(...(await this.dial(uri, number, load.calls - few, load)));
    await sleep(settleMs);
    const numbers = wanted.protocol === 'twilio' ? await this.callers() : new Map<string, string>();
    const measured = await this.measure(load, gateway.pid);
    const uplink = await this.uplink(measured.pulses, numbers);
    const { from, to, helpers, recovery } = measured;
    await this.caller.ask({ kind: 'hangUp' }, 'hungUp');
    await sleep(afterMs);
    const after = this.figures();
    const answered = load.calls - failures.length;
    return {
      ...this.result(wanted.name, answered, failures, measured.figures),
      cpuPerCall: (cpuPercent(from, to) - this.idlePercent) / answered,
      threads: threadPercents(gateway.pid, from, to),
      ...helpers,
      recovery,
      uplink,
      memoryPerCallMb: (to.memoryMb - withFew.memoryMb) / (load.calls - few),
      descriptors: [before.descriptors, to.descriptors, after.descriptors],
    };
  }

  /** The same load on another server, with an agent of its own or with ours by `agentPort`. Without its process's id nothing but the audio is known. */
  async runElsewhere(uri: string, to: string, load: Load, pid: number | null): Promise<Result> {
    const idle = pid === null ? 0 : await idlePercentOf(() => figuresOf(pid));
    const before = pid === null ? null : figuresOf(pid);
    const few = Math.ceil(load.calls / 10);
    const failures = await this.dial(uri, to, few, load);
    await sleep(settleMs / 2);
    const withFew = pid === null ? null : figuresOf(pid);
    failures.push(...(await this.dial(uri, to, load.calls - few, load)));
    await sleep(settleMs);
    const {
      from,
      to: end,
      figures,
      helpers,
      pulses,
      recovery,
    } = await this.measure(load, pid, () => figuresOf(pid ?? process.pid));
    const uplink = await this.uplink(pulses, new Map());
    await this.caller.ask({ kind: 'hangUp' }, 'hungUp');
    await sleep(afterMs);
    const answered = load.calls - failures.length;
    return {
      ...this.result(uri, answered, failures, figures),
      ...helpers,
      recovery,
      cpuPerCall: pid === null ? null : (cpuPercent(from, end) - idle) / answered,
      threads: pid === null ? '-' : threadPercents(pid, from, end),
      uplink,
      memoryPerCallMb: withFew && (end.memoryMb - withFew.memoryMb) / (load.calls - few),
      descriptors: before && [before.descriptors, end.descriptors, figuresOf(pid ?? 0).descriptors],
    };
  }

  /** The same load through the bare relay (`bare.ts`). */
  async runBare(secure: boolean, load: Load): Promise<Result> {
    const known = this.bares.get(secure);
    const { bare, ports } = known ?? (await this.openBare(secure, load.calls));
    try {
      await this.caller.ask({ kind: 'echo', ports }, 'dialled');
      await sleep(known ? settleMs : warmUpSec * 1000);
      const { from, to, helpers, figures, pulses, recovery } = await this.measure(load, bare.pid, () =>
        figuresOf(bare.pid),
      );
      const uplink = await this.uplink(pulses, new Map());
      const result = this.result(secure ? 'bare Node, wss' : 'bare Node, ws', load.calls, [], figures);
      const cpuPerCall = cpuPercent(from, to) / load.calls;
      const threads = threadPercents(bare.pid, from, to);
      return { ...result, ...helpers, recovery, cpuPerCall, threads, uplink, memoryPerCallMb: null, descriptors: null };
    } finally {
      await this.caller.ask({ kind: 'hangUp' }, 'hungUp');
    }
  }

  private async openBare(secure: boolean, calls: number) {
    const bare = new Helper<BareOrder, BareAnswer>('bare');
    const url = secure ? `wss://127.0.0.1:${this.ports.wssPort}/raw` : `ws://127.0.0.1:${this.ports.wsPort}/raw`;
    const { ports } = await bare.ask({ kind: 'open', calls, url, certificate: this.certificate }, 'opened');
    const opened = { bare, ports };
    this.bares.set(secure, opened);
    return opened;
  }

  async stop(): Promise<void> {
    for (const { bare } of this.bares.values()) bare.end();
    this.agent.end();
    this.caller.end();
    await this.gateway.stop();
    this.removeFolder();
  }

  private result(name: string, answered: number, failures: string[], figures: StreamFigures) {
    const { wireMs, earMs, paceMs } = figures;
    return { name, answered, failures, figures, wire: spread(wireMs), ear: spread(earMs), pace: spread(paceMs) };
  }

  /** Short calls for so long, to these numbers in turn. `every` looks at the gateway now and then. */
  async churn(
    to: ChurnNumber[],
    load: { callsPerSecond: number; talkMs: number; seconds: number },
    every: (figures: ProcessFigures) => void,
    everyMs: number,
  ) {
    const looking = setInterval(() => every(figuresOf(this.gateway.pid)), everyMs);
    try {
      const uri = `sip:127.0.0.1:${this.gateway.sipPort}`;
      return await this.caller.ask({ kind: 'churn', uri, to, ...load }, 'churned');
    } finally {
      clearInterval(looking);
    }
  }

  /** When the agent was late itself, since the last time that it was asked. */
  async agentStalls(): Promise<Stall[]> {
    return (await this.agent.ask({ kind: 'collect' }, 'collected')).stalls;
  }

  private async dial(uri: string, to: string, calls: number, load: Load): Promise<string[]> {
    const callsPerSecond = load.callsPerSecond ?? this.callsPerSecond;
    const { answered, failures } = await this.caller.ask(
      { kind: 'dial', uri, to, calls, callsPerSecond, places: load.calls },
      'dialled',
    );
    return Array.from({ length: calls - answered }, (_, i) => failures[i] ?? failures[0] ?? 'unknown');
  }

  /** `stoppable`: the process that `load` may stop. */
  private async measure({ seconds, stopMs, burstMs }: Load, stoppable: number | null, measured = () => this.figures()) {
    const { agent, caller } = this;
    await agent.ask({ kind: 'collect' }, 'collected');
    const look = () => [measured(), figuresOf(agent.pid), figuresOf(caller.pid)] as const;
    const [from, agentFrom, callerFrom] = look();
    const isStopped = stopMs !== undefined && stoppable !== null;
    const stops = isStopped ? stopAgainAndAgain(stoppable, stopMs, seconds) : [];
    const endBursts = burstMs === undefined ? () => undefined : startBursts(burstMs);
    const { figures, pulses } = await caller.ask({ kind: 'measure', seconds }, 'measured').finally(endBursts);
    const stopsMs = await stops;
    const [to, agentTo, callerTo] = look();
    const helpers = { agentPercent: cpuPercent(agentFrom, agentTo), callerPercent: cpuPercent(callerFrom, callerTo) };
    const recovery = isStopped ? recoveries(figures.pulses, stopsMs) : null;
    return { from, to, helpers, figures, pulses, recovery };
  }

  /** A number whose calls are steered by a webhook server. */
  webhookNumber(name: string, url: string): Promise<string> {
    return this.numberTo({ name, type: 'webhook', target: url });
  }

  numberFor({ name, protocol, secure, config, record }: Case): Promise<string> {
    const { ports } = this;
    return this.numberTo({
      name,
      type: 'agent',
      target: secure ? `wss://127.0.0.1:${ports.wssPort}/${protocol}` : `ws://127.0.0.1:${ports.wsPort}/${protocol}`,
      record,
      provider_config: { protocol, ...config },
    });
  }

  private async numberTo(wanted: Record<string, unknown>): Promise<string> {
    const { gateway } = this;
    this.numbers += 1;
    const number = `+1999556${String(1000 + this.numbers)}`;
    const endpoint = await gateway.api<{ id: string }>('POST', '/v1/endpoints', wanted);
    await gateway.api('POST', '/v1/phone-numbers', { number, endpoint_id: endpoint.id });
    return number;
  }

  /** The caller, from the call id in the form of Twilio's protocol. */
  private async callers(): Promise<Map<string, string>> {
    const found = new Map<string, string>();
    for (let page = 1; ; page++) {
      const { data } = await this.gateway.api<{ data: { id: string; from_number: string }[] }>(
        'GET',
        `/v1/calls?status=in_progress&limit=100&page=${page}`,
      );
      for (const { id, from_number } of data) found.set(`CA${id.replaceAll('-', '')}`, from_number);
      if (data.length < 100) return found;
    }
  }

  /** The time from the caller's last pulse to the moment the agent heard it. */
  private async uplink(
    sent: { from: string; atMs: Float64Array }[],
    numbers: ReadonlyMap<string, string>,
  ): Promise<Spread | null> {
    const sentBy = new Map(sent.map(({ from, atMs }) => [from, atMs]));
    const { pulses } = await this.agent.ask({ kind: 'collect' }, 'collected');
    const ways: number[] = [];
    for (const { call, atMs } of pulses) {
      const sentMs = sentBy.get(numbers.get(call) ?? call);
      if (!sentMs) continue;
      let last = -1;
      for (const heardMs of atMs) {
        while (last + 1 < sentMs.length && sentMs[last + 1]! <= heardMs) last += 1;
        if (last >= 0 && heardMs - sentMs[last]! < longestUplinkMs) ways.push(heardMs - sentMs[last]!);
      }
    }
    return spread(ways);
  }
}

/** Percent of one core that idle processes use: the least of some seconds, since what they still compile or collect is not idle. */
async function idlePercentOf(figures: () => ProcessFigures): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let look = 0; look < idleLooks; look++) {
    const from = figures();
    await sleep(idleMs);
    least = Math.min(least, cpuPercent(from, figures()));
  }
  return least;
}
