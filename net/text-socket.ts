import { WebSocket } from 'ws';
import { DeadlineError, withDeadline } from './deadline.js';
import { BlockedAddressError, refuseInternalLiteral, safeLookup } from './safe-lookup.js';

export interface TextSocketOptions {
  headers: { [name: string]: string };
  allowPrivateAddress: boolean;
  /** Until the server has accepted the upgrade. */
  openLimitMs: number;
  /** A longer message closes the connection. */
  maxMessageBytes: number;
  onText(text: string): void;
}

/** How a connection ended; `failure` is a sentence, null after a regular close of either side. */
export interface TextSocketEnd {
  code: number;
  failure: string | null;
}

/** The server must answer a ping within this time. */
const pingMs = 20_000;
/** A server that does not read gets no more than this. */
const maxUnsentBytes = 1_048_576;
const closeLimitMs = 2000;

/** A WebSocket of text messages, as a client. Nothing in our network is reached unless that is allowed. */
export class TextSocket {
  /** Resolves once. */
  readonly ended: Promise<TextSocketEnd>;
  #failure: string | null = null;
  #isClosing = false;

  private constructor(
    private readonly ws: WebSocket,
    onText: (text: string) => void,
  ) {
    let isAnswered = true;
    const beat = setInterval(() => {
      if (isAnswered) ws.ping();
      else this.#fail(`The server did not answer a ping within ${pingMs / 1000} s.`);
      isAnswered = false;
    }, pingMs);
    ws.on('pong', () => {
      isAnswered = true;
    });
    ws.on('message', (data, isBinary) => {
      if (!isBinary && !this.#isClosing) onText(data.toString());
    });
    ws.on('error', (error) => {
      this.#failure ??= `The connection failed: ${error.message}`;
    });
    this.ended = new Promise((resolve) => {
      ws.on('close', (code) => {
        clearInterval(beat);
        const isRegular = this.#isClosing || code === 1000 || code === 1001 || code === 1005;
        const failure = isRegular ? null : `The server closed the connection with ${code}.`;
        resolve({ code, failure: this.#failure ?? failure });
      });
    });
  }

  /** Rejects with a sentence, or with the reason of `signal`. */
  static async open(url: string, options: TextSocketOptions, signal: AbortSignal): Promise<TextSocket> {
    const { headers, allowPrivateAddress, openLimitMs, maxMessageBytes, onText } = options;
    if (!allowPrivateAddress) refuseInternalLiteral(new URL(url));
    const ws = new WebSocket(url, {
      headers: { 'User-Agent': 'Trunkline', ...headers },
      ...(!allowPrivateAddress && { lookup: safeLookup }),
      perMessageDeflate: false,
      followRedirects: false,
      maxPayload: maxMessageBytes,
    });
    ws.on('error', () => {}); // also after we gave up
    // Before the promise: messages may come with the upgrade.
    const socket = new TextSocket(ws, onText);
    try {
      await withDeadline(openLimitMs, 'the connection to the server', signal, async () => {
        await new Promise<void>((resolve, reject) => {
          ws.once('open', resolve);
          ws.once('error', reject);
        });
      });
      return socket;
    } catch (error) {
      ws.terminate();
      signal.throwIfAborted();
      if (error instanceof DeadlineError || error instanceof BlockedAddressError) throw error;
      throw new Error(`The connection failed: ${(error as Error).message}`);
    }
  }

  send(text: string): void {
    if (this.#isClosing) return;
    if (this.ws.bufferedAmount > maxUnsentBytes) this.#fail('The server does not read what it is sent.');
    else this.ws.send(text, () => {}); // an error ends the connection
  }

  /** Resolves when the connection is gone. Idempotent. */
  async close(): Promise<void> {
    if (!this.#isClosing) {
      this.#isClosing = true;
      this.ws.close(1000);
      const limit = setTimeout(() => this.ws.terminate(), closeLimitMs);
      void this.ended.then(() => clearTimeout(limit));
    }
    await this.ended;
  }

  #fail(reason: string): void {
    this.#failure ??= reason;
    this.ws.terminate();
  }
}
