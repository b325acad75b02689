/** Entry point of a media thread: the second composition root. */
import { setPriority } from 'node:os';
import { parentPort, workerData } from 'node:worker_threads';
import { openAgentSocket } from '../agents/connection/socket.js';
import { realTime } from '../audio/playout/playout-clock.js';
import type { ToThread } from './channel.js';
import { coreTimeOfThread, observeCollections } from './lateness.js';
import { ThreadSessions } from './session/sessions.js';
import { sleepThread } from './wakeup-batching.js';

const port = parentPort;
if (!port) throw new Error('media/thread/entry.ts runs as a worker only.');
try {
  // On Linux this sets the priority of the calling thread alone. Late audio is audible; other work that waits for audio is not.
  setPriority(-10);
} catch {
  // Needs CAP_SYS_NICE; without it the thread keeps the normal priority.
}
const sessions = new ThreadSessions({
  post: (message) => port.postMessage(message),
  openAgent: openAgentSocket,
  time: realTime,
  sleep: sleepThread,
  coreTime: coreTimeOfThread(),
  quietMs: (workerData as { quietMs: number }).quietMs,
});
observeCollections((fromMs, durationMs) => sessions.lateness.collected(fromMs, durationMs));
port.on('message', (message: ToThread) => {
  sessions.receive(message);
  if (message.kind === 'shutdown') sessions.close().then(() => port.close());
});
