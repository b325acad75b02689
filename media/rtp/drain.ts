/**
 * After a call, its old peer may still send to the port. The packets are received and dropped until the port has been quiet for a while, so
 * that the next call on the port does not hear them.
 */
import type { Time } from '../audio/playout/playout-clock.js';
import { readUint32 } from './packet.js';
import type { RtpSocketPair } from './socket.js';
import type { LateSender } from './source.js';

/** Limit for a peer that never stops sending; the next call then ignores that peer. */
const longestMs = 10 * 60_000;

export class Drain {
  private readonly pairs = new Map<RtpSocketPair, unknown>();

  constructor(
    private readonly quietMs: number,
    private readonly time: Time,
    private readonly onFree: (rtpPort: number, lateSender: LateSender | null) => void,
  ) {}

  add(pair: RtpSocketPair): void {
    const startedMs = this.time.now();
    let lastHeardMs = startedMs;
    let source: { address: string; port: number } | null = null;
    let ssrc = 0;
    const heard = () => {
      lastHeardMs = this.time.now();
    };
    pair.secure(null);
    pair.deliverTo({
      rtp: (packet, from) => {
        heard();
        if (packet.length < 12) return;
        source = from;
        ssrc = readUint32(packet, 8);
      },
      rtcp: heard,
    });
    const look = () => {
      const nowMs = this.time.now();
      const leftMs = Math.min(lastHeardMs + this.quietMs, startedMs + longestMs) - nowMs;
      if (leftMs > 0) {
        this.pairs.set(pair, this.time.setTimer(look, Math.ceil(leftMs)));
        return;
      }
      const goesOn = nowMs - lastHeardMs < this.quietMs;
      this.free(pair, source && goesOn ? { address: source.address, port: source.port, ssrc } : null);
    };
    look();
  }

  close(): void {
    for (const [pair, timer] of this.pairs) {
      this.time.clearTimer(timer);
      pair.close();
    }
    this.pairs.clear();
  }

  private free(pair: RtpSocketPair, lateSender: LateSender | null): void {
    this.pairs.delete(pair);
    pair.close();
    this.onFree(pair.rtpPort, lateSender);
  }
}
