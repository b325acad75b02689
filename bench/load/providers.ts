/** All simulated providers in one process: it costs as much as the other side does, and is not counted. */
import type { ProviderProtocol } from '../../src/simulator/providers/provider-protocol.js';
import { providerProtocols } from '../../src/simulator/providers/registry.js';
import { simulateProvider } from '../../src/simulator/providers/serve.js';

/** Opens a simulator of each provider, whose agent answers at once; those opened before stay. */
export type ProvidersOrder = { kind: 'open'; greetingMs: number; silenceMs: number };
export type ProvidersAnswer = { kind: 'opened'; urls: [provider: string, url: string][] };

/** Audio is sent at once, as by the others: time runs fast here. */
function unpaced(dialect: ProviderProtocol): ProviderProtocol {
  const { byteStream } = dialect;
  if (byteStream === undefined) return dialect;
  return { ...dialect, byteStream: { ...byteStream, codec: () => ({ ...byteStream.codec(), durationMs: () => 0 }) } };
}

process.on('message', async ({ greetingMs, silenceMs }: ProvidersOrder) => {
  const urls: [string, string][] = [];
  for (const [provider, dialect] of providerProtocols) {
    const { url } = await simulateProvider(unpaced(dialect), { port: 0, greetingMs, silenceMs, answerDelayMs: 0 });
    urls.push([provider, url]);
  }
  process.send?.({ kind: 'opened', urls } satisfies ProvidersAnswer);
});
process.on('disconnect', () => process.exit());
