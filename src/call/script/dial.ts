import type { CallLeg } from '../../../sip/leg.js';
import { type Action, clientAddress, type Dial, type DialTarget, sipAddress } from '../../webhook/actions.js';
import {
  type Dialled,
  dialledQuestion,
  recordingStatusFields,
  referredQuestion,
} from '../../webhook/request-bodies.js';
import type { Call } from '../core/call.js';
import { ChildCall, type ParentCall, statusOf } from '../dial/child-call.js';
import { LegBridge, type LegBridgeOptions } from '../dial/leg-bridge.js';
import type { CallParty } from '../party/party.js';
import { ringTone } from '../prompts/ringback-tones.js';
import type { PartialRecording } from '../recording/recordings.js';
import { dialledNumber } from '../routing/dialled-number.js';
import type { ScriptContext } from './context.js';
import { Screening } from './screening.js';

/**
 * Calls the targets of `action`, all at once or one after the other. The first that answers, and accepts the call if it is asked, is
 * bridged with the caller until one of them leaves, or the time is up; the other attempts are hung up.
 */
export async function dialOut(script: ScriptContext, action: Dial, signal: AbortSignal): Promise<Action[] | null> {
  const { party, deps } = script;
  const { from, targets } = await allowed(script, action);
  if (!action.answerOnBridge) await script.answer();
  const recording = action.record === null ? null : new DialRecording(script, action);
  const stop = new AbortController();
  const calls: ChildCall[] = [];
  const { endpoint } = script.webhook;
  const status: ParentCall['status'] = (...step) => script.webhook.status(...step);
  const place = (target: DialTarget) => {
    const made = new ChildCall(
      { party, endpointId: endpoint.id, status },
      { ...action, from },
      target,
      deps.dialling,
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
    if (action.record === 'ringing' && party.leg !== null) recording?.begin();
    const winner = await firstToTake(script, action, targets, place, signal);
    if (winner === null) dialled.status = targets.length === 0 ? 'failed' : statusOf(calls);
    else {
      for (const other of calls) if (other !== winner) other.call.hangup('system');
      Object.assign(dialled, { status: 'completed', callId: winner.call.id });
      answered = winner.call;
      await script.answer();
      recording?.begin();
      referredTo = await talk(script, winner.party, action, signal);
    }
  } finally {
    stop.abort();
    dialled.callId ??= calls.at(-1)?.call.id ?? null;
    for (const { call } of calls) call.end({ cause: 'normal_clearing', source: 'caller' });
    dialled.recording = (await recording?.end()) ?? null;
    await Promise.all(calls.map((each) => each.closed));
    dialled.durationSec = (answered as Call | null)?.durationSec ?? 0;
    if (party.call.ending !== null) script.webhook.tell(action.next, dialledQuestion(dialled));
  }
  signal.throwIfAborted();
  if (action.refer !== null && referredTo !== null)
    return script.webhook.ask(action.refer, referredQuestion(referredTo), signal);
  return action.next === null ? null : script.webhook.ask(action.next, dialledQuestion(dialled), signal);
}

/** The targets that may be called, with numbers in E.164, and the caller id. Refused targets are noted in the record. */
async function allowed(script: ScriptContext, action: Dial): Promise<{ from: string | null; targets: DialTarget[] }> {
  const { party, deps } = script;
  const { facts, mode } = party;
  const home = facts.direction === 'inbound' ? facts.to : facts.from;
  const from = action.from === null ? null : (dialledNumber(action.from, home) ?? action.from);
  // The caller's own number is always allowed: it is the default.
  const shown = from === facts.from ? null : from;
  const targets: DialTarget[] = [];
  for (const target of action.to) {
    const to = isAddress(target.to) ? target.to : dialledNumber(target.to, home);
    const refusal =
      to === null
        ? `it is no telephone number; E.164 such as +14155550100 is always understood, a national number as one of the country of ${home}`
        : shown !== null && !userOfSip.test(shown)
          ? 'its caller id must be a telephone number, or for SIP a name of letters, digits and "_ + . -"'
          : await deps.dialling.refusal(facts.organizationId, mode, { to, from: shown });
    if (refusal !== null) script.webhook.warn(`${target.to.slice(0, 100)} is not dialled: ${refusal}`);
    if (refusal === null && to !== null) targets.push({ ...target, to });
  }
  return { from: shown, targets };
}

/** A user part of our From that needs no escaping. */
const userOfSip = /^[\w+.-]{1,64}$/;

function isAddress(to: string): boolean {
  return sipAddress.test(to) || clientAddress.test(to);
}

/** The call that was taken first; null: none was. Meanwhile an answered caller hears ringback. */
async function firstToTake(
  script: ScriptContext,
  { sequential, ringTone: country }: Dial,
  to: readonly DialTarget[],
  place: (target: DialTarget) => ChildCall,
  signal: AbortSignal,
): Promise<ChildCall | null> {
  const taken = async (target: DialTarget) => {
    const callee = place(target);
    const phone = await callee.answered;
    if (target.screen === null) return callee;
    callee.declined = !(await new Screening(phone, script).accepts(target.screen, target.acceptedBy));
    callee.call.check();
    return callee;
  };
  const { party } = script;
  const quiet = new AbortController();
  if (party.leg !== null)
    party.session.play(ringTone(country), AbortSignal.any([signal, quiet.signal])).catch(() => {}); // without ringback the caller hears silence
  try {
    if (!sequential) return await Promise.any(to.map(taken));
    for (const target of to) {
      const winner = await taken(target).catch(() => null);
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

/** Resolves when the two are not bridged any more, or the time is up; with the address to which the callee transfers the caller, if it does. */
export async function talk(
  { party, keypad }: ScriptContext,
  callee: CallParty,
  action: Pick<Dial, 'refer' | 'hangupOnStar' | 'timeLimitSec'>,
  signal: AbortSignal,
  lendCallee?: LegBridgeOptions['lendSecond'],
): Promise<string | null> {
  const over = new AbortController();
  const end = () => over.abort();
  const until = AbortSignal.any([signal, over.signal]);
  let referredTo: string | null = null;
  const onRefer: Parameters<CallLeg['onRefer']>[0] = async ({ to }) => {
    referredTo = to;
    end(); // the callee's part is over
    return { accept: true };
  };
  const bridge = new LegBridge(party, callee, {
    onKey: ({ digit }) => keypad.press(digit),
    ...(action.refer === null ? {} : { onRefer }),
    ...(lendCallee === undefined ? {} : { lendSecond: lendCallee }),
  });
  void callee.call.ended.then(end);
  void bridge.ended.then(end);
  if (action.hangupOnStar) keypad.oneOf('*', until).then(end, () => {});
  const timer = setTimeout(end, action.timeLimitSec * 1000);
  try {
    await party.control.lend(bridge, until);
  } finally {
    clearTimeout(timer);
    end();
  }
  return referredTo;
}

/** Records both sides into one file, the caller on the left channel. */
export class DialRecording {
  private take: PartialRecording | null = null;

  constructor(
    private readonly script: ScriptContext,
    private readonly action: Pick<Dial, 'timeLimitSec' | 'recordingStatus'>,
  ) {}

  begin(): void {
    if (this.take !== null) return;
    const { party, deps } = this.script;
    this.take = deps.takes.begin(party.call, party.session, 'dial', { maxMs: this.action.timeLimitSec * 1000 });
    this.tell('in-progress', this.take.begun);
  }

  async end(): Promise<Awaited<PartialRecording['made']> | null> {
    this.take?.stop();
    const made = await this.take?.made;
    if (made === undefined) return null;
    this.tell(made.error === null ? 'completed' : 'absent', made);
    return made;
  }

  private tell(status: 'in-progress' | 'completed' | 'absent', recording: PartialRecording['begun']): void {
    const fields = recordingStatusFields(status, recording, 'DialVerb');
    this.script.webhook.status(this.action.recordingStatus, status, fields);
  }
}
