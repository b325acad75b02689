/** What a media thread starts with: the second composition root. */
import { parentPort, workerData } from 'node:worker_threads';
import { openAgentSocket } from '../agents/socket.js';
import { realTime } from '../audio/playout-clock.js';
import type { ToThread } from './channel.js';
import { ThreadSessions } from './sessions.js';

const port = parentPort;
if (!port) throw new Error('media/thread/entry.ts runs as a worker only.');
const sessions = new ThreadSessions({
  post: (message) => port.postMessage(message),
  openAgent: openAgentSocket,
  time: realTime,
  quietMs: (workerData as { quietMs: number }).quietMs,
});
port.on('message', (message: ToThread) => {
  sessions.receive(message);
  if (message.kind === 'shutdown') sessions.close().then(() => port.close());
});
