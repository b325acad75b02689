/** One FreeSWITCH of the pool: connecting, checking, watching, and the endpoints that calls get from it. */
import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import Mrf, { type FsmrfDialog, type FsmrfEndpoint, type FsmrfMediaServer } from 'drachtio-fsmrf';
import { withDeadline } from '../../net/deadline.js';
import { type EngineLog, MediaError } from '../engine.js';
import {
  type EventSocket,
  type EventSocketAddress,
  EventSocketError,
  nameOf,
  openEventSocket,
} from './event-socket.js';
import { isSecure } from './far-sdp.js';
import { endLeftChannels } from './left-channels.js';
import { type MediaServerFacts, readFacts, sipProfile } from './server-facts.js';

/** How a FreeSWITCH is invited: through the SIP side of the process. */
export type InviteMediaServer = (invite: {
  uri: string;
  headers: Record<string, string>;
  offer?: string;
}) => Promise<FsmrfDialog>;

export interface MediaServerOptions extends EventSocketAddress {
  /** The public address of its RTP sockets; null: it has none of its own. */
  externalIp: string | null;
  /** `fork`: agents that mod_audio_fork can speak with get their audio from it. */
  agentAudio: 'rtp' | 'fork';
  invite: InviteMediaServer;
  log: EngineLog;
  /** Between two questions whether it lives and takes calls. Default 5,000. */
  pingMs?: number;
}

/** An endpoint towards a phone: FreeSWITCH's answer, and the channel once it can be commanded. */
export interface PhoneEndpoint {
  sdp: string;
  endpoint: Promise<FsmrfEndpoint>;
}

/** Limit for one attempt, the checks included. */
const connectLimitMs = 5000;
const firstRetryMs = 250;
/** A longer pause between two attempts would outlast most restarts. */
const mostRetryMs = 5000;
/** A caller waits for it. */
const endpointLimitMs = 5000;
const destroyLimitMs = 2000;
/** Read by the dialplan in `config/freeswitch`. */
const codecsHeader = 'X-Trunkline-Codecs';

/** `onLost` is called when a server that was ready cannot be reached again at once: its calls have no media. */
export class MediaServer {
  readonly name: string;
  facts: MediaServerFacts | null = null;
  /** Why it cannot take calls, in one sentence; null while it can. */
  problem: string | null;
  /** `fsctl pause inbound`: it keeps its calls and gets no new ones. */
  isDrained = false;
  #control: EventSocket | null = null;
  #fsmrf: FsmrfMediaServer | null = null;
  readonly #endpoints = new Set<FsmrfEndpoint>();
  #opening = 0;
  readonly #closing = new AbortController();

  constructor(
    private readonly options: MediaServerOptions,
    private readonly onLost: (server: MediaServer) => void,
  ) {
    this.name = `${options.host}:${options.port}`;
    setMaxListeners(0, this.#closing.signal); // one for each endpoint that is being made
    this.problem = `${nameOf(options)} is not connected yet.`;
  }

  get isReady(): boolean {
    return this.#fsmrf !== null;
  }

  get externalIp(): string | null {
    return this.options.externalIp;
  }

  get forksAgents(): boolean {
    return this.options.agentAudio === 'fork';
  }

  get takesCalls(): boolean {
    return this.isReady && !this.isDrained;
  }

  /** Our address as this server reaches it. */
  get ownAddress(): string {
    return this.#control?.localAddress ?? '127.0.0.1';
  }

  /** Channels: of other users too, as its last heartbeat says, and ours that came since. */
  get load(): number {
    return Math.max(this.#fsmrf?.currentSessions || 0, this.#endpoints.size) + this.#opening;
  }

  get channels(): number {
    return this.#endpoints.size;
  }

  /**
   * Resolves after the first attempt; a server that is down is tried again until `close`. Rejects with `EventSocketError` `refused` when
   * the settings are wrong: another password, a missing module.
   */
  async open(): Promise<void> {
    if (await this.#attempt(true)) return;
    void this.#retry();
  }

  /** Answers a phone's offer. `codecs`: encoding names, the preferred first. Rejects with `MediaError`. */
  async answer(offer: string, codecs: readonly string[]): Promise<PhoneEndpoint> {
    const headers = { [codecsHeader]: codecs.join(',') };
    if (!isSecure(offer)) {
      const endpoint = await this.#endpoint((fsmrf) => fsmrf.createEndpoint({ remoteSdp: offer, headers }));
      return { sdp: endpoint.local.sdp, endpoint: Promise.resolve(endpoint) };
    }
    let tell!: (sdp: string) => void;
    const answered = new Promise<string>((resolve) => {
      tell = resolve;
    });
    const endpoint = this.#endpoint(
      async (fsmrf) => (await fsmrf.connectCaller({ body: offer }, { tell }, { headers })).endpoint,
    );
    endpoint.catch(() => undefined);
    const sdp = await Promise.race([answered, endpoint.then((made) => made.local.sdp)]);
    return { sdp, endpoint };
  }

  /** FreeSWITCH offers these codecs: `local.sdp`. */
  offer(codecs: readonly string[]): Promise<FsmrfEndpoint> {
    return this.#endpoint((fsmrf) => fsmrf.createEndpoint({ headers: { [codecsHeader]: codecs.join(',') } }));
  }

  /** The endpoint towards our own engine; it is silent until it is bridged. */
  agentSide(offer: string, codec: string): Promise<FsmrfEndpoint> {
    const headers = { [codecsHeader]: codec, 'X-Trunkline-Side': 'agent' };
    return this.#endpoint((fsmrf) => fsmrf.createEndpoint({ remoteSdp: offer, headers }));
  }

  /** Connects two channels. Rejects with `MediaError`. */
  async bridge(a: FsmrfEndpoint, b: FsmrfEndpoint): Promise<void> {
    const control = this.#control;
    const said = await control?.api(`uuid_bridge ${a.uuid} ${b.uuid}`).catch((error: Error) => error.message);
    if (!said?.startsWith('+OK'))
      throw new MediaError('engine_gone', `${nameOf(this.options)} could not bridge: ${said ?? 'it is gone'}.`);
  }

  /** A command of mod_audio_fork for this channel. Rejects with `MediaError`. */
  async fork(endpoint: FsmrfEndpoint, [verb = '', ...words]: readonly string[]): Promise<void> {
    // On the channel's own connection: its events are asked for there, and must be before the fork begins.
    const answer = endpoint.api('uuid_audio_fork', `^^|${[endpoint.uuid, verb, ...words].join('|')}`);
    const said = await answer.then(
      (event) => event.getBody(),
      (error: Error) => error.message,
    );
    if (!said?.startsWith('+OK'))
      throw new MediaError('engine_gone', `${nameOf(this.options)} refused to ${verb} a fork: ${said}.`);
  }

  /** Ends a channel; never rejects. */
  async destroy(endpoint: FsmrfEndpoint): Promise<void> {
    this.#endpoints.delete(endpoint);
    const { dialog } = endpoint;
    await withDeadline(destroyLimitMs, 'the end of a channel', null, () => endpoint.destroy()).catch(() => {
      void dialog?.destroy();
    });
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.problem = `${nameOf(this.options)} is closed.`;
    await Promise.all([...this.#endpoints].map((endpoint) => this.destroy(endpoint)));
    this.#disconnect();
  }

  async #endpoint(make: (fsmrf: FsmrfMediaServer) => Promise<FsmrfEndpoint>): Promise<FsmrfEndpoint> {
    const fsmrf = this.#fsmrf;
    if (fsmrf === null)
      throw new MediaError('engine_gone', this.problem ?? `${nameOf(this.options)} is not connected.`);
    this.#opening += 1;
    let isLate = false;
    const made = make(fsmrf).then(
      (endpoint) => {
        endpoint.conn?.removeAllListeners('error'); // the library prints it; `destroy` follows
        endpoint.conn?.on('error', () => undefined);
        if (isLate) void endpoint.destroy().catch(() => undefined);
        else {
          this.#endpoints.add(endpoint);
          endpoint.once('destroy', () => {
            this.#endpoints.delete(endpoint);
            void endpoint.dialog?.destroy(); // a server that died sends no BYE
          });
        }
        return endpoint;
      },
      (error: unknown) => {
        throw refusal(error, nameOf(this.options));
      },
    );
    try {
      return await withDeadline(
        endpointLimitMs,
        `an endpoint of ${nameOf(this.options)}`,
        this.#closing.signal,
        () => made,
      );
    } catch (error) {
      isLate = true;
      if (error instanceof MediaError) throw error;
      throw new MediaError('engine_gone', error instanceof Error ? error.message : 'The media engine is closed.');
    } finally {
      this.#opening -= 1;
    }
  }

  /** Whether the server is ready now. Rejects when waiting does not help, at the start only. */
  async #attempt(isFirst: boolean): Promise<boolean> {
    const { log } = this.options;
    try {
      await this.#connect();
      this.problem = null;
      return true;
    } catch (error) {
      this.#disconnect();
      if (this.#closing.signal.aborted) return false;
      const problem = error instanceof Error ? error.message : String(error);
      if (problem !== this.problem) log.error({ err: problem }, 'media server connection failed');
      this.problem = problem;
      if (isFirst && error instanceof EventSocketError && error.code === 'refused') throw error;
      return false;
    }
  }

  async #retry(): Promise<void> {
    const { signal } = this.#closing;
    for (let waitMs = firstRetryMs; !signal.aborted; waitMs = Math.min(waitMs * 2, mostRetryMs)) {
      await sleep(waitMs, undefined, { signal }).catch(() => undefined);
      if (signal.aborted || (await this.#attempt(false))) return;
    }
  }

  async #connect(): Promise<void> {
    const { options } = this;
    const { signal } = this.#closing;
    const control = await openEventSocket(options, connectLimitMs, signal);
    this.#control = control;
    const facts = await readFacts(control, nameOf(options));
    if (this.forksAgents && !facts.hasAudioFork)
      throw new EventSocketError(
        'refused',
        `${nameOf(options)} lacks mod_audio_fork, which agent_audio=fork needs: load it in modules.conf.xml, or remove agent_audio.`,
      );
    const fsmrf = await this.#openFsmrf(control.localAddress);
    this.facts = facts;
    this.#fsmrf = fsmrf;
    this.isDrained = false;
    void control.closed.then(() => {
      if (this.#control === control) void this.#lost();
    });
    void this.#watch(control);
    endLeftChannels(control, this.name, options.log).catch(() => undefined); // the connection is gone, and `closed` has told
  }

  /** A connection of its own for the library: the checks above passed, so it does not fail for reasons that it would not tell. */
  async #openFsmrf(ownAddress: string): Promise<FsmrfMediaServer> {
    const { host, port, password, invite } = this.options;
    const mrf = new Mrf({
      createUAC: (uri, { headers, localSdp }, _progress, callback) =>
        settle(invite({ uri, headers, ...(localSdp === undefined ? {} : { offer: localSdp }) }), callback),
      createUAS: (_req, res, { localSdp }, callback) => {
        (res as { tell(sdp: string): void }).tell(localSdp);
        return settle(Promise.resolve(answeredElsewhere), callback);
      },
    });
    const connected = mrf.connect({
      ...{ address: host, port, secret: password, profile: sipProfile },
      ...{ listenAddress: ownAddress, advertisedAddress: ownAddress },
    });
    let isLate = false;
    connected.then(
      (late) => {
        if (isLate) disconnect(late);
      },
      () => undefined,
    );
    try {
      const what = `the answer of ${nameOf(this.options)}`;
      const fsmrf = await withDeadline(connectLimitMs, what, null, () => connected);
      // The library would print the loss, and reconnect by itself without its heartbeats.
      fsmrf.conn.closing = true;
      fsmrf.conn.removeAllListeners('esl::end');
      return fsmrf;
    } catch (error) {
      isLate = true;
      throw error;
    }
  }

  /** Asks at intervals whether the server lives and takes calls: a host that lost its power closes no connection. */
  async #watch(control: EventSocket): Promise<void> {
    const { pingMs = 5000 } = this.options;
    const { signal } = this.#closing;
    while (this.#control === control && !signal.aborted) {
      await sleep(pingMs, undefined, { signal, ref: false }).catch(() => undefined);
      if (this.#control !== control || signal.aborted) return;
      try {
        const isDrained = (await control.api('fsctl pause_check inbound')).startsWith('true');
        if (isDrained !== this.isDrained)
          this.options.log.warn({ server: this.name, drained: isDrained }, 'media server paused or resumed');
        this.isDrained = isDrained;
      } catch {
        return; // the connection is closed, and `closed` was called
      }
    }
  }

  /**
   * The control connection is gone. Endpoints have connections of their own, and tell themselves when FreeSWITCH died; a host that is
   * silent closes none, so its calls are over when it cannot be reached.
   */
  async #lost(): Promise<void> {
    this.#disconnect();
    if (this.#closing.signal.aborted) return;
    this.problem = `The connection to ${nameOf(this.options)} was lost.`;
    this.options.log.error({ server: this.name, channels: this.#endpoints.size }, 'media server lost');
    if (await this.#attempt(false)) return;
    this.#endpoints.clear();
    this.onLost(this);
    await this.#retry();
  }

  #disconnect(): void {
    const control = this.#control;
    const fsmrf = this.#fsmrf;
    this.#control = null;
    this.#fsmrf = null;
    control?.close();
    if (fsmrf) disconnect(fsmrf);
  }
}

function disconnect(fsmrf: FsmrfMediaServer): void {
  fsmrf.conn.closing = true;
  fsmrf.disconnect();
}

/** Stands for the dialog with the phone, which the library does not own here. */
const answeredElsewhere: FsmrfDialog = {
  remote: { sdp: '' },
  modify: async () => '',
  destroy: () => undefined,
  once: () => undefined,
};

function settle(
  promise: Promise<FsmrfDialog>,
  callback?: (err: Error | null, dialog?: FsmrfDialog) => void,
): Promise<FsmrfDialog> | undefined {
  if (!callback) return promise;
  promise.then((dialog) => callback(null, dialog), callback);
  return undefined;
}

/** What a refused INVITE means for the call. */
function refusal(error: unknown, where: string): MediaError {
  const status = (error as { sipStatus?: number }).sipStatus;
  const said = error instanceof Error ? error.message : String(error);
  if (status === 488 || status === 415 || status === 606)
    return new MediaError(
      'incompatible_media',
      `${where} has no codec in common with the phone, or cannot meet its SDP.`,
    );
  return new MediaError('engine_gone', `${where} gave no endpoint: ${said}`);
}
