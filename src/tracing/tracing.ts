/**
 * Traces of calls for OpenTelemetry, sent as OTLP over HTTP. The id of a trace is the id of the call without its dashes, and its first span has
 * the last 16 digits as id, so that every part of the process, and every node, knows them from the call alone.
 */
import { randomBytes } from 'node:crypto';
import type { SafeHttp } from '../../net/http.js';
import type { Logger } from '../log.js';
import { type Span, tracesBody } from './otlp-json.js';

export interface TracingOptions {
  /** The base URL of a collector, such as `http://127.0.0.1:4318`; `/v1/traces` is added to it. */
  endpoint: string;
  http: SafeHttp;
  node: string;
  log: Logger;
  /** Default 2,000. */
  sendEveryMs?: number;
}

const mostAtOnce = 500;
/** A collector that is gone for a while loses spans, not calls. */
const mostWaiting = 20_000;
const answerLimitMs = 5_000;
const answerBytes = 64 * 1024;

export const traceIdOf = (callId: string): string => callId.replaceAll('-', '');
export const callSpanIdOf = (callId: string): string => traceIdOf(callId).slice(16);
export const newSpanId = (): string => randomBytes(8).toString('hex');
/** The header of W3C Trace Context, for a request that this span made. */
export const traceparentOf = (callId: string, spanId: string): string => `00-${traceIdOf(callId)}-${spanId}-01`;

/** For what the call itself asks for, its agents' sockets: its first span is the parent. */
export const headersOfCall = (callId: string): Record<string, string> => ({
  traceparent: traceparentOf(callId, callSpanIdOf(callId)),
});

export class Tracing {
  /** Spans that were not sent: the collector did not take them, or too many waited. */
  dropped = 0;
  private waiting: Span[] = [];
  private sending: Promise<void> = Promise.resolve();
  private readonly timer: NodeJS.Timeout;
  private isLost = false;
  private isClosing = false;

  constructor(private readonly options: TracingOptions) {
    this.timer = setInterval(() => void this.flush(), options.sendEveryMs ?? 2_000).unref();
  }

  record(span: Span): void {
    if (this.waiting.length >= mostWaiting) this.dropped += 1;
    else this.waiting.push(span);
  }

  /** Sends what waits, one request after the other. */
  flush(): Promise<void> {
    this.sending = this.sending.then(async () => {
      while (this.waiting.length > 0) {
        await this.send(this.waiting.splice(0, mostAtOnce));
        if (this.isClosing && this.isLost) this.dropped += this.waiting.splice(0).length;
      }
    });
    return this.sending;
  }

  /** Sends the last spans, until the collector does not take some: one that does not answer holds up the end for 5 s, not for each request. */
  async close(): Promise<void> {
    this.isClosing = true;
    clearInterval(this.timer);
    await this.flush();
  }

  private async send(spans: readonly Span[]): Promise<void> {
    const { endpoint, http, node, log } = this.options;
    try {
      const { status } = await http.request({
        url: `${endpoint.replace(/\/$/, '')}/v1/traces`,
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: tracesBody(spans, { 'service.name': 'trunkline', 'service.instance.id': node }),
        timeoutMs: answerLimitMs,
        maxBodyBytes: answerBytes,
      });
      if (status < 200 || status > 299) throw new Error(`The collector answered ${status}.`);
      if (this.isLost) log.info('traces are taken again');
      this.isLost = false;
    } catch (error) {
      this.dropped += spans.length;
      if (!this.isLost)
        log.warn({ reason: (error as Error).message }, 'traces are lost: the collector does not take them');
      this.isLost = true;
    }
  }
}
