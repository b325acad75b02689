/** Which media engine runs: the only place that decides. */
import type { EngineLog, MediaEngine } from './engine.js';
import type { RtpPortRange } from './ports.js';
import { EmbeddedEngine } from './thread/main-side/engine.js';

export interface MediaEngineOptions {
  threads: number;
  /** Pairs: even ports are RTP, the next one RTCP. Keep it outside the kernel's ephemeral range. */
  rtpPorts: RtpPortRange;
  /** Where RTP sockets bind when a session does not say; default: the session's `localAddress`. */
  bindAddress?: string;
  /** After a call its port is used again only when the old peer has been quiet for so long. Default 30 s. */
  quarantineMs?: number;
  log?: EngineLog;
}

const silent: EngineLog = { warn: () => {}, error: () => {} };

/** Resolves when all media threads run. Rejects with `MediaError` `engine_gone` when one does not start. */
export async function startMediaEngine(options: MediaEngineOptions): Promise<MediaEngine> {
  const { threads, rtpPorts, bindAddress, quarantineMs = 30_000, log = silent } = options;
  const engine = new EmbeddedEngine({ threads: Math.max(1, threads), rtpPorts, bindAddress, quarantineMs, log });
  try {
    await engine.ready;
  } catch (error) {
    await engine.close();
    throw error;
  }
  return engine;
}
