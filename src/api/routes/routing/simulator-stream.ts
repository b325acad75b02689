/** A simulated call as it is heard: Server-Sent Events with the audio of both sides, figures, and at last the report. */
import type { ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';

const sendEveryMs = 100;
/** A reader with more unread bytes gets no further audio. */
const maxUnreadBytes = 524_288;

export function acceptsEvents({ headers }: FastifyRequest): boolean {
  return headers.accept?.includes('text/event-stream') ?? false;
}

export class SimulatorStream {
  private readonly raw: ServerResponse;
  private readonly heard: Record<'caller' | 'agent', Buffer[]> = { caller: [], agent: [] };
  private readonly timer: NodeJS.Timeout;

  constructor(reply: FastifyReply) {
    reply.hijack();
    this.raw = reply.raw;
    this.raw.on('error', () => {}); // the reader left: `close` of the reply hangs up
    this.raw.writeHead(200, {
      ...(reply.getHeaders() as Record<string, string>),
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
    });
    this.raw.write(': a call\n\n');
    this.timer = setInterval(() => this.flush(), sendEveryMs);
  }

  audio(side: 'caller' | 'agent', samples: Int16Array): void {
    this.heard[side].push(Buffer.from(Buffer.from(samples.buffer, samples.byteOffset, samples.byteLength)));
  }

  measured({
    received,
    lost,
    jitterMs,
    rttMs,
  }: {
    received: number;
    lost: number;
    jitterMs: number | null;
    rttMs: number | null;
  }) {
    this.send('measure', { received, lost, jitter_ms: jitterMs, rtt_ms: rttMs });
  }

  send(event: 'audio' | 'measure' | 'report' | 'error', data: unknown): void {
    if (this.raw.writableEnded || this.raw.destroyed) return;
    this.raw.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  end(): void {
    clearInterval(this.timer);
    this.flush();
    if (!this.raw.writableEnded) this.raw.end();
  }

  private flush(): void {
    const { caller, agent } = this.heard;
    const data = { caller: Buffer.concat(caller).toString('base64'), agent: Buffer.concat(agent).toString('base64') };
    caller.length = 0;
    agent.length = 0;
    if ((data.caller || data.agent) && this.raw.writableLength < maxUnreadBytes) this.send('audio', data);
  }
}
