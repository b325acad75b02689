import { setMaxListeners } from 'node:events';
import { HttpError, type HttpRequest, type SafeHttp } from '../../net/http.js';
import type { Logger } from '../log.js';

const waitingAtMost = 200;

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

  send(callId: string, request: HttpRequest): void {
    const line = this.lines.get(callId) ?? { last: Promise.resolve(), waiting: 0 };
    if (line.waiting >= waitingAtMost) {
      this.log.warn({ call_id: callId }, 'a status callback was left out: too many wait for a slow receiver');
      return;
    }
    this.lines.set(callId, line);
    line.waiting += 1;
    line.last = line.last.then(async () => {
      await this.deliver(callId, request);
      line.waiting -= 1;
      if (line.waiting === 0) this.lines.delete(callId);
    });
  }

  /** Waits up to `graceMs` for requests in progress. */
  async close(graceMs: number): Promise<void> {
    const limit = setTimeout(() => this.stopping.abort(), graceMs);
    await Promise.all([...this.lines.values()].map((line) => line.last));
    clearTimeout(limit);
  }

  private async deliver(callId: string, request: HttpRequest): Promise<void> {
    const { signal } = this.stopping;
    try {
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
