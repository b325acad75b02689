import { type Action, clientAddress, type Dial, type DialTarget, sipAddress } from '../../webhook/actions.js';
import {
  type Dialled,
  dialledQuestion,
  recordingStatusFields,
  referredQuestion,
} from '../../webhook/request-bodies.js';
import type { Call } from '../core/call.js';
import { heardKey } from '../core/party-events.js';
import { DialledCall, statusOf } from '../dial/child-call.js';
import type { SecondLeg } from '../dial/dial-sip.js';
import { JoinedLegs } from '../dial/leg-bridge.js';
import { ringTone } from '../prompts/ringback-tones.js';
import type { Take } from '../recording/recordings.js';
import { dialledNumber } from '../routing/dialled-number.js';
import type { Stage } from './context.js';

/**
 * Calls everybody whom `action` names, all at once or one after the other; the first to answer is joined with the caller until one of them leaves, or the time is
 * up. What is left of other attempts is hung up.
 */
export async function dialOut(stage: Stage, action: Dial, signal: AbortSignal): Promise<Action[] | null> {
  const { line, rules } = stage;
  const { from, targets } = allowed(stage, action);
  if (!action.answerOnBridge) await stage.answer();
  const recording = action.record === null ? null : new DialRecording(stage, action);
  const stop = new AbortController();
  const calls: DialledCall[] = [];
  const place = (target: DialTarget) => {
    const made = new DialledCall(
      stage,
      { ...action, from },
      target,
      rules.dialling,
      AbortSignal.any([signal, stop.signal]),
    );
    calls.push(made);
    return made;
  };
  const dialled: Dialled = {
    status: 'canceled',
    to: (targets.length > 0 ? targets : action.to).map(({ to }) => to),
    callId: null,
    durationSec: 0,
    recording: null,
  };
  let referredTo: string | null = null;
  let answered: Call | null = null;
  try {
    if (action.record === 'ringing' && line.leg !== null) recording?.begin();
    const winner = await firstToAnswer(stage, action, targets, place, signal);
    if (winner === null) dialled.status = targets.length === 0 ? 'failed' : statusOf(calls);
    else {
      for (const other of calls) if (other !== winner.callee) other.call.hangup('system');
      Object.assign(dialled, { status: 'completed', callId: winner.callee.call.id });
      answered = winner.callee.call;
      await stage.answer();
      recording?.begin();
      referredTo = await talk(stage, winner, action, signal);
    }
  } finally {
    stop.abort();
    dialled.callId ??= calls.at(-1)?.call.id ?? null;
    for (const { call } of calls) call.end({ cause: 'normal_clearing', source: 'caller' });
    dialled.recording = (await recording?.end()) ?? null;
    await Promise.all(calls.map((each) => each.closed));
    dialled.durationSec = (answered as Call | null)?.durationSec ?? 0;
    if (line.call.ending !== null) stage.tell(action.next, dialledQuestion(dialled));
  }
  signal.throwIfAborted();
  if (action.refer !== null && referredTo !== null)
    return stage.ask(action.refer, referredQuestion(referredTo), signal);
  return action.next === null ? null : stage.ask(action.next, dialledQuestion(dialled), signal);
}

/** Whom it may call, numbers in E.164, and as whom. Whatever is refused is in the record, and the others are called. */
function allowed(stage: Stage, action: Dial): { from: string | null; targets: DialTarget[] } {
  const { line, rules } = stage;
  const { facts, mode } = line;
  const home = facts.direction === 'inbound' ? facts.to : facts.from;
  const from = action.from === null ? null : (dialledNumber(action.from, home) ?? action.from);
  // The caller's own number may always be shown: it is what is shown without any.
  const shown = from === facts.from ? null : from;
  const targets = action.to.flatMap((target) => {
    const to = isAddress(target.to) ? target.to : dialledNumber(target.to, home);
    const refusal =
      to === null
        ? `it is no telephone number; E.164 such as +14155550100 is always understood, a national number as one of the country of ${home}`
        : shown !== null && !userOfSip.test(shown)
          ? 'its caller id must be a telephone number, or for SIP a name of letters, digits and "_ + . -"'
          : rules.dialling.refusal(facts.organizationId, mode, { to, from: shown });
    if (refusal !== null) stage.warn(`${target.to.slice(0, 100)} is not dialled: ${refusal}`);
    return refusal !== null || to === null ? [] : [{ ...target, to }];
  });
  return { from: shown, targets };
}

/** What may stand in front of the "@" of our From without being escaped. */
const userOfSip = /^[\w+.-]{1,64}$/;

function isAddress(to: string): boolean {
  return sipAddress.test(to) || clientAddress.test(to);
}

interface Winner {
  callee: DialledCall;
  second: SecondLeg;
}

/** null: nobody answered. Meanwhile the caller hears that it rings, if he is on the line already. */
async function firstToAnswer(
  { line }: Stage,
  { sequential, ringTone: country }: Dial,
  to: readonly DialTarget[],
  place: (target: DialTarget) => DialledCall,
  signal: AbortSignal,
): Promise<Winner | null> {
  const answered = async (callee: DialledCall) => ({ callee, second: await callee.answered });
  const quiet = new AbortController();
  if (line.leg !== null) line.session.play(ringTone(country), AbortSignal.any([signal, quiet.signal])).catch(() => {}); // silence does as well
  try {
    if (!sequential) return await Promise.any(to.map((target) => answered(place(target))));
    for (const target of to) {
      const winner = await answered(place(target)).catch(() => null);
      signal.throwIfAborted();
      if (winner !== null) return winner;
    }
    return null;
  } catch {
    signal.throwIfAborted();
    return null;
  } finally {
    quiet.abort();
  }
}

/** Resolves when the two are not joined any more; with the address to which the callee sends the caller, if it does. */
async function talk(
  { line, keypad }: Stage,
  { callee, second }: Winner,
  action: Dial,
  signal: AbortSignal,
): Promise<string | null> {
  const over = new AbortController();
  const either = AbortSignal.any([signal, over.signal]);
  const joined = new JoinedLegs(line, second, {
    signal: either,
    onInfoKey: (digit) => heardKey(callee.call, digit, 'info'),
  });
  keypad.passOn = (digit) => joined.pressed(digit);
  let timer: NodeJS.Timeout | undefined;
  let referredTo: string | null = null;
  try {
    await Promise.race([
      ...(action.refer === null ? [] : [referral(second).then((to) => (referredTo = to))]),
      callee.call.ended,
      joined.ended,
      ...(action.hangupOnStar ? [keypad.oneOf('*', either).catch(() => {})] : []),
      new Promise<void>((resolve) => {
        timer = setTimeout(resolve, action.timeLimitSec * 1000);
        signal.addEventListener('abort', () => resolve(), { once: true });
        if (signal.aborted) resolve();
      }),
    ]);
  } finally {
    clearTimeout(timer);
    keypad.passOn = null;
    over.abort();
    await joined.stop();
  }
  return referredTo;
}

/** Where the callee sends the caller, once it does. The callee's part is over then. */
function referral({ leg }: SecondLeg): Promise<string> {
  return new Promise((resolve) => {
    leg.onRefer(async ({ to }) => {
      resolve(to);
      return { accept: true };
    });
  });
}

/** Both sides in one file, the caller left. */
class DialRecording {
  private take: Take | null = null;

  constructor(
    private readonly stage: Stage,
    private readonly action: Dial,
  ) {}

  begin(): void {
    if (this.take !== null) return;
    const { line, rules } = this.stage;
    this.take = rules.takes.begin(line.call, line.session, 'dial', { maxMs: this.action.timeLimitSec * 1000 });
    this.tell('in-progress', this.take.begun);
  }

  async end(): Promise<Awaited<Take['made']> | null> {
    this.take?.stop();
    const made = await this.take?.made;
    if (made === undefined) return null;
    this.tell(made.error === null ? 'completed' : 'absent', made);
    return made;
  }

  private tell(status: 'in-progress' | 'completed' | 'absent', recording: Take['begun']): void {
    const fields = recordingStatusFields(status, recording, 'DialVerb');
    this.stage.status(this.action.recordingStatus, status, fields);
  }
}
