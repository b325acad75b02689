/** Two legs of one call that hear each other: their audio, their keys, and the holds of either side. */
import type { Bridge, BridgeEnd, MediaDirection, MediaEvent, MediaSession } from '../../../media/engine.js';
import type { CallLeg } from '../../../sip/leg.js';
import { answerReoffers, keyOfInfo } from '../core/leg-requests.js';
import type { CallParty } from '../core/party.js';
import { observe } from '../core/party-events.js';
import type { SecondLeg } from './dial-sip.js';

export interface JoinOptions {
  /** The second leg is the agent of the call: turns are told of. */
  turns?: boolean;
  /** A key of the second leg that came as INFO, for its record; it is passed on. */
  onInfoKey(digit: string): void;
  /** Gives up what is asked of either side; the call's or shorter. */
  signal: AbortSignal;
}

/**
 * Joins the phone of `line` and a second leg until `stop`, or until something else takes the place of the bridge. Whoever listens to the
 * first leg answers its re-offers, and tells `pressed` of keys that come as INFO.
 */
export class JoinedLegs {
  readonly ended: Promise<BridgeEnd>;
  readonly #bridge: Bridge;
  readonly #first: JoinedSide;
  readonly #second: JoinedSide;
  readonly #unsubscribe: (() => void)[];

  constructor(line: Pick<CallParty, 'call' | 'leg' | 'session'>, second: SecondLeg, options: JoinOptions) {
    const { signal, onInfoKey, turns = false } = options;
    const { call } = line;
    this.#bridge = line.session.bridge(second.session, { relay: 'packets', dtmf: 'pass', turns });
    this.ended = this.#bridge.ended;
    this.#first = new JoinedSide(() => line.leg, line.session, signal);
    this.#second = new JoinedSide(() => second.leg, second.session, signal);
    answerReoffers(second.leg, second.session);
    second.leg.onInfo(
      call.guarded((info) => {
        const digit = keyOfInfo(info);
        if (digit === null) return;
        onInfoKey(digit);
        this.#first.press(digit);
      }),
    );
    this.#unsubscribe = [
      observe(line.session, call, (event) => passOn(event, this.#second)),
      observe(second.session, call, (event) => passOn(event, this.#first)),
    ];
  }

  /** A key of the first leg that came as INFO. */
  pressed(digit: string): void {
    this.#second.press(digit);
  }

  /** Idempotent. Both legs live on. */
  stop(): Promise<BridgeEnd> {
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
    return this.#bridge.stop();
  }
}

/** What one side does is asked of the other one. */
function passOn(event: MediaEvent, other: JoinedSide): void {
  if (event.type === 'dtmf' && !event.passedOn) other.press(event.digit);
  else if (event.type === 'held') other.direct(event.sends ? 'sendonly' : 'inactive');
  else if (event.type === 'resumed') other.direct('sendrecv');
}

class JoinedSide {
  #wanted: MediaDirection = 'sendrecv';
  #applied: MediaDirection = 'sendrecv';
  #directing = false;
  #keys: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly leg: () => CallLeg | null,
    private readonly session: MediaSession,
    private readonly signal: AbortSignal,
  ) {}

  /** Events of RTP, else INFO, else tones: the first that this side takes. One key after the other. */
  press(digit: string): void {
    this.#keys = this.#keys.then(() => this.#press(digit)).catch(() => {}); // a side that takes none hears none
  }

  async #press(digit: string): Promise<void> {
    try {
      await this.session.sendDtmf(digit);
    } catch {
      const info = { contentType: 'application/dtmf-relay', body: `Signal=${digit}\r\nDuration=160\r\n` };
      const status =
        (await this.leg()
          ?.sendInfo(info, this.signal)
          .catch(() => null)) ?? 500;
      if (status >= 300) await this.session.sendDtmf(digit, 'tone');
    }
  }

  /** Holds this side, or takes it back, by re-INVITE. Only the last wish counts. */
  direct(direction: MediaDirection): void {
    this.#wanted = direction;
    if (!this.#directing) void this.#direct();
  }

  async #direct(): Promise<void> {
    this.#directing = true;
    while (this.#applied !== this.#wanted && !this.signal.aborted) {
      const direction = this.#wanted;
      try {
        const result = await this.leg()?.reoffer(() => this.session.offer(direction), this.signal);
        if (result && 'ok' in result) await this.session.accept(result.ok, { provisional: false });
      } catch {
        // It is over, or has not begun: nothing to hold.
      }
      this.#applied = direction; // refused too: it hears silence, or speaks into it
    }
    this.#directing = false;
  }
}
