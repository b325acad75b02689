import Srf from 'drachtio-srf';
import type { SipServerOptions, SipServerStats } from '../../sip/server/protocol.js';
import { type SipServer, startSipServer } from '../../sip/server/start.js';

/** How long an answered transaction stays, in place of 64·T1: on loopback a repeat comes within 200 ms, on a busy machine too within this. */
export const lingerMs = 500;

/** Ten times faster than life. */
export const FAST_TIMERS = { t1: 50, t2: 400, t4: 500, lingerMs };

export const SDP =
  'v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 15000 RTP/AVP 0\r\n';

export interface TestServer {
  server: SipServer;
  srf: Srf;
  /** Of UDP and TCP. */
  port: number;
  /** Exceptions inside the worker: none is expected, ever. */
  failures: string[];
  /** Resolves when nothing is alive in the server any more; rejects with what is left after the limit. */
  idle(limitMs?: number): Promise<SipServerStats>;
  close(): Promise<void>;
}

/** A server on a free loopback port, and an unmodified drachtio-srf connected to it. */
export async function openTestServer(options: Partial<SipServerOptions> = {}): Promise<TestServer> {
  const failures: string[] = [];
  const host = '127.0.0.1';
  const server = await startSipServer({
    listen: [
      { transport: 'udp', host, port: 0 },
      { transport: 'tcp', host, port: 0 },
    ],
    timersMs: FAST_TIMERS,
    onFailure: (stack) => failures.push(stack),
    ...options,
  });
  const srf = await connect(server);
  const opened: TestServer = {
    server,
    srf,
    port: server.addresses[0]!.port,
    failures,
    idle: (limitMs = 10_000) => idle(server, limitMs),
    close: async () => {
      opened.srf.disconnect();
      await server.close();
      if (failures.length > 0) throw new Error(`Exceptions in the server: ${failures.join('\n')}`);
    },
  };
  return opened;
}

export function connect(server: SipServer): Promise<Srf> {
  const srf = new Srf();
  return new Promise((resolve, reject) => {
    srf.on('connect', (error: Error | null) => (error ? reject(error) : resolve(srf)));
    srf.on('error', () => undefined);
    srf.connect(server.control);
  });
}

/** Sends a request outside a dialog; its final response. By callback, for a promise could be told of the sending after the answer. */
export function ask(srf: Srf, uri: string, options: Record<string, unknown>): Promise<Srf.SrfResponse> {
  type Sent = { on(event: 'response', listener: (res: Srf.SrfResponse) => void): void };
  type Request = (
    uri: string,
    options: Record<string, unknown>,
    sent: (error: Error | null, req: Sent) => void,
  ) => void;
  return new Promise((resolve, reject) => {
    (srf.request as unknown as Request).call(srf, uri, options, (error, req) => {
      if (error) reject(error);
      else req.on('response', (res) => res.status >= 200 && resolve(res));
    });
  });
}

async function idle(server: SipServer, limitMs: number): Promise<SipServerStats> {
  const until = Date.now() + limitMs;
  for (;;) {
    const stats = await server.stats();
    const { transactions, dialogs, timers } = stats.live;
    if (transactions + dialogs + timers === 0) return stats;
    if (Date.now() > until) throw new Error(`Still alive after ${limitMs} ms: ${JSON.stringify(stats.live)}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
