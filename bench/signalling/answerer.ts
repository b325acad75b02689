/**
 * The gateway under load, in a process of its own: a whole Trunkline with records on disk. Its media are without sound unless `--media rtp`: then
 * each call has its RTP sockets and its connection to the echo agent. Tells its parent its port, and its counters when asked.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { loadSettings } from '../../config/load.js';
import type { MediaEngine, MediaSession, MediaStats } from '../../media/engine.js';
import { start } from '../../src/main.js';

const sdp = [
  ...['v=0', 'o=- 1 1 IN IP4 127.0.0.1', 's=-', 'c=IN IP4 127.0.0.1', 't=0 0', 'm=audio 30000 RTP/AVP 0'],
  ...['a=rtpmap:0 PCMU/8000', 'a=sendrecv', ''],
].join('\r\n');
const jitter = { jitterMs: null, jitterMeanMs: null, jitterMaxMs: null };
const stream = { packets: 0, bytes: 0, lossPercent: null, lost: null, ...jitter, mos: null };
const nothing: MediaStats = {
  codec: 'PCMU',
  ptimeMs: 20,
  received: { ...stream, duplicates: 0, reordered: 0, late: 0, recovered: 0, foreign: 0, malformed: 0, ssrcChanges: 0 },
  sent: stream,
  rttMs: null,
  delay: { network: null, uplink: null, playout: null },
  recentDelay: { network: null, uplink: null, playout: null },
  late: { garbageCollection: 0, waitingForCore: 0, ownWork: 0, stopped: 0, agent: 0, unknown: 0 },
  echo: null,
  agent: { framesSent: 0, framesDropped: 0, bytesReceived: 0, underruns: 0, skippedMs: 0, garbage: 0 },
};
let sessions = 0;

function silentSession(): MediaSession {
  let open = true;
  sessions++;
  const close = async () => {
    if (open) sessions--;
    open = false;
    return nothing;
  };
  // parts that no call of this bench needs are left out
  const session: Partial<MediaSession> = {
    localSdp: sdp,
    // a signal per call: listeners on a shared one would never be released
    lost: new Promise<never>(() => {}),
    offer: async () => sdp,
    answer: async () => sdp,
    accept: async () => {},
    prepareAgent: async () => {
      let end!: (how: { by: 'local'; detail: string }) => void;
      const ended = new Promise<{ by: 'local'; detail: string }>((resolve) => {
        end = resolve;
      });
      return {
        ended,
        start: () => {},
        command: () => {},
        onEvent: () => () => {},
        close: async (detail) => end({ by: 'local', detail }),
      };
    },
    attach: () => {},
    onEvent: () => () => {},
    stats: async () => nothing,
    close,
  };
  return session as MediaSession;
}

const silent: MediaEngine = {
  room: () => {
    throw new Error('no conferences here');
  },
  open: async () => silentSession(),
  load: () => ({
    ...{
      sessions,
      threads: [{ sessions, eventLoopLagMs: 0, alive: true }],
      ports: { used: 0, quarantined: 0, total: 0 },
    },
    ...{ faults: 0, threadsReplaced: 0, late: nothing.late, foreignPackets: 0, malformedPackets: 0 },
  }),
  close: async () => {},
};

const folder = await mkdtemp(path.join(tmpdir(), 'trunkline-signalling-'));
const settings = loadSettings({
  env: {
    TRUNKLINE_HTTP_PORT: '0',
    TRUNKLINE_SIP_PORT: '0',
    TRUNKLINE_RTP_PORTS: '34000-49999',
    TRUNKLINE_RTP_FIRST_TIMEOUT_SEC: '0',
    TRUNKLINE_LOG_LEVEL: 'error',
    TRUNKLINE_TRUNK_PROBE_SEC: '0',
    TRUNKLINE_DATA_DIR: folder,
  },
});
const app = await start(settings, process.argv.includes('rtp') ? { rtpQuarantineMs: 0 } : { media: silent });
process.on('message', (message: 'stats' | 'stop') => {
  if (message === 'stats')
    void app.sip.serverStats().then(async (stats) => {
      const scope = { organizationId: app.first?.organizationId ?? '', mode: 'live' } as const;
      process.send?.({
        stats,
        live: app.live.count,
        records: await app.store.records.stats(scope, {}),
        unwritten: app.store.calls.unwritten,
      });
    });
  else
    void app
      .stop(0)
      .then(() => rm(folder, { recursive: true, force: true }))
      .then(() => process.exit(0));
});
process.send?.({ port: app.sip.addresses[0]?.port });
// the parent process is gone
process.on('disconnect', () => process.exit());
