import { setMaxListeners } from 'node:events';
import { HttpError, type HttpRequest, type SafeHttp } from '../../net/http.js';
import type { Logger } from '../log.js';

const waitingAtMost = 200;

/** null: there is nothing to send. */
export type MakeRequest = (signal: AbortSignal) => Promise<HttpRequest | null>;

/**
 * Requests whose responses are ignored: status callbacks, and results of calls that have ended. Requests of one call are sent in order, those
 * of different calls in parallel; each once, and again after a connection failure.
 */
export class CallbackQueue {
  private readonly lines = new Map<string, { last: Promise<void>; waiting: number }>();
  private readonly stopping = new AbortController();

  constructor(
    private readonly http: SafeHttp,
    private readonly log: Logger,
  ) {
    setMaxListeners(0, this.stopping.signal); // one for each call
  }

  /** `request`: one that is ready, or the work that makes it, within its signal. `lineName`: requests of one line keep their order. */
  send(callId: string, request: HttpRequest | MakeRequest, lineName = callId): void {
    const line = this.lines.get(lineName) ?? { last: Promise.resolve(), waiting: 0 };
    if (line.waiting >= waitingAtMost) {
      this.log.warn({ call_id: callId }, 'a status callback was left out: too many wait for a slow receiver');
      return;
    }
    this.lines.set(lineName, line);
    line.waiting += 1;
    line.last = line.last.then(async () => {
      await this.deliver(callId, request);
      line.waiting -= 1;
      if (line.waiting === 0) this.lines.delete(lineName);
    });
  }

  /** Waits up to `graceMs` for requests in progress. */
  async close(graceMs: number): Promise<void> {
    const limit = setTimeout(() => this.stopping.abort(), graceMs);
    await Promise.all([...this.lines.values()].map((line) => line.last));
    clearTimeout(limit);
  }

  private async deliver(callId: string, asked: HttpRequest | MakeRequest): Promise<void> {
    const { signal } = this.stopping;
    try {
      const request = typeof asked === 'function' ? await asked(signal) : asked;
      if (request === null) return;
      const answer = await this.http.request(request, signal).catch((error: unknown) => {
        if (!(error instanceof HttpError) || error.code !== 'connect') throw error;
        return this.http.request(request, signal);
      });
      if (answer.status < 200 || answer.status > 299)
        this.log.warn({ call_id: callId, http_status: answer.status }, 'a status callback was refused');
    } catch (error) {
      this.log.warn({ call_id: callId, err: error }, 'a status callback did not arrive');
    }
  }
}
