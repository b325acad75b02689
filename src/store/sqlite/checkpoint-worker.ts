/** Runs in a thread of its own. */
import { parentPort, workerData } from 'node:worker_threads';
import { CheckpointConnection } from './connection.js';

/** What was committed during one is for the next, and takes less time; the log begins anew once one has brought over all there is. */
const atMost = 5;

let connection: CheckpointConnection | null = null;

parentPort?.on('message', (wanted: 'run' | 'close') => {
  if (wanted === 'close') {
    connection?.close();
    parentPort?.close();
    return;
  }
  try {
    connection ??= new CheckpointConnection((workerData as { file: string }).file);
    connection.run(atMost);
  } catch (error) {
    connection?.close();
    connection = null;
    throw error; // the thread ends, and the next checkpoint starts another one
  } finally {
    parentPort?.postMessage(null);
  }
});
