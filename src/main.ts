/** Builds everything. The only file that knows all folders; it decides nothing but the order. */
import ipaddr from 'ipaddr.js';
import type { Settings } from '../config/settings.js';
import { protocolNames } from '../media/agents/registry.js';
import { startMediaEngine } from '../media/choose.js';
import type { MediaEngine } from '../media/engine.js';
import { openSipGateway } from '../sip/connect.js';
import type { SipGateway } from '../sip/leg.js';
import type { SipServerStats } from '../sip/server/start.js';
import { TrunkTable } from '../sip/trunk.js';
import { type Api, startApi } from './api/server.js';
import { type InboundCalls, takeInboundCall } from './call/inbound.js';
import { LiveCallTable } from './call/live-calls.js';
import { echoAgentHost, startBuiltInEchoAgent } from './echo-agent.js';
import { createLog, type Logger } from './log.js';
import { bootstrap, type FirstStart } from './store/bootstrap.js';
import { Store } from './store/store.js';
import { RejectedInvites } from './rejected-invites.js';

/** A running Trunkline. */
export interface App {
  httpUrl: string;
  sip: SipGateway & { serverStats(): Promise<SipServerStats> };
  media: MediaEngine;
  store: Store;
  live: LiveCallTable;
  /** What the first start on an empty database made; null on every later one. */
  first: FirstStart | null;
  /** Resolves when everything is closed. */
  stopped: Promise<void>;
  /** New calls are refused; live ones run on for at most `graceMs`, then they are hung up and everything is closed. Idempotent. */
  stop(graceMs: number): Promise<void>;
}

/** For tests: what no setting should offer. */
export interface StartOptions {
  rtpQuarantineMs?: number;
  log?: Logger;
  sipTimersMs?: { t1?: number; t2?: number; t4?: number };
}

/** A trunk that trusts loopback addresses is for a gateway that only this machine can reach. */
function trunksFor(store: Store, sipHost: string) {
  const records = store.trunks.allForSip();
  if (isLoopback(sipHost)) return records;
  return records.map((trunk) => ({ ...trunk, addresses: trunk.addresses.filter((net) => !isLoopback(net.split('/')[0] ?? '')) }));
}

function isLoopback(address: string): boolean {
  return ipaddr.isValid(address) && ipaddr.process(address).range() === 'loopback';
}

/** Starts everything or nothing: on any failure what was already open is closed, and one clear sentence is thrown. */
export async function start(settings: Settings, options: StartOptions = {}): Promise<App> {
  const log = options.log ?? createLog(settings.logLevel);
  const opened: (() => unknown)[] = [];
  const closeAll = async (): Promise<void> => {
    for (const close of opened.reverse()) await close();
    opened.length = 0;
  };
  try {
    return await build();
  } catch (error) {
    await closeAll();
    throw error;
  }

  async function build(): Promise<App> {
    const store = Store.open({ file: settings.databaseUrl.file, log });
    opened.push(() => store.close());
    const first = bootstrap(store, {
      ...(settings.bootstrapKey === null ? {} : { key: settings.bootstrapKey }),
      echoAgent: { target: `ws://${echoAgentHost}/twilio`, providerConfig: { protocol: 'twilio' } },
      loopbackTrunk: true,
    });

    const media = await startMediaEngine({
      threads: settings.mediaThreads,
      rtpPorts: settings.rtpPorts,
      bindAddress: settings.sipHost,
      log,
      ...(options.rtpQuarantineMs === undefined ? {} : { quarantineMs: options.rtpQuarantineMs }),
    });
    opened.push(() => media.close());
    const echo = await startBuiltInEchoAgent();
    opened.push(() => echo.close());

    const trunks = new TrunkTable();
    const loadTrunks = (): void => {
      for (const problem of trunks.replace(trunksFor(store, settings.sipHost))) log.warn({ problem }, 'a trunk address was left out');
    };
    loadTrunks();
    const sip = await openSipGateway({
      server: sipServer(settings, options),
      trunks,
      log,
      localNets: [...settings.localNets],
      ...(settings.externalIp === null ? {} : { externalIp: settings.externalIp }),
    });
    opened.push(() => sip.stop(0));

    const live = new LiveCallTable();
    const rejected = new RejectedInvites(log);
    const calls: InboundCalls = {
      records: store.calls,
      lookup: {
        findDialled: (number, mode) => store.phoneNumbers.findDialled(number, mode),
        getForCall: (id) => store.endpoints.getForCall(id),
      },
      media,
      live,
      maxCalls: settings.maxCalls,
      policy: {
        codecs: ['PCMU', 'PCMA'],
        firstRtpTimeoutMs: settings.rtpFirstTimeoutSec * 1000,
        rtpTimeoutMs: settings.rtpTimeoutSec * 1000,
      },
      agents: {
        connectTimeoutMs: settings.agentConnectTimeoutSec * 1000,
        allowPrivateTargets: settings.allowPrivateTargets,
        protocols: new Set(protocolNames),
        builtInAgents: new Map([[echoAgentHost, echo.url]]),
      },
      limits: { maxCallMs: settings.maxCallSec * 1000, transferTimeoutMs: 60_000 },
      trace: (sipCallId) => {
        const trace = sip.trace(sipCallId);
        sip.forgetTrace(sipCallId);
        return trace;
      },
      unknownNumber: (incoming) => rejected.unknownNumber(incoming),
      log,
    };
    sip.onRefusedInvite((refused) => rejected.refused(refused));
    sip.onIncomingCall((incoming) => takeInboundCall(incoming, calls));

    const api = await startApi(apiOptions({ settings, store, live, sip, media, rejected, log, loadTrunks }));
    opened.push(() => api.close());

    let stopping: Promise<void> | null = null;
    let resolveStopped!: () => void;
    const stopped = new Promise<void>((resolve) => {
      resolveStopped = resolve;
    });
    const stop = (graceMs: number): Promise<void> => {
      stopping ??= (async () => {
        sip.drain();
        await live.drain(graceMs);
        await closeAll();
        resolveStopped();
      })();
      return stopping;
    };
    log.info({ http: api.url, sip: sip.addresses }, 'trunkline is ready');
    return { httpUrl: api.url, sip, media, store, live, first, stopped, stop };
  }
}
