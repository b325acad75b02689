import type { Action, ConferenceJoin as ConferenceAction } from '../../webhook/actions.js';
import { conferencedQuestion } from '../../webhook/request-bodies.js';
import type { Conference } from '../conference/conference.js';
import type { ConferenceHost } from '../conference/conference-host.js';
import type { Participant } from '../conference/participant.js';
import type { Stage } from './context.js';
import { holdMusic } from './hold-music.js';

/** A caller's time in a conference: music until it starts, the others, music on hold, until it leaves or has to. */
export async function confer(stage: Stage, action: ConferenceAction, signal: AbortSignal): Promise<Action[] | null> {
  const { line, rules, keypad } = stage;
  await stage.answer();
  signal.throwIfAborted();
  const { conference, participant } = rules.conferences.enter(hostOf(stage), action);
  if (participant === null) {
    stage.warn(`The conference "${action.name}" is full.`);
    return action.next === null ? null : stage.ask(action.next, conferencedQuestion(conference, 'failed', 0), signal);
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
    while (!until.aborted) await stay(stage, conference, participant, until);
  } finally {
    clearTimeout(timer);
    leave.abort();
    conference.leave(participant, kicked ? 'kicked' : 'left');
  }
  const durationSec = Math.round((performance.now() - startedMs) / 1000);
  const result = conferencedQuestion(conference, 'answered', durationSec);
  if (line.call.ending !== null) stage.tell(action.next, result);
  signal.throwIfAborted();
  return action.next === null ? null : stage.ask(action.next, result, signal);
}

function hostOf(stage: Stage): ConferenceHost {
  const { line, rules } = stage;
  const send: ConferenceHost['send'] = (conferenceId, to, fields) =>
    rules.notices.send(conferenceId, stage.asked.signedForm(to, fields));
  return { line, takes: rules.takes, send };
}

/** In the room, or with its music, until something changes. Resolves when the caller is free. */
async function stay(stage: Stage, conference: Conference, participant: Participant, until: AbortSignal): Promise<void> {
  const change = participant.nextChange();
  const { music } = participant;
  const over = new AbortController();
  const here = AbortSignal.any([until, over.signal]);
  const left = new Promise<void>((resolve) => here.addEventListener('abort', () => resolve(), { once: true }));
  if (until.aborted) return;
  if (music !== null) {
    const played = holdMusic(stage, conference, music, here);
    await Promise.race([change, left]);
    over.abort();
    return played;
  }
  const seat = conference.room.join(stage.line.session, { muted: participant.muted });
  if (seat === null) return participant.remove('left');
  participant.sitsOn(seat);
  try {
    // Something else that takes the caller's ear ends its stay.
    const elsewhere = seat.ended.then(() => {
      if (!over.signal.aborted) participant.remove('left');
    });
    await Promise.race([change, left, elsewhere]);
  } finally {
    participant.sitsOn(null);
    over.abort();
    await seat.leave();
  }
}
