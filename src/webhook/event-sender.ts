import { setMaxListeners } from 'node:events';
import { HttpError, type SafeHttp } from '../../net/http.js';
import type { Logger } from '../log.js';
import type { Clock } from '../store/database/clock.js';
import { StoreError } from '../store/database/errors.js';
import type { Endpoints } from '../store/routing/endpoints.js';
import type { AttemptResult, ClaimedDelivery, WebhookDeliveries } from '../store/routing/webhook-deliveries.js';
import { standardHeaders, twilioSignature, withBodyDigest } from './signature.js';

export interface EventSenderOptions {
  deliveries: WebhookDeliveries;
  endpoints: Endpoints;
  http: SafeHttp;
  clock: Clock;
  log: Logger;
  /** Called when a delivery has failed for good, to record it in its call. */
  onDead(delivery: ClaimedDelivery, result: AttemptResult): void;
}

const lookEveryMs = 1000;
const timeoutMs = 10_000;
/** Longer than any attempt: an older claim belongs to a dead process. */
const leaseMs = 12_000;
const maxAttempts = 6;
const firstRetryMs = 5000;
const maxRetryAfterMs = 3_600_000;
const perEndpoint = 8;
const inAll = 64;
const maxBodyBytes = 262_144;
/** Between tries to record an attempt while the database cannot be written; doubled up to the longest. */
const firstRecordPauseMs = 100;
const longestRecordPauseMs = 1000;

/**
 * Sends the deliveries of the outbox. Each endpoint has its own slots, so that a slow receiver does not delay others, and the events of a call
 * are sent in order. Delivery is at least once: requests in flight of a dying process are sent again with the same id. A delivery keeps its slot
 * until its attempt is recorded, so that this process never sends it again because the database was busy.
 */
export class EventSender {
  /** What is being sent or recorded, by endpoint and delivery. */
  private readonly running = new Map<string, Map<string, Promise<void>>>();
  private readonly stopping = new AbortController();
  private cancelTimer: (() => void) | null = null;
  private woken = false;
  private isWanted = false;
  private looking: Promise<void> | null = null;

  constructor(private readonly options: EventSenderOptions) {
    setMaxListeners(0, this.stopping.signal); // one for each request
  }

  start(): void {
    void this.look();
  }

  /** Checks for due deliveries. */
  wake(): void {
    if (this.woken || this.stopping.signal.aborted) return;
    this.woken = true;
    setImmediate(() => {
      this.woken = false;
      void this.look();
    });
  }

  /** Sends what is due for at most this long, then aborts the requests in flight: those are due again when their lease ends. */
  async stop(graceMs = 0): Promise<void> {
    const limit = setTimeout(() => this.stopping.abort(), graceMs);
    if (graceMs === 0) this.stopping.abort();
    await this.look();
    while (this.running.size > 0) {
      await Promise.all([...this.running.values()].flatMap((sending) => [...sending.values()]));
      await this.look(); // the next one of each call
    }
    clearTimeout(limit);
    this.stopping.abort();
    this.cancelTimer?.();
  }

  /** One check at a time, because it counts the free slots and then waits for the deliveries that fill them. A request during a check causes another one. */
  private look(): Promise<void> {
    this.isWanted = true;
    this.looking ??= this.lookAll().finally(() => {
      this.looking = null;
    });
    return this.looking;
  }

  private async lookAll(): Promise<void> {
    while (this.isWanted && !this.stopping.signal.aborted) {
      this.isWanted = false;
      this.cancelTimer?.();
      this.cancelTimer = this.options.clock.after(lookEveryMs, () => void this.look());
      try {
        for (const endpointId of await this.options.deliveries.endpointsDue()) await this.fill(endpointId);
      } catch (error) {
        if (!(error instanceof StoreError))
          // the database is locked: the next check tries again
          this.options.log.error({ err: error }, 'the deliveries to webhooks could not be read');
      }
    }
  }

  private async fill(endpointId: string): Promise<void> {
    const sending = this.running.get(endpointId) ?? new Map<string, Promise<void>>();
    const total = [...this.running.values()].reduce((sum, of) => sum + of.size, 0);
    const free = Math.min(perEndpoint - sending.size, inAll - total);
    if (free <= 0) return;
    for (const delivery of await this.options.deliveries.claim(endpointId, free, leaseMs)) {
      if (sending.has(delivery.id)) continue; // its lease has ended while it is still being sent or recorded
      const sent = this.send(delivery).then((ended) => {
        sending.delete(delivery.id);
        if (sending.size === 0) this.running.delete(endpointId);
        if (ended) this.wake();
      });
      sending.set(delivery.id, sent);
      this.running.set(endpointId, sending); // during the claim the last one before it may have ended, and removed this
    }
  }

  /** Resolves when the attempt is recorded; false: it was not, because the sender stops, and is repeated after the lease. */
  private async send(delivery: ClaimedDelivery): Promise<boolean> {
    try {
      const attempt = await this.attempt(delivery);
      if (attempt === null) return false;
      await this.settle(delivery, attempt);
      return true;
    } catch (error) {
      if (!(error instanceof StoreError))
        this.options.log.error({ err: error, delivery_id: delivery.id }, 'a webhook delivery failed unexpectedly');
      return false;
    }
  }

  /** null if aborted by `stop`. */
  private async attempt(delivery: ClaimedDelivery): Promise<Attempt | null> {
    const endpoint = this.options.endpoints.getForCall(delivery.endpointId);
    const url = endpoint?.providerConfig.events_url;
    if (endpoint === undefined || typeof url !== 'string')
      return { durationMs: 0, httpStatus: null, error: 'The endpoint has no events_url.', retry: false };
    const body = eventBody(delivery);
    const twilioSecret = endpoint.providerConfig.format === 'twiml' ? endpoint.webhookSecret : null;
    const to = twilioSecret === null ? url : withBodyDigest(url, body);
    const startedMs = performance.now();
    const result = (httpStatus: number | null, error: string | null): AttemptResult => ({
      durationMs: Math.round(performance.now() - startedMs),
      httpStatus,
      error,
    });
    try {
      const { status, headers } = await this.options.http.request(
        {
          url: to,
          method: 'POST',
          headers: {
            'content-type': 'application/json',
            ...standardHeaders(endpoint.signingSecrets, delivery.id, this.options.clock.now(), body),
            ...(twilioSecret !== null && { 'x-twilio-signature': twilioSignature(twilioSecret, to) }),
          },
          body,
          timeoutMs,
          maxBodyBytes,
          trace: { callId: delivery.callId, name: 'webhook event' },
        },
        this.stopping.signal,
      );
      const accepted = status >= 200 && status < 300;
      return {
        ...result(status, accepted ? null : `The receiver answered ${status}.`),
        retry: status === 408 || status === 425 || status === 429 || status >= 500,
        retryAfterMs: retryAfterMs(headers['retry-after'], this.options.clock.now()),
      };
    } catch (error) {
      if (!(error instanceof HttpError)) throw error;
      if (error.code === 'aborted') return null;
      const retry = error.code === 'connect' || error.code === 'broken' || error.code === 'timeout';
      return { ...result(null, error.message), retry };
    }
  }

  private async settle(delivery: ClaimedDelivery, attempt: Attempt): Promise<void> {
    const { deliveries, endpoints, onDead } = this.options;
    const { durationMs, httpStatus, error } = attempt;
    const result = { durationMs, httpStatus, error };
    const record = (next: Parameters<WebhookDeliveries['record']>[2]) =>
      this.written(() => deliveries.record(delivery, result, next));
    if (error === null) {
      await record('delivered');
      return;
    }
    const made = delivery.attempts + 1;
    if (attempt.retry && made < maxAttempts) {
      // Doubling twice each time, with a fifth of jitter: 5 s, 20 s, 80 s, 5 min, 21 min.
      const backoffMs = firstRetryMs * 4 ** (made - 1) * (0.8 + 0.4 * Math.random());
      await record({ retryInMs: Math.round(Math.max(backoffMs, attempt.retryAfterMs ?? 0)) });
      return;
    }
    await record('failed');
    onDead(delivery, result);
    if (httpStatus !== 410) return;
    await this.written(() => endpoints.disableEvents(delivery.endpointId));
    await this.written(() => deliveries.failPending(delivery.endpointId));
    this.options.log.warn({ endpoint_id: delivery.endpointId }, 'a receiver of events is gone: its events are stopped');
  }

  /** Repeats `write` while the database cannot be written. Rejects with `StoreError` when the sender stops meanwhile. */
  private async written(write: () => Promise<unknown>): Promise<void> {
    for (let pauseMs = firstRecordPauseMs; ; pauseMs = Math.min(2 * pauseMs, longestRecordPauseMs)) {
      try {
        await write();
        return;
      } catch (error) {
        if (!(error instanceof StoreError) || this.stopping.signal.aborted) throw error;
        await this.pause(pauseMs);
      }
    }
  }

  private pause(ms: number): Promise<void> {
    const { signal } = this.stopping;
    return new Promise((resolve) => {
      const over = (): void => {
        cancel();
        signal.removeEventListener('abort', over);
        resolve();
      };
      const cancel = this.options.clock.after(ms, over);
      signal.addEventListener('abort', over);
    });
  }
}

interface Attempt extends AttemptResult {
  retry: boolean;
  retryAfterMs?: number;
}

function eventBody(delivery: ClaimedDelivery): string {
  return JSON.stringify({
    id: delivery.id,
    type: delivery.eventType,
    created_at: delivery.createdAt.toISOString(),
    organization_id: delivery.organizationId,
    call_id: delivery.callId,
    sequence: delivery.sequence,
    data: JSON.parse(delivery.eventData) as unknown,
  });
}

/** `Retry-After` is seconds or a date (RFC 9110 section 10.2.3); an hour at most. */
function retryAfterMs(value: string | undefined, nowMs: number): number {
  if (value === undefined) return 0;
  const ms = /^\d+$/.test(value.trim()) ? Number(value) * 1000 : Date.parse(value) - nowMs;
  return Number.isFinite(ms) ? Math.min(Math.max(0, ms), maxRetryAfterMs) : 0;
}
