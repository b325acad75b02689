/** An agent that plays chirps and searches the phone's audio for them: whether audio passes both ways, and with what delay. */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { performance } from 'node:perf_hooks';
import { type RawData, type WebSocket, WebSocketServer } from 'ws';
import { findMarker, markers, sampleRateHz } from '../phone/marker.js';

export interface EchoHeard {
  /** Round trip of the audio, agent to phone and back; null: no chirp came back. */
  roundTripMs: number | null;
  /** Duration of all audio from the phone. */
  heardMs: number;
}

const betweenMs = 1000;
const longestEchoMs = 900;
const mostSamples = 60 * sampleRateHz;

/** Speaks the `raw` protocol in linear PCM of 8 kHz. One call at a time. */
export class EchoProbe {
  private readonly samples = new Int16Array(mostSamples);
  private heard = 0;
  private firstAtMs = 0;
  private readonly said: number[] = [];
  private timer: NodeJS.Timeout | null = null;

  private constructor(private readonly server: WebSocketServer) {
    server.on('connection', (socket) => {
      socket.on('error', () => {}); // its close follows
      socket.on('message', (data, isBinary) => (isBinary ? this.hear(data) : this.begin(socket)));
      socket.on('close', () => this.stop());
    });
  }

  static async open(): Promise<EchoProbe> {
    const server = new WebSocketServer({ host: '127.0.0.1', port: 0, maxPayload: 65_536 });
    await once(server, 'listening');
    return new EchoProbe(server);
  }

  get url(): string {
    return `ws://127.0.0.1:${(this.server.address() as AddressInfo).port}/`;
  }

  /** The result so far. */
  result(): EchoHeard {
    const at = (ms: number) => Math.max(0, Math.round(((ms - this.firstAtMs) * sampleRateHz) / 1000));
    const trips = this.said.flatMap((saidMs, i) => {
      const marker = markers[i % 2] as Int16Array;
      const to = Math.min(this.heard, at(saidMs + longestEchoMs));
      const found = findMarker(marker, this.samples.subarray(0, this.heard), at(saidMs), to);
      return found === null ? [] : [this.firstAtMs + (found.at * 1000) / sampleRateHz - saidMs];
    });
    trips.sort((a, b) => a - b);
    const median = trips[Math.floor(trips.length / 2)];
    return {
      roundTripMs: median === undefined ? null : Math.round(median),
      heardMs: Math.round((this.heard * 1000) / sampleRateHz),
    };
  }

  async close(): Promise<void> {
    this.stop();
    for (const socket of this.server.clients) socket.terminate();
    await new Promise<void>((resolve) => this.server.close(() => resolve()));
  }

  private begin(socket: WebSocket): void {
    this.timer ??= setInterval(() => {
      const marker = markers[this.said.length % 2] as Int16Array;
      this.said.push(performance.now());
      socket.send(Buffer.from(marker.buffer, marker.byteOffset, marker.byteLength));
    }, betweenMs);
  }

  private hear(data: RawData): void {
    const bytes = data as Buffer;
    if (this.heard === 0) this.firstAtMs = performance.now();
    for (let at = 0; at + 1 < bytes.length && this.heard < mostSamples; at += 2)
      this.samples[this.heard++] = bytes.readInt16LE(at);
  }

  private stop(): void {
    if (this.timer !== null) clearInterval(this.timer);
    this.timer = null;
  }
}
