/** Runs in a thread of its own. */
import { parentPort, workerData } from 'node:worker_threads';
import { Database } from './database.js';

/** What was committed during one is for the next, and takes less time; the log begins anew once one has brought over all there is. */
const atMost = 5;

parentPort?.on('message', () => {
  try {
    Database.checkpoint((workerData as { file: string }).file, atMost);
  } finally {
    parentPort?.postMessage(null);
  }
});
