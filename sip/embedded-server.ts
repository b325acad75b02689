import { setTimeout as sleep } from 'node:timers/promises';
import type { ControlPort } from './drachtio/reach-server.js';
import type { SipLog } from './log.js';
import { LOOPBACK_NETS } from './server/overload/sources.js';
import type { SipServerOptions } from './server/protocol.js';
import { type SipServer, startSipServer } from './server/start.js';
import type { TlsSettings } from './server/transport/tls.js';

const longestRestartDelayMs = 30_000;

export interface EmbeddedServerParts {
  /** As the first server is started. */
  server: SipServerOptions;
  log: SipLog;
  /** Ends restarts. */
  closing: AbortSignal;
  /** Connects the application to a server that was started. */
  connect(control: ControlPort, signal: AbortSignal): Promise<void>;
  /** A server is up again, and connected. */
  onRestarted(server: SipServer): void;
}

/** The embedded SIP server of this process, which is started again when its thread dies. */
export class EmbeddedServer {
  #running: SipServer | null = null;
  /** Networks of trunks, and addresses of other nodes, whose messages are not counted. */
  #nets: readonly string[] = [];
  #nodes: readonly string[] = [];
  #tls: TlsSettings | undefined;

  constructor(private readonly options: EmbeddedServerParts) {
    this.#tls = options.server.tls;
  }

  /** null: it is not started yet, or was lost, or is closed. */
  get running(): SipServer | null {
    return this.#running;
  }

  /** Rejects with one clear sentence when it cannot listen. */
  async start(signal: AbortSignal, listen = this.options.server.listen): Promise<void> {
    const { server: options, log, closing, connect } = this.options;
    const server = await startSipServer({
      ...options,
      listen,
      trusted: this.#trusted,
      ...(this.#tls === undefined ? {} : { tls: this.#tls }),
      onFailure: (stack) => log.error({ stack }, 'sip server dropped a message that it could not handle'),
    });
    this.#running = server;
    await connect(server.control, signal);
    // Only from here on: when the server dies earlier, the start has failed and the caller handles it.
    // The calls end when the connection closes, after the server's last messages are read: those may report an answer or a BYE.
    void server.died.then((error) => {
      if (!closing.aborted) log.error({ err: error.message }, 'sip server died');
    });
  }

  /** The connection to it was lost. Tries until one is up again, on the ports that the first one got. */
  async restart(): Promise<void> {
    const { log, closing, onRestarted } = this.options;
    const dead = this.#running;
    if (!dead) return;
    this.#running = null;
    await dead.close().catch(() => undefined);
    for (let delayMs = 100; !closing.aborted; delayMs = Math.min(delayMs * 2, longestRestartDelayMs)) {
      try {
        await this.start(closing, [...dead.addresses]);
        log.info({}, 'sip server restarted');
        if (this.#running) onRestarted(this.#running);
        return;
      } catch (error) {
        log.error(
          { err: error instanceof Error ? error.message : String(error), delayMs },
          'sip server restart failed',
        );
        await this.close().catch(() => undefined);
        await sleep(delayMs, undefined, { signal: closing }).catch(() => undefined);
      }
    }
  }

  trust(nets: readonly string[]): void {
    this.#nets = nets;
    this.#running?.trust(this.#trusted);
  }

  trustNodes(addresses: readonly string[]): void {
    if (addresses.join() === this.#nodes.join()) return;
    this.#nodes = addresses;
    this.#running?.trust(this.#trusted);
  }

  secure(tls: TlsSettings): void {
    this.#tls = tls;
    this.#running?.secure(tls);
  }

  async close(): Promise<void> {
    const server = this.#running;
    this.#running = null;
    await server?.close();
  }

  get #trusted(): string[] {
    return [...this.#nets, ...this.#nodes, ...(this.options.server.trusted ?? LOOPBACK_NETS)];
  }
}
