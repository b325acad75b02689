/** Creates and connects all components, in order. The only file that depends on all folders. */
import { isIP } from 'node:net';
import type { Settings } from '../config/settings.js';
import { agentProtocols } from '../media/agents/providers/registry.js';
import { startMediaEngine } from '../media/choose.js';
import type { MediaPolicy } from '../media/engine.js';
import { createSafeHttp } from '../net/http.js';
import { chooseSipServer } from '../sip/choose.js';
import { openSipGateway } from '../sip/gateway.js';
import type { TlsSettings } from '../sip/server/transport/tls.js';
import { TrunkTable } from '../sip/trunk/trunk-table.js';
import { tokenSettings } from './api/auth/token-settings.js';
import { SignInLink } from './api/dashboard/sign-in-link.js';
import { RecordingFiles } from './api/recordings/recording-files.js';
import { startApi } from './api/server.js';
import type { App, StartOptions } from './app.js';
import { startBanner } from './banner.js';
import { Apology } from './call/agent/apology.js';
import { CallTranscripts } from './call/agent/call-transcripts.js';
import { openConferences } from './call/conference/open-conferences.js';
import { RequestedRecordings } from './call/control/requested-recordings.js';
import { CallsOfAllNodes } from './call/core/calls-of-all-nodes.js';
import { LiveCallTable } from './call/core/live-calls.js';
import { type InboundDeps, takeInboundCall } from './call/inbound.js';
import { OutboundDialler } from './call/outbound.js';
import type { CallClosing } from './call/party/teardown.js';
import { PromptPlayer } from './call/prompts/prompt-player.js';
import { CallQueues } from './call/queue/call-queues.js';
import { Recordings } from './call/recording/call-recording.js';
import { PartialRecordings } from './call/recording/recordings.js';
import { closeLostRecordings } from './call/recovery/lost-recordings.js';
import { OrphanedDialogs } from './call/recovery/orphaned-dialogs.js';
import { Admissions } from './call/routing/admission.js';
import { beginChildCall, dialRefusal } from './call/routing/child-call-policy.js';
import { EndpointHealth } from './call/routing/endpoint-health.js';
import { RejectedInvites } from './call/routing/rejected-invites.js';
import { saveTrunkHealth } from './call/routing/trunk-health.js';
import { TrunkReload } from './call/routing/trunk-reload.js';
import { Carriers } from './call/routing/trunk-selection.js';
import { connectionTests, examineInstallation } from './connection-tests.js';
import { builtDashboard } from './dashboard-folder.js';
import { echoAgentHost, startBuiltInEchoAgent } from './echo-agent.js';
import { firstStart } from './first-start.js';
import { Histograms } from './histograms.js';
import { createLog } from './log.js';
import { createMetrics } from './metrics.js';
import { readiness } from './readiness.js';
import { SharedByNodes } from './redis/shared-by-nodes.js';
import { Retention } from './retention.js';
import { Shutdown } from './shutdown.js';
import { localTarget, simulatedCaller } from './simulated-caller.js';
import { simulatedCarrier } from './simulated-carrier.js';
import { Clips } from './speech/clips.js';
import { openSpeechPools } from './speech/speech-pool.js';
import { systemClock } from './store/database/clock.js';
import { madeNodeName } from './store/nodes/lease.js';
import { Store } from './store/store.js';
import { undoBootstrap } from './store/tenants/bootstrap.js';
import type { Mode } from './store/tenants/scope.js';
import { TlsFiles } from './tls-files.js';
import { callSpans } from './tracing/call-spans.js';
import { tracedHttp } from './tracing/traced-http.js';
import { headersOfCall, Tracing } from './tracing/tracing.js';
import { chooseTranscription } from './transcription/choose.js';
import { CallbackQueue } from './webhook/callback-queue.js';
import { EventSender } from './webhook/event-sender.js';

export type { App, StartOptions };

/** The time for sending status callbacks and events of the last calls. */
const lastWordsMs = 3000;

/** Media servers send requests within dialogs, and the SIP server must not take them for strangers. */
function mediaServerNets(engine: Settings['mediaEngine']): string[] {
  const hosts = engine === 'embedded' ? [] : engine.map(({ host }) => host);
  return hosts.filter((host) => isIP(host)).map((host) => `${host}/${isIP(host) === 6 ? 128 : 32}`);
}

/** Starts everything or nothing: on any failure what was already open is closed, and one clear sentence is thrown. */
export async function start(settings: Settings, options: StartOptions = {}): Promise<App> {
  const nodeName = settings.nodeName ?? madeNodeName();
  const log = options.log ?? createLog(settings.logLevel, nodeName);
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
    const histograms = new Histograms();
    const orphans = new OrphanedDialogs(log);
    opened.push(() => orphans.close());
    let followSettings = (): void => {};
    let onLeaseLost = (): void => {};
    const live = new LiveCallTable();
    const opening = Store.open({
      ...(settings.databaseUrl.kind === 'sqlite'
        ? { file: settings.databaseUrl.file }
        : { url: settings.databaseUrl.url }),
      poolSize: settings.databasePool,
      nodeName,
      onBatchWritten: histograms.batchWritten,
      onCommandAnswered: histograms.commandAnswered,
      onLost: (callIds) => {
        live.endLost(callIds);
        onLeaseLost();
      },
      onRolesChanged: () => followSettings(),
      onSettingsChanged: () => followSettings(),
      secretsKey: settings.secretsKey,
      durability: settings.sync,
      holdGraceSec: settings.holdGraceSec,
      log,
      onOrphans: (calls) => {
        orphans.add(calls);
        const { folder } = settings.recordingsUrl;
        // the first come before there is a store
        opening.then(
          (store) => closeLostRecordings(folder, calls, store.calls, log),
          () => {},
        );
      },
    });
    const store = await opening;
    opened.push(() => store.close());
    store.startCheckpoints();
    const first = await firstStart(store, settings, log);
    let isReady = false;
    // a database that is gone meanwhile must hide neither the failure of the start nor what else is to be closed
    opened.push(
      () =>
        isReady ||
        first === null ||
        undoBootstrap(store, first).catch((err) => log.warn({ err }, 'the first start could not be undone')),
    );

    const media =
      options.media ??
      (await startMediaEngine({
        threads: settings.mediaThreads,
        rtpPorts: settings.rtpPorts,
        bindAddress: settings.sipHost,
        log,
        ...(settings.mediaEngine === 'embedded'
          ? {}
          : {
              freeSwitch: {
                servers: settings.mediaEngine,
                invite: (wish) => sip.inviteMediaServer(wish),
                ...(settings.externalIp === null ? {} : { externalIp: settings.externalIp }),
              },
            }),
        ...(options.rtpQuarantineMs === undefined ? {} : { quarantineMs: options.rtpQuarantineMs }),
        ...(options.rtpTakenPortRetryMs === undefined ? {} : { takenPortRetryMs: options.rtpTakenPortRetryMs }),
      }));
    opened.push(() => media.close());
    const recordings = new Recordings(settings.recordingsUrl.folder, store.calls);
    opened.push(() => recordings.settled());
    let publicUrl = '';
    const takes = new PartialRecordings({
      folder: settings.recordingsUrl.folder,
      records: store.recordings,
      log,
      publicUrl: () => publicUrl,
    });
    opened.push(() => takes.settled());
    const echo = await startBuiltInEchoAgent();
    opened.push(() => echo.close());

    const shared = await SharedByNodes.open(settings.redisUrl, log, histograms.redisAnswered);
    opened.push(() => shared.close());

    const trunks = new TrunkTable();
    const isDown = (uri: string) => stateOf(uri) === 'down';
    const carriers = new Carriers({ codecs: settings.codecs, isDown, rates: shared.callRates, places: shared.places });
    const trunkReload = await TrunkReload.open<TlsSettings>({
      records: () => store.trunks.allForSip(),
      table: trunks,
      selection: carriers,
      tls: () => tlsFiles.current,
      registers: () => store.roles.holds('registrations'),
      log,
    });
    followSettings = trunkReload.begin; // another node may have changed trunks
    const tlsFiles = new TlsFiles(settings, log, trunkReload.begin);
    opened.push(() => tlsFiles.close());
    const nodeSecret = await store.nodeSecret();
    const sip = await openSipGateway({
      ...(nodeSecret === null ? {} : { nodeSecret }),
      server: chooseSipServer(settings, {
        tls: tlsFiles.current,
        mediaLagMs: () => Math.max(0, ...media.load().threads.map((thread) => thread.eventLoopLagMs)),
        limits: options.sipLimits,
        trusted: options.sipTrusted,
        timersMs: options.sipTimersMs,
      }),
      trunks,
      log,
      localNets: [...settings.localNets],
      digestAlgorithms: settings.digestAlgorithms,
      ...(shared.registrations === null ? {} : { directory: shared.registrations }),
      probeEveryMs: options.trunkProbeMs ?? settings.trunkProbeSec * 1000,
      ...(settings.externalIp === null ? {} : { externalIp: settings.externalIp }),
    });
    opened.push(() => sip.stop(0));
    await shared.nodes?.start(sip.addresses, (hosts) => sip.trustNodes(hosts));
    opened.push(() => shared.nodes?.stop());
    const stateOf = (uri: string) => sip.keepalive.stateOf(uri);
    sip.keepalive.onChange = () => void saveTrunkHealth(store.trunks, stateOf, log);
    await trunkReload.follow({
      trust: (nets) => sip.trust([...nets, ...mediaServerNets(settings.mediaEngine)]),
      secure: (tls) => sip.secure(tls),
      keepalive: sip.keepalive,
    });
    orphans.begin(sip);

    const tracing =
      settings.otelEndpoint === null
        ? null
        : new Tracing({
            endpoint: settings.otelEndpoint,
            http: createSafeHttp({ allowPrivate: true }),
            ...{ node: nodeName, log },
          });
    opened.push(() => tracing?.close());
    const untraced = createSafeHttp({ allowPrivate: settings.allowPrivateTargets });
    const http = tracing === null ? untraced : tracedHttp(untraced, tracing);
    const events = new EventSender({
      deliveries: store.webhookDeliveries,
      endpoints: store.endpoints,
      http,
      clock: systemClock,
      log,
      onDead: (delivery, { httpStatus, error }) =>
        store.calls.event(delivery.callId, 'webhook.failed', {
          delivery_id: delivery.id,
          event_type: delivery.eventType,
          http_status: httpStatus,
          message: error,
        }),
    });
    store.calls.onWritten = () => events.wake();
    opened.push(async () => {
      await store.calls.flush();
      await events.stop(lastWordsMs);
    });
    events.start();

    const recordingFiles = new RecordingFiles(settings.recordingsUrl.folder);
    const retention = new Retention({
      expired: store.expiredCalls,
      months: store.expiredMonths,
      removeFile: (url) => recordingFiles.remove(url),
      isOurs: () => store.roles.has('retention'),
      clock: systemClock,
      log,
    });
    opened.push(() => retention.stop());
    retention.start();

    const callbacks = new CallbackQueue(http, log);
    opened.push(() => callbacks.close(lastWordsMs));

    const { speech, files } = openSpeechPools();
    opened.push(() => Promise.all([speech.close(), files.close()]));
    const clips = new Clips({
      speech,
      files,
      http,
      operatorHttp: createSafeHttp({ allowPrivate: true }),
      speechServer:
        settings.ttsUrl === null ? null : { url: settings.ttsUrl, key: settings.ttsKey, model: settings.ttsModel },
    });

    const voice = new PromptPlayer(clips);
    if (await store.endpoints.hasWebhooks()) voice.warm();

    const queues = new CallQueues();
    const shutdown = new Shutdown(
      {
        announce: () => {
          sip.leave();
          void store.roles.release('registrations'); // another node takes the calls that come by them
        },
        refuseCalls: () => sip.drain(),
        drain: (hangUp) => live.drain(hangUp),
        closeAll,
      },
      settings.shutdownNoticeSec * 1000,
    );
    const rejected = new RejectedInvites(log, store.rejectedInvites);
    const admissions = new Admissions(store, log);
    const simulated = simulatedCarrier(options.simulatedRingMs ?? 1000, options.sipTimersMs);
    opened.push(() => simulated.close());
    const policy: MediaPolicy = {
      codecs: [...settings.codecs],
      firstRtpTimeoutMs: settings.rtpFirstTimeoutSec * 1000,
      rtpTimeoutMs: settings.rtpTimeoutSec * 1000,
      concealLoss: settings.concealLoss,
    };
    const conferences = openConferences({ media, policy, sip, takes, store });
    onLeaseLost = () => void conferences.ofThisNode.giveAway();
    opened.push(() => conferences.close());
    const carriersOf = async (organizationId: string, mode: Mode) =>
      mode === 'test' ? [await simulated.carrier()] : carriers.of(organizationId);
    const closing: CallClosing = {
      live,
      trace: (sipCallId) => {
        const trace = sip.trace(sipCallId);
        sip.forgetTrace(sipCallId);
        return trace;
      },
      log,
      onEnded: (ended) => {
        histograms.ended(ended);
        if (tracing !== null) for (const span of callSpans(ended)) tracing.record(span);
      },
    };
    const recognition = chooseTranscription(settings);
    opened.push(recognition.close);
    if (await store.endpoints.hasWebhooks()) recognition.transcription?.prepare?.();
    const calls: InboundDeps = {
      records: store.calls,
      begin: (call) => admissions.begin(call),
      lookup: {
        findDialled: (number, mode) => store.phoneNumbers.findDialled(number, mode),
        getForCall: (id) => store.endpoints.getForCall(id),
      },
      media,
      maxCalls: settings.maxCalls,
      policy,
      mediaOf: (trunkId) => carriers.mediaOf(trunkId),
      script: {
        http,
        getEndpoint: (id) => store.endpoints.getForCall(id),
        limits: {
          maxCallMs: settings.maxCallSec * 1000,
          transferTimeoutMs: 60_000,
          apology: new Apology(voice, settings.apology, log),
        },
        voice,
        takes,
        recordings: new RequestedRecordings({
          ...{ takes, http, callbacks },
          getEndpoint: (id) => store.endpoints.getForCall(id),
        }),
        conferences: conferences.ofThisNode,
        queues,
        callbacks,
        get transcription() {
          return recognition.transcription;
        },
        dialling: {
          media,
          policy,
          records: store.calls,
          closing,
          begin: (wish) => beginChildCall(store, admissions, wish),
          allowPrivateTargets: settings.allowPrivateTargets,
          isOurs: (uri) => sip.isOurs(uri),
          mediaOfUser: (organizationId, name) => {
            const trunk = trunks.withUsername(name);
            return trunk?.organizationId === organizationId ? carriers.mediaOf(trunk.id) : null;
          },
          dial: (request, signal) => sip.dial(request, signal),
          carriers: carriersOf,
          refusal: (organizationId, mode, call) => dialRefusal(store, organizationId, mode, call),
        },
        agents: {
          http,
          connectTimeoutMs: settings.agentConnectTimeoutSec * 1000,
          frameMs: settings.agentFrameMs === '40' ? 40 : 20,
          health: new EndpointHealth((id, health) => store.endpoints.setHealth(id, health), log),
          recordings,
          transcripts: new CallTranscripts({
            engine: () => recognition.transcription,
            isDefault: settings.transcribeCalls,
          }),
          allowPrivateTargets: settings.allowPrivateTargets,
          protocols: new Set(agentProtocols.keys()),
          builtInAgents: new Map([[echoAgentHost, echo.url]]),
          ...(tracing !== null && { traceHeaders: headersOfCall }),
        },
      },
      ...closing,
      unknownNumber: (incoming) => rejected.unknownNumber(incoming),
    };
    const outbound = new OutboundDialler({
      ...calls,
      dial: (request, signal) => sip.dial(request, signal),
      carriers: carriersOf,
      addresses: calls.script.dialling,
      hasCarrier: (organizationId, mode) => mode === 'test' || carriers.of(organizationId).length > 0,
      isDraining: () => shutdown.isDraining,
    });
    sip.onRefusedInvite((refused) => rejected.refused(refused));
    sip.onIncomingCall((incoming) => takeInboundCall(incoming, calls));

    const tokens = tokenSettings(settings);
    const signInLink = first?.apiKey ? new SignInLink(first.apiKey) : null;
    const api = await startApi({
      dashboardFolder: builtDashboard(),
      ...(signInLink === null ? {} : { signInLink }),
      ...(settings.oidcClientId === null ? {} : { loginClientId: settings.oidcClientId }),
      corsOrigins: settings.corsOrigins ?? [],
      ...(shared.counter === null ? {} : { redis: shared.counter }),
      callRates: shared.callRates,
      ...(tokens === null ? {} : { tokens }),
      get transcription() {
        return recognition.transcription;
      },
      ...(recognition.translation === null ? {} : { translation: recognition.translation }),
      host: settings.httpHost,
      port: settings.httpPort,
      store,
      liveCalls: new CallsOfAllNodes(live, store.nodeCommands, () => store.calls.flush()),
      outboundCalls: outbound,
      conferences: conferences.ofAllNodes,
      queues,
      liveTrace: (sipCallId) => sip.trace(sipCallId),
      allowPrivateTargets: settings.allowPrivateTargets,
      recordingsFolder: settings.recordingsUrl.folder,
      ...(settings.publicUrl === null ? {} : { publicUrl: settings.publicUrl.replace(/\/$/, '') }),
      simulateCall: simulatedCaller(() => localTarget(sip.addresses)),
      connectionTests: connectionTests({
        http,
        agents: calls.script.agents,
        options: (uri, trust) => sip.keepalive.probe(uri, trust),
      }),
      doctor: async () => examineInstallation(settings, await store.trunks.allForSip()),
      onTrunksChanged: trunkReload.run,
      onWebhookRetry: () => events.wake(),
      metrics: createMetrics({
        shed: async () => (await sip.serverStats()).shed,
        sip,
        media,
        live,
        rejected,
        unwrittenRecords: () => store.calls.unwritten,
        callsFromMemory: () => admissions.fromMemory,
        writersReplaced: () => store.writersReplaced,
        callsExpired: () => retention.deleted,
        leaseAgeMs: () => store.lease.ageMs,
        sipThreadLagMs: async () => (await sip.serverStats()).lagMs,
        histograms,
        spansDropped: tracing === null ? null : () => tracing.dropped,
        redis: shared.redis,
      }),
      ...(settings.metricsToken === null ? {} : { metricsToken: settings.metricsToken }),
      ...(settings.trustedProxies === null ? {} : { trustedProxies: [...settings.trustedProxies] }),
      log: log.child({ part: 'api' }, { level: settings.logLevel === 'info' ? 'warn' : settings.logLevel }), // `trunkline is ready` says where
      ready: () => readiness({ sip, media, store, isDraining: shutdown.isDraining, redis: shared.redis, admissions }),
    });
    // a request that passed its checks before the drain may have begun a call after it
    opened.push(() => live.drain(AbortSignal.abort()));
    opened.push(() => api.close());

    const httpUrl = `http://${api.host.includes(':') ? `[${api.host}]` : api.host}:${api.port}`;
    publicUrl = settings.publicUrl ?? httpUrl;
    isReady = true;
    log.info({ http: httpUrl, sip: sip.addresses }, 'trunkline is ready');
    return {
      httpUrl,
      sip,
      media,
      store,
      live,
      outbound,
      first,
      banner: startBanner(httpUrl, sip, first, signInLink && `${publicUrl}/#/sign-in/${signInLink.code}`),
      stopped: shutdown.stopped,
      stop: shutdown.stop,
    };
  }
}
