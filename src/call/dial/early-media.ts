import type { MediaSession } from '../../../media/engine.js';

/** Early answers that differ are taken up to here: nobody makes us work by ringing. */
const mostEarlyAnswers = 20;

/** What is heard of somebody who has not answered: a tone, or a voice that says why not. */
export class EarlyMedia {
  #last = '';
  #answers = 0;
  #told = false;

  /** `onEarlyMedia`: he can be heard from now on; told once. */
  constructor(
    readonly session: MediaSession,
    private readonly onEarlyMedia: (session: MediaSession) => void,
  ) {}

  /** A provisional response brought this answer. One that does not fit is no reason to give up: the final one decides. */
  answered(sdp: string): void {
    if (sdp === this.#last || this.#answers >= mostEarlyAnswers) return;
    this.#last = sdp;
    this.#answers += 1;
    this.session.accept(sdp, { provisional: true }).then(
      () => {
        if (this.#told) return;
        this.#told = true;
        this.onEarlyMedia(this.session);
      },
      () => {},
    );
  }

  close(): Promise<unknown> {
    this.#told = true;
    return this.session.close();
  }
}
