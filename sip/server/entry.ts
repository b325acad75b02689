/** The worker's entry: opens the server, handles messages of the main thread, and closes on request. */
import { setPriority } from 'node:os';
import { parentPort, workerData } from 'node:worker_threads';
import type { FromParent, SipServerOptions } from './protocol.js';
import { openServer } from './server.js';

/**
 * A higher priority than the main thread, lower than the media threads: under a flood the socket must be drained before its buffer
 * overflows.
 */
const PRIORITY = -5;

const port = parentPort;
if (port) {
  try {
    setPriority(PRIORITY);
  } catch {
    // needs a privilege that this user may lack
  }
  // an unexpected exception costs one message, not the server; the main thread logs it
  const failed = (error: unknown) =>
    port.postMessage({
      kind: 'failed',
      message: error instanceof Error ? (error.stack ?? error.message) : String(error),
    });
  process.on('uncaughtException', failed);
  process.on('unhandledRejection', failed);
  openServer(workerData as SipServerOptions, failed, () => port.postMessage({ kind: 'ask' })).then(
    (server) => {
      port.on('message', (message: FromParent) => {
        if (message.kind === 'stats') port.postMessage({ kind: 'stats', id: message.id, stats: server.stats() });
        else if (message.kind === 'load') server.reported(message.lagMs);
        else if (message.kind === 'alive') server.mainAnswered();
        else if (message.kind === 'takenUp') server.takenUp(message.transactionIds);
        else if (message.kind === 'trust') server.trust(message.nets);
        else if (message.kind === 'refuse') server.refuse(message.invite);
        else if (message.kind === 'cancelInvite') server.cancelInvite(message.invite);
        else if (message.kind === 'secure') {
          try {
            server.secure(message.tls);
          } catch (error) {
            failed(error);
          }
        } else server.close().then(() => port.close());
      });
      port.postMessage({ kind: 'ready', control: server.control, addresses: server.addresses });
    },
    (error: NodeJS.ErrnoException) => port.postMessage({ kind: 'refused', message: error.message, code: error.code }),
  );
}
