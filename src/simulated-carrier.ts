/** The carrier for calls of test keys: the built-in simulator, opened by the first such call. */
import type { Carrier } from './call/routing/trunk-selection.js';
import { openSimulatedCarrier, type SimulatedCarrier } from './simulator/carrier.js';

export interface TestCarrier {
  carrier(): Promise<Carrier>;
  close(): Promise<void>;
}

export function simulatedCarrier(ringMs: number, timersMs?: { t1?: number }): TestCarrier {
  let opened: Promise<SimulatedCarrier> | null = null;
  return {
    async carrier() {
      opened ??= openSimulatedCarrier({ ringMs, ...(timersMs === undefined ? {} : { timersMs }) });
      const simulator = opened;
      // If it could not be opened, the next call tries again.
      simulator.catch(() => {
        if (opened === simulator) opened = null;
      });
      const { uri } = await simulator;
      return {
        trunkId: null,
        name: 'simulator',
        media: { codecs: ['PCMU', 'PCMA'] },
        gateways: [{ uri }],
        present: (call) => ({ ...call, headers: {} }),
        enter: async () => () => undefined,
      };
    },
    async close() {
      await (await opened?.catch(() => null))?.close();
    },
  };
}
