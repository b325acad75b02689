/** A caller with a voice: signalling written by hand (`far-ends.ts`) and the RTP of a phone that talks until told otherwise. */
import type { FarCall, FarEnds, FarHabits } from './far-ends.js';
import { RtpPhone, type SdpChange } from './rtp-phone.js';

/** What the phone says in packet `index`: 20 ms of one byte that tells packets apart, unless the test says something else. */
const numbered = (index: number): Uint8Array => new Uint8Array(160).fill(1 + (index % 100));

interface CallerWish extends Omit<FarHabits, 'sdp'> {
  sdp?: SdpChange;
  /** Says nothing until `talk`. */
  silent?: boolean;
  address?: string;
}

export class TalkingCaller {
  private voice: NodeJS.Timeout | undefined;
  private said = 0;
  private closed = false;

  private constructor(
    readonly far: FarCall,
    readonly phone: RtpPhone,
  ) {}

  /** Resolves when the call was answered. */
  static async call(ends: FarEnds, number: string, wish: CallerWish = {}): Promise<TalkingCaller> {
    const { sdp, silent = false, address, ...habits } = wish;
    const phone = await RtpPhone.open(address);
    const far = ends.call(number, { ...habits, sdp: phone.sdp(sdp) });
    const caller = new TalkingCaller(far, phone);
    try {
      const status = await far.final();
      if (status !== 200) throw new Error(`The caller of ${number} was answered ${status}`);
      const answer = far.received.find((message) => message.startLine.startsWith('SIP/2.0 200'));
      phone.dial(answer?.body.toString() ?? '');
      if (!silent) caller.talk();
      return caller;
    } catch (error) {
      caller.close();
      throw error;
    }
  }

  /** A packet every 20 ms from now on. */
  talk(frame: (index: number) => Uint8Array = numbered): void {
    this.hush();
    const startMs = performance.now();
    const before = this.said;
    this.voice = setInterval(() => {
      while (performance.now() - startMs >= (this.said - before) * 20) this.phone.send(frame(this.said++));
    }, 5);
  }

  /** The same on a network that delivers `together` packets at once. */
  burst(together: number, frame: (index: number) => Uint8Array): void {
    this.hush();
    const startMs = performance.now();
    const before = this.said;
    this.voice = setInterval(() => {
      while (performance.now() - startMs >= (this.said - before) * 20)
        for (let i = 0; i < together; i++) this.phone.send(frame(this.said++));
    }, 5);
  }

  hush(): void {
    clearInterval(this.voice);
  }

  /** How many packets it heard that are not silence. */
  get loud(): number {
    return this.phone.heard.filter(({ payload }) => payload.some((byte) => byte !== 0xff)).length;
  }

  /** Hangs up, unless the other side was faster, and closes its sockets. */
  async bye(): Promise<void> {
    this.hush();
    if (this.far.endedAtMs === null) await this.far.bye();
    this.close();
  }

  /** Sends no BYE: the callee must detect the loss. */
  close(): void {
    this.hush();
    if (!this.closed) this.phone.close();
    this.closed = true;
  }
}
