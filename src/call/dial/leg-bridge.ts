/** Two parties that hear each other: their audio, their keys, and the holds of either side. */
import type { Bridge, BridgeEnd, MediaDirection } from '../../../media/engine.js';
import type { CallLeg } from '../../../sip/leg.js';
import type { Application, Hold, Key } from '../party/application.js';
import type { CallParty } from '../party/party.js';

export interface LegBridgeOptions {
  /** The second party is the agent of the call: turns are reported. */
  turns?: boolean;
  /** A key of the first party, which is also sent to the second one. */
  onKey?(key: Key): void;
  /** A REFER of the second party. */
  onRefer?: Parameters<CallLeg['onRefer']>[0];
  /** The application of the first party that bridges it; default: the bridge itself. */
  owner?: Application;
  /** The second party has a script, which lends it for its part of the bridge; default: the bridge is the party's only application. */
  lendSecond?(part: Application): void;
}

/**
 * Bridges the first party with a second one that is answered. It is the application of the second party, and of the first one unless
 * another application owns it.
 */
export class LegBridge implements Application {
  readonly kind = 'bridge';
  /** Resolves when the media are not bridged any more. */
  readonly ended: Promise<BridgeEnd['by']>;
  #resolveEnded!: (by: BridgeEnd['by']) => void;
  #bridge: Bridge | null = null;
  #isDetached = false;
  readonly #first: BridgedSide;
  readonly #second: BridgedSide;
  readonly #ofSecond: Application;

  constructor(
    private readonly first: CallParty,
    private readonly second: CallParty,
    private readonly options: LegBridgeOptions,
  ) {
    this.ended = new Promise((resolve) => {
      this.#resolveEnded = resolve;
    });
    this.#first = new BridgedSide(first);
    this.#second = new BridgedSide(second);
    this.#ofSecond = {
      kind: 'bridge',
      attach: () => {},
      detach: async () => {},
      onKey: (key) => this.#first.press(key),
      onHold: (hold) => this.#first.hold(hold),
      ...(options.onRefer === undefined ? {} : { onRefer: options.onRefer }),
    };
  }

  /** Bridges the media, and passes on a hold that began before. */
  attach(): void {
    const { first, second, options } = this;
    if (this.#isDetached) return;
    if (this.#bridge === null) {
      const terms = { relay: 'packets', dtmf: 'pass', turns: options.turns ?? false } as const;
      this.#bridge = first.control.bridge(options.owner ?? this, second.session, terms);
      if (this.#bridge === null) {
        this.#resolveEnded('replaced');
        return;
      }
      const unlink = first.call.redaction.link(second.call.redaction);
      void this.#bridge.ended.then(({ by }) => {
        unlink();
        this.#resolveEnded(by);
      });
      if (options.lendSecond !== undefined) options.lendSecond(this.#ofSecond);
      else second.control.connect(this.#ofSecond).catch(() => {}); // its call has just ended, and the bridge with it
    }
    if (first.held !== null) this.#second.hold(first.held);
    if (second.held !== null) this.#first.hold(second.held);
  }

  /** Both legs live on, and are not left on hold. */
  async detach(): Promise<void> {
    if (this.#bridge !== null && !this.#isDetached) {
      if (this.options.lendSecond === undefined) void this.second.control.release('finished');
      else this.#second.hold(null);
      this.#first.hold(null);
    }
    this.#isDetached = true;
    await this.#bridge?.stop();
    this.#resolveEnded('stopped');
  }

  onKey(key: Key): void {
    this.options.onKey?.(key);
    this.#second.press(key);
  }

  onHold(hold: Hold | null): void {
    this.#second.hold(hold);
  }
}

/** One phone of a bridge, as the receiver of what the other phone does. */
class BridgedSide {
  #wanted: MediaDirection = 'sendrecv';
  #applied: MediaDirection = 'sendrecv';
  #isDirecting = false;
  #keys: Promise<unknown> = Promise.resolve();

  constructor(private readonly party: CallParty) {}

  /** Sends a key, unless the media bridge did: as RTP event, else INFO, else tones, whichever the phone takes. One key after the other. */
  press({ digit, passedOn }: Key): void {
    if (!passedOn) this.#keys = this.#keys.then(() => this.#press(digit)).catch(() => {}); // a phone that takes none of them
  }

  async #press(digit: string): Promise<void> {
    const { session, leg, call } = this.party;
    try {
      await session.sendDtmf(digit);
    } catch {
      const info = { contentType: 'application/dtmf-relay', body: `Signal=${digit}\r\nDuration=160\r\n` };
      const status = (await leg?.sendInfo(info, call.signal).catch(() => null)) ?? 500;
      if (status >= 300) await session.sendDtmf(digit, 'tone');
    }
  }

  /** Holds this phone, or takes it back (null), by re-INVITE. Only the last wish counts. A phone without a leg is held after its answer. */
  hold(hold: Hold | null): void {
    this.#wanted = hold === null ? 'sendrecv' : hold.sends ? 'sendonly' : 'inactive';
    if (!this.#isDirecting) void this.#direct();
  }

  async #direct(): Promise<void> {
    const { party } = this;
    this.#isDirecting = true;
    while (this.#applied !== this.#wanted && party.call.ending === null && party.leg !== null) {
      const direction = this.#wanted;
      try {
        const result = await party.leg.reoffer(() => party.session.offer(direction), party.call.signal);
        if ('ok' in result) await party.session.accept(result.ok, { provisional: false });
      } catch {
        // The leg has ended.
      }
      this.#applied = direction; // if refused as well: the phone hears silence, or speaks into it
    }
    this.#isDirecting = false;
  }
}
