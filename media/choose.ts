/** Chooses and starts the media engine: the embedded one, or FreeSWITCH with the embedded one behind it. */
import type { EngineLog, MediaEngine } from './engine.js';
import type { FreeSwitchEngineOptions } from './freeswitch/engine.js';
import type { RtpPortRange } from './ports.js';
import { EmbeddedEngine } from './thread/main-side/engine.js';

export interface MediaEngineOptions {
  threads: number;
  /** Even ports carry RTP, the next port RTCP. Keep the range outside the kernel's ephemeral ports. */
  rtpPorts: RtpPortRange;
  /** Default bind address of RTP sockets when a session has none; without it, the session's `localAddress`. */
  bindAddress?: string;
  /** A port is reused after a call only when its old peer has been silent for this long. Default 30 s. */
  quarantineMs?: number;
  /** A port that another program holds is tried again after this. Default 30 s. */
  takenPortRetryMs?: number;
  log?: EngineLog;
  /** Absent: the embedded engine alone. */
  freeSwitch?: Pick<FreeSwitchEngineOptions, 'servers' | 'invite' | 'externalIp' | 'pingMs'>;
}

const silent: EngineLog = { warn: () => {}, error: () => {} };

/**
 * Resolves when all media threads run, and each FreeSWITCH was tried once: one that is down is tried again in the background. Rejects with
 * `MediaError` `engine_gone` when a thread does not start, and with one sentence when a FreeSWITCH refuses us or lacks something.
 */
export async function startMediaEngine(options: MediaEngineOptions): Promise<MediaEngine> {
  const { rtpPorts, bindAddress, quarantineMs = 30_000, takenPortRetryMs = 30_000, log = silent } = options;
  const threads = Math.max(1, options.threads);
  const embedded = new EmbeddedEngine({ threads, rtpPorts, bindAddress, quarantineMs, takenPortRetryMs, log });
  let engine: MediaEngine = embedded;
  try {
    await embedded.ready;
    if (options.freeSwitch) {
      const { FreeSwitchEngine } = await import('./freeswitch/engine.js'); // its libraries cost time and memory
      const external = new FreeSwitchEngine(embedded, { ...options.freeSwitch, log });
      engine = external;
      await external.start();
    }
  } catch (error) {
    await engine.close();
    throw error;
  }
  return engine;
}
