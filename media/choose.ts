/** Chooses and starts the media engine. */
import type { EngineLog, MediaEngine } from './engine.js';
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
}

const silent: EngineLog = { warn: () => {}, error: () => {} };

/** Resolves when all media threads run. Rejects with `MediaError` `engine_gone` when a thread does not start. */
export async function startMediaEngine(options: MediaEngineOptions): Promise<MediaEngine> {
  const { rtpPorts, bindAddress, quarantineMs = 30_000, takenPortRetryMs = 30_000, log = silent } = options;
  const threads = Math.max(1, options.threads);
  const engine = new EmbeddedEngine({ threads, rtpPorts, bindAddress, quarantineMs, takenPortRetryMs, log });
  try {
    await engine.ready;
  } catch (error) {
    await engine.close();
    throw error;
  }
  return engine;
}
