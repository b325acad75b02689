/** What the API does while calls talk: a list every 100 ms, statistics and trends over all calls every half second. */
import { setTimeout as sleep } from 'node:timers/promises';
import { spread } from './figures.js';
import type { Gateway } from './processes.js';

const listEveryMs = 100;
const countEveryMs = 500;

export function beside(gateway: Gateway): { stop(): Promise<string> } {
  let running = true;
  const took: Record<string, number[]> = {};
  const ask = async (name: string, where: string) => {
    const startMs = performance.now();
    await gateway.api('GET', where);
    took[name] ??= [];
    took[name].push(performance.now() - startMs);
  };
  const repeat = async (everyMs: number, work: () => Promise<unknown>) => {
    while (running) {
      await work();
      await sleep(everyMs);
    }
  };
  const work = [
    repeat(listEveryMs, () => ask('list', '/v1/calls?limit=100')),
    repeat(countEveryMs, () => ask('stats', '/v1/calls?action=stats')),
    repeat(countEveryMs, () => ask('trends', '/v1/calls?action=trends')),
  ];
  return {
    stop: async () => {
      running = false;
      await Promise.all(work);
      return Object.entries(took)
        .map(
          ([name, ms]) =>
            `${ms.length} × ${name} (p50 ${spread(ms)?.p50.toFixed(1)}, worst ${spread(ms)?.worst.toFixed(1)} ms)`,
        )
        .join(', ');
    },
  };
}
