/** What `src/main.ts` starts, and what its callers choose beside the settings. */
import type { MediaEngine } from '../media/engine.js';
import type { SipGateway } from '../sip/leg.js';
import type { SipServerOptions, SipServerStats } from '../sip/server/protocol.js';
import type { LiveCallTable } from './call/core/live-calls.js';
import type { OutboundCalls } from './call/core/outbound-request.js';
import type { Logger } from './log.js';
import type { Store } from './store/store.js';
import type { FirstStart } from './store/tenants/bootstrap.js';

/** A running Trunkline. */
export interface App {
  httpUrl: string;
  sip: SipGateway & { serverStats(): Promise<SipServerStats> };
  media: MediaEngine;
  store: Store;
  live: LiveCallTable;
  outbound: OutboundCalls;
  /** The text to print at the start: addresses, the first key, and how to dial the demo number. */
  banner: string;
  /** The records created by the first start on an empty database; null on later starts. */
  first: FirstStart | null;
  /** Resolves when everything is closed. */
  stopped: Promise<void>;
  /** Rejects new calls, waits at most `graceMs` for live ones, hangs up the rest and closes everything. A later call with less shortens the wait. */
  stop(graceMs: number): Promise<void>;
}

/** Options for tests that are not settings. */
export interface StartOptions {
  rtpQuarantineMs?: number;
  rtpTakenPortRetryMs?: number;
  /** Replaces the media engine of the settings. */
  media?: MediaEngine;
  log?: Logger;
  sipTimersMs?: SipServerOptions['timersMs'];
  trunkProbeMs?: number;
  /** The limits for overload and for untrusted sources. */
  sipLimits?: SipServerOptions['limits'];
  /** Networks that are trusted without a trunk. Default: loopback. */
  sipTrusted?: readonly string[];
  /** How long the carrier simulator rings before it answers. Default 1,000. */
  simulatedRingMs?: number;
}
