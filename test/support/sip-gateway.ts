/** Gateways with the embedded SIP server on loopback, short timers, and the question whether anything is left. */
import { expect } from 'vitest';
import { openSipGateway, type SipGatewayOptions } from '../../sip/gateway.js';
import type { IncomingCall } from '../../sip/leg.js';
import type { SipLog } from '../../sip/log.js';
import { type TrunkRecord, TrunkTable } from '../../sip/trunk/trunk-table.js';
import { someSdp } from './bare-sip-peer.js';
import { freePort } from './port-ranges.js';
import { lingerMs } from './sip-server.js';

export type TestGateway = Awaited<ReturnType<typeof openTestGateway>>;

export const loopbackTrunk: TrunkRecord = {
  ...{ id: 'loopback', organizationId: null, name: 'loopback', direction: 'both', status: 'active' },
  ...{ addresses: ['127.0.0.0/8'], username: null, password: null, gateways: [] },
};

/** A trunk with a name and a password instead of addresses. */
export function phoneTrunk(username: string, change: Partial<TrunkRecord> = {}): TrunkRecord {
  return { ...loopbackTrunk, id: username, name: username, addresses: [], username, password: 'secret', ...change };
}

export async function openTestGateway(
  records: TrunkRecord[] = [loopbackTrunk],
  change: Partial<SipGatewayOptions> = {},
) {
  const trunks = new TrunkTable();
  trunks.replace(records);
  const lines: { level: string; text: string; fields: object }[] = [];
  const write = (level: string) => (fields: object, text: string) => void lines.push({ level, text, fields });
  const log: SipLog = { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
  const { gateway, port } = await onFreePort((port) =>
    openSipGateway({
      server: {
        kind: 'embedded',
        listen: [
          { transport: 'udp', host: '127.0.0.1', port },
          { transport: 'tcp', host: '127.0.0.1', port },
        ],
        timersMs: { t1: 50, t2: 200, t4: 100, lingerMs },
      },
      trunks,
      log,
      ...change,
    }),
  );
  const calls: IncomingCall[] = [];
  const waiting: ((call: IncomingCall) => void)[] = [];
  return {
    gateway,
    trunks,
    lines,
    port,
    uri: `sip:127.0.0.1:${port}`,
    /** Takes each call with this handler; without one, calls wait in `nextCall`. */
    onCall(handler: (call: IncomingCall) => Promise<void>) {
      gateway.onIncomingCall(handler);
    },
    /** Hands calls to the test, which must end them; the handler stays until then. */
    collectCalls() {
      gateway.onIncomingCall(async (call) => {
        const next = waiting.shift();
        if (next) next(call);
        else calls.push(call);
        await new Promise<void>((resolve) => releases.push(resolve));
      });
    },
    nextCall(limitMs = 8000): Promise<IncomingCall> {
      const call = calls.shift();
      if (call) return Promise.resolve(call);
      return new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error(`No call within ${limitMs} ms`)), limitMs);
        waiting.push((came) => {
          clearTimeout(timer);
          resolve(came);
        });
      });
    },
    dial(to: string, uri: string, options: { ringTimeoutMs?: number; signal?: AbortSignal; more?: string[] } = {}) {
      return gateway.dial(
        {
          to,
          from: '+15550001111',
          gateways: [uri, ...(options.more ?? [])].map((gatewayUri) => ({ uri: gatewayUri })),
          offerFor: async () => someSdp,
          ringTimeoutMs: options.ringTimeoutMs ?? 5000,
        },
        options.signal ?? new AbortController().signal,
      );
    },
    /** Runs `send`, and resolves when the SIP server has read one more message. */
    async afterReading(send: () => void): Promise<void> {
      const before = (await gateway.serverStats()).messagesReceived;
      send();
      await expect.poll(async () => (await gateway.serverStats()).messagesReceived).toBeGreaterThan(before);
    },
    errors: () =>
      lines.filter((line) => line.level === 'error').map((line) => `${line.text} ${JSON.stringify(line.fields)}`),
    async expectNoLegs() {
      const limit = performance.now() + 5000;
      while (gateway.counters().activeLegs > 0 && performance.now() < limit) {
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      expect(gateway.counters().activeLegs).toBe(0);
    },
    /** Nothing may be left, in the gateway or in its server. */
    async expectNothingLeft() {
      const limit = performance.now() + 12_000;
      for (;;) {
        const { live } = await gateway.serverStats();
        const left = { activeLegs: gateway.counters().activeLegs, ...live };
        const isIdle = Object.values(left).every((count) => count === 0);
        if (isIdle || performance.now() > limit) {
          expect(left).toEqual({ activeLegs: 0, transactions: 0, dialogs: 0, timers: 0, tcpConnections: 0 });
          return;
        }
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    },
    async close() {
      for (const release of releases.splice(0)) release();
      await gateway.stop(0);
    },
  };
}

const releases: (() => void)[] = [];

/** A port that was free a moment ago may be another test's by now, or be taken for UDP only. */
async function onFreePort<T>(open: (port: number) => Promise<T>): Promise<{ gateway: T; port: number }> {
  for (let attempt = 1; ; attempt++) {
    const port = await freePort();
    try {
      return { gateway: await open(port), port };
    } catch (error) {
      if (attempt === 3 || !String(error).includes(String(port))) throw error;
    }
  }
}

/** Settles as the promise does, or fails the test. */
export async function within<T>(promise: Promise<T>, limitMs = 8000, what = 'It'): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} did not happen within ${limitMs} ms`)), limitMs);
  });
  try {
    return await Promise.race([promise, limit]);
  } finally {
    clearTimeout(timer);
  }
}
