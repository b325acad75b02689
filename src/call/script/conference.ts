import type { Action, ConferenceJoin as ConferenceAction } from '../../webhook/actions.js';
import { conferencedQuestion, waitingQuestion } from '../../webhook/request-bodies.js';
import type { Conference } from '../conference/conference.js';
import type { ConferenceHost } from '../conference/conference-host.js';
import type { Participant } from '../conference/participant.js';
import type { Application, Key } from '../party/application.js';
import type { ScriptContext } from './context.js';
import { holdMusic, type Waiting } from './hold-music.js';

/** The caller is in a conference until it leaves, is removed, or the time is up; it hears music until the conference starts and while it is held. */
export async function confer(
  script: ScriptContext,
  action: ConferenceAction,
  signal: AbortSignal,
): Promise<Action[] | null> {
  const { party, deps, keypad } = script;
  await script.answer();
  signal.throwIfAborted();
  const { conference, participant } = deps.conferences.enter(hostOf(script), action);
  if (participant === null) {
    script.webhook.warn(`The conference "${action.name}" is full.`);
    return action.next === null
      ? null
      : script.webhook.ask(action.next, conferencedQuestion(conference, 'failed', 0), signal);
  }
  const startedMs = performance.now();
  const leave = new AbortController();
  const until = AbortSignal.any([signal, leave.signal]);
  const timer = setTimeout(() => leave.abort(), action.timeLimitSec * 1000);
  if (action.hangupOnStar)
    keypad.oneOf('*', until).then(
      () => leave.abort(),
      () => {},
    );
  let kicked = false;
  void participant.removed.then((reason) => {
    kicked = reason === 'kicked';
    leave.abort();
  });
  try {
    await party.control.lend(new ConferenceStay(script, conference, participant), until);
  } finally {
    clearTimeout(timer);
    leave.abort();
    conference.leave(participant, kicked ? 'kicked' : 'left');
  }
  const durationSec = Math.round((performance.now() - startedMs) / 1000);
  const result = conferencedQuestion(conference, 'answered', durationSec);
  if (party.call.ending !== null) script.webhook.tell(action.next, result);
  signal.throwIfAborted();
  return action.next === null ? null : script.webhook.ask(action.next, result, signal);
}

function hostOf({ party, deps, webhook }: ScriptContext): ConferenceHost {
  const send: ConferenceHost['send'] = (conferenceId, to, fields) =>
    deps.callbacks.send(conferenceId, webhook.client.signedForm(to, fields));
  return { party, takes: deps.takes, send };
}

/** In the room, or with its music until the conference starts and while the participant is held. */
class ConferenceStay implements Application {
  readonly kind = 'conference';
  readonly #over = new AbortController();
  #stays: Promise<void> = Promise.resolve();

  constructor(
    private readonly script: ScriptContext,
    private readonly conference: Conference,
    private readonly participant: Participant,
  ) {}

  attach(): void {
    const { call } = this.script.party;
    this.#stays = this.#stay().catch(
      call.guarded((error) => {
        throw error;
      }),
    );
  }

  async detach(): Promise<void> {
    this.#over.abort();
    await this.#stays;
  }

  onKey({ digit }: Key): void {
    this.script.keypad.press(digit);
  }

  onHold(): void {}

  async #stay(): Promise<void> {
    const { script, conference, participant } = this;
    const waiting: Waiting = { place: 'conference', question: () => waitingQuestion(conference) };
    while (!this.#over.signal.aborted) {
      const change = participant.nextChange();
      const { music } = participant;
      const moved = new AbortController();
      const here = AbortSignal.any([this.#over.signal, moved.signal]);
      const left = new Promise<void>((resolve) => here.addEventListener('abort', () => resolve(), { once: true }));
      if (music === null) {
        await this.#sit(Promise.race([change, left]));
        moved.abort();
        continue;
      }
      const played = holdMusic(script, waiting, music, here);
      await Promise.race([change, left]);
      moved.abort();
      await played;
    }
  }

  /** Hears the others, and is heard, until `moved` resolves. */
  async #sit(moved: Promise<void>): Promise<void> {
    const { script, conference, participant } = this;
    const seat = script.party.control.join(this, conference.room, { muted: participant.muted });
    if (seat === null) {
      participant.remove('left');
      return moved;
    }
    participant.sitsOn(seat);
    let isLeaving = false;
    try {
      // Anything else that takes the party's media ends its stay.
      const replaced = seat.ended.then(() => {
        if (!isLeaving) participant.remove('left');
      });
      await Promise.race([moved, replaced]);
    } finally {
      participant.sitsOn(null);
      isLeaving = true;
      await seat.leave();
    }
  }
}
