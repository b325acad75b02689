/** A phone in a thread of its own (`test/fixtures/lone-phone.mjs`): what it hears is measured while the test's thread is busy. */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

interface Figures {
  packets: number;
  missing: number;
  worstGapMs: number;
  /** Lateness of the phone's own thread: a busy machine delays the listener too. */
  worstLatenessMs: number;
}

export class LonePhone {
  private constructor(
    private readonly worker: Worker,
    private readonly port: number,
  ) {}

  static async open(): Promise<LonePhone> {
    const worker = new Worker(new URL('../fixtures/lone-phone.mjs', import.meta.url));
    const [bound] = (await once(worker, 'message')) as [{ port: number }];
    return new LonePhone(worker, bound.port);
  }

  get sdp(): string {
    const lines = ['v=0', 'o=phone 1 1 IN IP4 127.0.0.1', 's=-', 'c=IN IP4 127.0.0.1', 't=0 0'];
    return [...lines, `m=audio ${this.port} RTP/AVP 0`, 'a=ptime:20', ''].join('\r\n');
  }

  dial(answer: string): void {
    this.worker.postMessage({ kind: 'dial', port: Number(/^m=audio (\d+)/m.exec(answer)?.[1]) });
  }

  /** From now on. */
  begin(): void {
    this.worker.postMessage({ kind: 'begin' });
  }

  async figures(): Promise<Figures> {
    this.worker.postMessage({ kind: 'look' });
    return ((await once(this.worker, 'message')) as [Figures])[0];
  }

  async close(): Promise<void> {
    this.worker.postMessage({ kind: 'close' });
    await once(this.worker, 'exit');
  }
}
