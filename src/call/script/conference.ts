import type { Action, ConferenceJoin as ConferenceAction } from '../../webhook/actions.js';
import { conferencedQuestion, waitingQuestion } from '../../webhook/request-bodies.js';
import { Attendance, type LeaveReason } from '../conference/attendance.js';
import type { ConferenceHost } from '../conference/conference-host.js';
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
  const leave = new AbortController();
  const until = AbortSignal.any([signal, leave.signal]);
  const attendance = new Attendance(deps.conferences, { host: hostOf(script), party, action }, until);
  const full = () => {
    script.webhook.warn(`The conference "${action.name}" is full.`);
    return action.next === null
      ? null
      : script.webhook.ask(action.next, conferencedQuestion(attendance.conference, 'failed', 0), signal);
  };
  const entered = await attendance.enter();
  if (entered === 'full') return full();
  if (entered === 'searching')
    script.webhook.warn(`The conference "${action.name}" cannot be reached; the caller hears its music until it can.`);
  const startedMs = performance.now();
  const timer = setTimeout(() => leave.abort(), action.timeLimitSec * 1000);
  if (action.hangupOnStar)
    keypad.oneOf('*', until).then(
      () => leave.abort(),
      () => {},
    );
  let why = 'left' as LeaveReason;
  void attendance.removed.then((reason) => {
    why = reason;
    leave.abort();
  });
  try {
    await party.control.lend(new ConferenceStay(script, attendance), until);
  } finally {
    clearTimeout(timer);
    leave.abort();
    await attendance.leave(why === 'kicked' ? 'kicked' : 'left');
  }
  if (why === 'full') return full();
  const durationSec = Math.round((performance.now() - startedMs) / 1000);
  const result = conferencedQuestion(attendance.conference, 'answered', durationSec);
  if (party.call.ending !== null) script.webhook.tell(action.next, result);
  signal.throwIfAborted();
  return action.next === null ? null : script.webhook.ask(action.next, result, signal);
}

function hostOf({ party, deps, webhook }: ScriptContext): ConferenceHost {
  const send: ConferenceHost['send'] = (conferenceId, to, fields) =>
    deps.callbacks.send(conferenceId, webhook.client.signedForm(to, fields));
  const scope = { organizationId: party.facts.organizationId, mode: party.mode };
  return { call: party.call, scope, takes: deps.takes, send };
}

/** In the room, or with its music until the conference starts and while the participant is held. */
class ConferenceStay implements Application {
  readonly kind = 'conference';
  readonly #over = new AbortController();
  #stays: Promise<void> = Promise.resolve();

  constructor(
    private readonly script: ScriptContext,
    private readonly attendance: Attendance,
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
    const { script, attendance } = this;
    const waiting: Waiting = { place: 'conference', question: () => waitingQuestion(attendance.conference) };
    while (!this.#over.signal.aborted) {
      const change = attendance.nextChange();
      const { music } = attendance;
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
    const { attendance } = this;
    const audio = attendance.join(this);
    if (audio === null) {
      attendance.remove('left');
      return moved;
    }
    let isLeaving = false;
    try {
      // Anything else that takes the party's media ends its stay.
      const replaced = audio.ended.then(() => {
        if (!isLeaving) attendance.remove('left');
      });
      await Promise.race([moved, replaced]);
    } finally {
      isLeaving = true;
      await audio.leave();
    }
  }
}
