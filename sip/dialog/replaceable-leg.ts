/** One end of a call, independent of the dialog behind it: an INVITE with `Replaces` (RFC 3891) moves it to another phone's dialog. */
import type { HangupCause } from '../cause.js';
import type { CallLeg, DialogSnapshot, LegEnd, TransferResult } from '../leg.js';
import type { DialogLeg, ReplaceablePlace } from './dialog-leg.js';

export class Seat implements ReplaceablePlace {
  readonly sipCallId: string;
  readonly answeredAtMs: number;
  readonly confirmed: Promise<{ sdp?: string }>;
  readonly ended: Promise<LegEnd>;
  /** An INVITE that replaces this leg has no final answer yet: further ones are refused. */
  isPromised = false;
  #leg: DialogLeg;
  #resolveEnded!: (end: LegEnd) => void;
  #onReoffer: Parameters<CallLeg['onReoffer']>[0] | null = null;
  #onInfo: Parameters<CallLeg['onInfo']>[0] | null = null;
  #onRefer: Parameters<CallLeg['onRefer']>[0] | null = null;

  constructor(leg: DialogLeg) {
    this.#leg = leg;
    this.sipCallId = leg.sipCallId;
    this.answeredAtMs = leg.answeredAtMs;
    this.confirmed = leg.confirmed;
    this.ended = new Promise((resolve) => {
      this.#resolveEnded = resolve;
    });
    this.#watch(leg);
  }

  /** Moves this end of the call to the dialog of `leg`; the former dialog gets BYE. */
  take(leg: DialogLeg): void {
    const before = this.#leg;
    this.#leg = leg;
    this.#watch(leg);
    if (this.#onReoffer) leg.onReoffer(this.#onReoffer);
    if (this.#onInfo) leg.onInfo(this.#onInfo);
    if (this.#onRefer) leg.onRefer(this.#onRefer);
    void before.hangup('transferred');
  }

  get remoteSdp(): string {
    return this.#leg.remoteSdp;
  }

  reoffer(offer: string | (() => Promise<string>), signal: AbortSignal): ReturnType<CallLeg['reoffer']> {
    return this.#leg.reoffer(offer, signal);
  }

  onReoffer(handler: Parameters<CallLeg['onReoffer']>[0]): void {
    this.#onReoffer = handler;
    this.#leg.onReoffer(handler);
  }

  onInfo(handler: Parameters<CallLeg['onInfo']>[0]): void {
    this.#onInfo = handler;
    this.#leg.onInfo(handler);
  }

  onRefer(handler: Parameters<CallLeg['onRefer']>[0]): void {
    this.#onRefer = handler;
    this.#leg.onRefer(handler);
  }

  sendInfo(info: { contentType: string; body: string }, signal: AbortSignal): Promise<number> {
    return this.#leg.sendInfo(info, signal);
  }

  transfer(to: string, signal: AbortSignal): Promise<TransferResult> {
    return this.#leg.transfer(to, signal);
  }

  hangup(cause?: HangupCause): Promise<void> {
    return this.#leg.hangup(cause);
  }

  snapshot(): DialogSnapshot {
    return this.#leg.snapshot();
  }

  #watch(leg: DialogLeg): void {
    leg.seat = this;
    void leg.ended.then((end) => {
      if (this.#leg === leg) this.#resolveEnded(end);
    });
  }
}
