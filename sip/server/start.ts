import { Worker } from 'node:worker_threads';
import { builtModule } from '../../config/built.js';
import { REPORT_EVERY_MS } from './overload/admission.js';
import type { FromParent, InviteToCancel, InviteToRefuse, SipServerOptions, SipServerStats } from './protocol.js';
import type { TlsSettings } from './transport/tls.js';

/** The embedded SIP server as the main thread uses it: a worker that speaks drachtio's control protocol on a loopback TCP port. */

export interface SipServer {
  /** The control port for drachtio-srf, with its random secret. */
  control: { host: string; port: number; secret: string };
  addresses: { transport: 'udp' | 'tcp' | 'tls'; host: string; port: number }[];
  /** Resolves when the worker dies by itself. */
  died: Promise<Error>;
  stats(): Promise<SipServerStats>;
  /** Replaces the networks whose messages are not counted. */
  trust(nets: readonly string[]): void;
  /** Replaces `tls` for new connections. */
  secure(tls: TlsSettings): void;
  /** The application has taken up an INVITE, and its first response waits for something else: the guard does not count this wait. */
  takenUp(transactionId: string): void;
  /** Answers 503 to an INVITE that a dead server left unanswered. For UDP only: TCP and TLS peers saw the connection end. */
  refuse(invite: InviteToRefuse): void;
  /** Sends CANCEL for an INVITE of a dead server; a 200 that arrives nevertheless gets ACK and BYE. */
  cancelInvite(invite: InviteToCancel): void;
  /** Closes sockets, timers and the worker. Idempotent. */
  close(): Promise<void>;
}

/** Messages from the worker. */
type FromWorker =
  | { kind: 'ready'; control: SipServer['control']; addresses: SipServer['addresses'] }
  | { kind: 'refused'; message: string; code?: string }
  | { kind: 'ask' }
  | { kind: 'stats'; id: number; stats: SipServerStats }
  | { kind: 'failed'; message: string };

const STATS_LIMIT_MS = 5000;
const CLOSE_LIMIT_MS = 5000;

/** Starts the worker. Rejects with one clear sentence when a port is taken or an address is not ours. */
export function startSipServer(options: SipServerOptions): Promise<SipServer> {
  const { onFailure, mediaLagMs, ...plain } = options;
  const worker = new Worker(builtModule(import.meta.url, './entry.js'), { workerData: plain, name: 'sip-server' });
  const waiting = new Map<number, (stats: SipServerStats) => void>();
  let nextId = 0;
  let closing: Promise<void> | null = null;
  const exited = new Promise<void>((resolve) => worker.once('exit', () => resolve()));
  let reason: Error | null = null;
  const died = new Promise<Error>((resolve) => {
    worker.on('error', (error) => {
      reason = error as Error;
    });
    worker.once(
      'exit',
      (code) => !closing && resolve(reason ?? new Error(`The SIP server thread ended with code ${code}`)),
    );
  });

  const report = setInterval(
    () => worker.postMessage({ kind: 'load', lagMs: mediaLagMs?.() ?? 0 } satisfies FromParent),
    REPORT_EVERY_MS,
  ).unref();
  void exited.then(() => clearInterval(report));
  const trust = (nets: readonly string[]) => worker.postMessage({ kind: 'trust', nets } satisfies FromParent);

  const secure = (tls: TlsSettings) => worker.postMessage({ kind: 'secure', tls } satisfies FromParent);

  const cancelInvite = (invite: InviteToCancel) =>
    worker.postMessage({ kind: 'cancelInvite', invite: { head: invite.head, next: invite.next } } satisfies FromParent);
  const refuse = (invite: InviteToRefuse) => worker.postMessage({ kind: 'refuse', invite } satisfies FromParent);

  let taken: string[] = [];
  const takenUp = (transactionId: string): void => {
    if (taken.push(transactionId) > 1) return;
    setImmediate(() => {
      worker.postMessage({ kind: 'takenUp', transactionIds: taken } satisfies FromParent);
      taken = [];
    });
  };

  const stats = (): Promise<SipServerStats> =>
    new Promise((resolve, reject) => {
      if (closing) return reject(new Error('The SIP server is closed'));
      const id = nextId++;
      const limit = setTimeout(() => {
        waiting.delete(id);
        reject(new Error('The SIP server thread does not answer'));
      }, STATS_LIMIT_MS);
      waiting.set(id, (value) => {
        clearTimeout(limit);
        waiting.delete(id);
        resolve(value);
      });
      worker.postMessage({ kind: 'stats', id } satisfies FromParent);
    });

  const close = (): Promise<void> => {
    closing ??= (async () => {
      worker.postMessage({ kind: 'close' } satisfies FromParent);
      const limit = setTimeout(() => void worker.terminate(), CLOSE_LIMIT_MS);
      await exited;
      clearTimeout(limit);
    })();
    return closing;
  };

  return new Promise((resolve, reject) => {
    died.then(reject);
    worker.on('message', (message: FromWorker) => {
      if (message.kind === 'ready') {
        const { control, addresses } = message;
        resolve({ control, addresses, died, stats, trust, secure, takenUp, refuse, cancelInvite, close });
      } else if (message.kind === 'ask') worker.postMessage({ kind: 'alive' } satisfies FromParent);
      else if (message.kind === 'stats') waiting.get(message.id)?.(message.stats);
      else if (message.kind === 'failed') onFailure?.(message.message);
      else {
        closing ??= exited;
        reject(Object.assign(new Error(message.message), { code: message.code ?? 'ELISTEN' }));
        void worker.terminate();
      }
    });
  });
}
