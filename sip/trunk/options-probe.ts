/** Probes one gateway with OPTIONS (RFC 3261 11): any answer but 408 and 503 means that it is up. */
import { randomUUID } from 'node:crypto';
import type { Stack, StackResponse } from '../drachtio/types.js';
import type { GatewayState } from '../leg.js';
import type { NextHop } from '../outbound/next-hop.js';
import { sendRequest } from './out-of-dialog-request.js';

export interface ProbeOptions {
  uri: string;
  /** Time between two OPTIONS. */
  everyMs: number;
  /** The control connection; null while it is down. */
  stack(): Stack | null;
  /** The URI to send OPTIONS to and its next hops; no hops: it has no location now. Default: the gateway's URI. */
  where?: (callId: string) => Promise<{ uri: string; hops: NextHop[] }>;
  /** `detail`: why the gateway is down, as a sentence. */
  onChange(state: GatewayState, detail?: string): void;
}

/** One lost answer does not mean that the gateway is down. */
const failuresUntilDown = 2;
/** A failing gateway is probed more often, so that its return is noticed soon. */
const failingFactor = 0.25;

export class Probe {
  state: GatewayState = 'unknown';
  #failures = 0;
  #timer: NodeJS.Timeout | null = null;
  #isClosed = false;

  constructor(private readonly options: ProbeOptions) {
    this.#plan(0);
  }

  close(): void {
    this.#isClosed = true;
    if (this.#timer) clearTimeout(this.#timer);
  }

  #plan(delayMs: number): void {
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => void this.#sendOptions(), delayMs);
    this.#timer.unref();
  }

  async #sendOptions(): Promise<void> {
    const { uri, everyMs } = this.options;
    const stack = this.options.stack();
    if (stack) {
      const why = await sendOptions(stack, uri, this.options.where);
      if (this.#isClosed) return;
      this.#failures = why === null ? 0 : this.#failures + 1;
      if (why === null) this.#become('up');
      else if (this.#failures >= failuresUntilDown) this.#become('down', why);
    }
    this.#plan(this.#failures > 0 ? everyMs * failingFactor : everyMs);
  }

  #become(state: GatewayState, detail?: string): void {
    if (this.state === state) return;
    this.state = state;
    this.options.onChange(state, detail);
  }
}

/** Sends one OPTIONS. Resolves to null when the peer is up, else to the reason. */
export async function sendOptions(stack: Stack, uri: string, where: ProbeOptions['where']): Promise<string | null> {
  const callId = randomUUID();
  const place: { uri: string; hops?: NextHop[] } = (await where?.(callId)) ?? { uri };
  const headers = { 'Call-ID': callId, To: `<${uri}>`, Accept: 'application/sdp' };
  const { response, why } = await sendRequest(stack, { method: 'OPTIONS', ...place, headers, cseq: 1 });
  if (response !== null && response.status !== 408 && response.status !== 503) return null;
  return place.hops?.length === 0 ? 'No phone is registered there' : (why ?? said(response));
}

function said(response: StackResponse | null): string {
  return response === null ? 'It did not answer' : `It answered ${response.status} ${response.reason}`.trim();
}
