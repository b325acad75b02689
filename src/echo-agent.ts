import { once } from 'node:events';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';
import { builtModule } from '../config/built.js';
import { startEchoAgent } from '../examples/echo-agent/index.js';

/** The placeholder host name in the demo endpoint's target for the current address of the built-in echo agent. */
export const echoAgentHost = 'echo.trunkline.internal';

export interface BuiltInEchoAgent {
  url: URL;
  close(): Promise<void>;
}

/** Starts the echo agent of the demo number on a loopback port, in a separate thread, because it carries audio. */
export async function startBuiltInEchoAgent(): Promise<BuiltInEchoAgent> {
  const worker = new Worker(builtModule(import.meta.url, './echo-agent.js'), { name: 'echo-agent' });
  const [port] = (await once(worker, 'message')) as [number];
  return {
    url: new URL(`ws://127.0.0.1:${port}`),
    close: async () => {
      worker.postMessage('close');
      await worker.terminate();
    },
  };
}

if (!isMainThread && parentPort !== null) {
  const agent = await startEchoAgent({ port: 0 });
  parentPort.once('message', () => void agent.close());
  parentPort.postMessage(agent.port);
}
