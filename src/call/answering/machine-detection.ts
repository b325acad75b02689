import type { MachineVerdict } from '../../../media/engine.js';
import type { TranscriptionEngine } from '../../transcription/engine.js';
import type { AnsweredBy } from '../../webhook/twilio-parameters.js';
import { carryOut } from '../control/call-commands.js';
import type { Call } from '../core/call.js';
import type { CallParty } from '../party/party.js';
import { AnswererWords, type HeardAnswerer } from './answerer-words.js';
import type { AnsweringPlan } from './answering-plan.js';

/** After keys were pressed, it is found out anew who answers; more often it is not tried. */
const mostPresses = 2;
/** A machine by its cadence may be a screening assistant by its words: they may come this much later. */
const wordsLimitMs = 5000;
/** After a beep there is no time: it begins to record. */
const wordsAfterBeepMs = 1200;

export interface DetectionRules {
  plan: AnsweringPlan;
  /** null: words are not recognized; rhythm and tones must do. */
  transcription: TranscriptionEngine | null;
  /** Counted from the answer; absent: 30 s. */
  limitMs?: number;
  transferTimeoutMs: number;
}

/** What is known of who answered. */
interface Answerer {
  result: 'human' | 'machine' | 'screening' | 'fax' | 'operator' | 'unknown';
  verdict: MachineVerdict;
  heard: HeardAnswerer | null;
}

/**
 * Finds out who answered, by the callee's audio, and does what the plan says about it. Resolves with the result, at the end of the call at the
 * latest; null when detection is off.
 */
export async function detectMachine(party: CallParty, rules: DetectionRules): Promise<AnsweredBy | null> {
  const { call } = party;
  const { plan } = rules;
  if (plan.detection === 'off') return null;
  const startedMs = performance.now();
  for (let presses = 0; ; presses++) {
    const answerer = await listen(party, rules, startedMs);
    const by = wordOf(answerer, plan.detection === 'detect_message_end');
    const { result } = answerer;
    const planned = result === 'human' || result === 'unknown' ? 'talk' : plan.actions[result];
    const action = planned === 'press' && presses >= mostPresses ? 'talk' : planned;
    call.guarded(() => {
      call.event('amd.completed', { ...factsOf(answerer), answered_by: by, action });
      if (action === 'hang_up') call.end({ cause: 'normal_clearing', source: 'system', detail: endings[result] });
    })(undefined);
    if (action !== 'press' || call.ending !== null) return { by, afterMs: Math.round(performance.now() - startedMs) };
    await carryOut({ kind: 'dtmf', digits: plan.keys }, 'agent', party, rules.transferTimeoutMs);
  }
}

/**
 * Listens to early media for an operator's tones and words, until `answered` aborts. When there are any, the plan's action is carried out:
 * unless it is to talk, the call is given up.
 */
export async function detectEarlyOperator(
  party: CallParty,
  rules: DetectionRules,
  answered: AbortSignal,
): Promise<void> {
  const { call, session } = party;
  const { plan, transcription } = rules;
  if (plan.detection === 'off') return;
  const stop = AbortSignal.any([answered, call.signal]);
  const words = transcription === null ? null : new AnswererWords(party, transcription);
  const over = new Promise<null>((resolve) => stop.addEventListener('abort', () => resolve(null), { once: true }));
  const done = new AbortController();
  const toned = session.detectMachine({ untilMessageEnd: false, early: true }, AbortSignal.any([stop, done.signal]));
  const spoken = words === null ? over : words.found('operator').then((heard) => heard ?? over);
  const found = await Promise.race([over, toned, spoken]);
  done.abort();
  words?.stop();
  if (found === null || stop.aborted) return;
  const verdict = 'result' in found ? found : await toned;
  if ('result' in found && found.result !== 'operator') return;
  const heard = 'answerer' in found ? found : null;
  const action = plan.actions.operator === 'talk' ? 'talk' : 'hang_up';
  call.guarded(() => {
    call.event('amd.completed', {
      ...factsOf({ result: 'operator', verdict, heard }),
      ...{ answered_by: 'operator', action, early: true },
    });
    if (action === 'hang_up') call.end({ cause: 'originator_cancel', source: 'system', detail: endings.operator });
  })(undefined);
}

const endings: Record<Answerer['result'], string> = {
  human: '',
  unknown: '',
  machine: 'A machine answered.',
  screening: 'A screening assistant answered.',
  operator: 'An announcement of the network answered.',
  fax: 'A fax answered.',
};

/** One round: the media's verdict by rhythm and tones, and the words where they can be recognized. */
async function listen(
  party: CallParty,
  { plan, transcription, limitMs }: DetectionRules,
  startedMs: number,
): Promise<Answerer> {
  const { call, session } = party;
  const stop = new AbortController();
  const over = () => stop.abort();
  call.signal.addEventListener('abort', over, { once: true });
  if (call.signal.aborted) over();
  const limit =
    limitMs === undefined ? undefined : setTimeout(over, Math.max(0, startedMs + limitMs - performance.now()));
  const words = transcription === null ? null : new AnswererWords(party, transcription);
  const untilMessageEnd = plan.detection === 'detect_message_end';
  try {
    const byMedia = session.detectMachine({ untilMessageEnd }, stop.signal).then((verdict) => inTime(verdict, call));
    // An assistant waits for an answer, an operator for nothing: their words decide at once.
    const decisive = words === null ? new Promise<never>(() => {}) : words.found('screening', 'operator');
    const first = await Promise.race<MachineVerdict | HeardAnswerer>([
      byMedia,
      decisive.then(async (heard) => heard ?? byMedia),
    ]);
    if ('answerer' in first) {
      stop.abort();
      return { result: first.answerer, verdict: await byMedia, heard: first };
    }
    return await refined(first, words, { party, untilMessageEnd, signal: stop.signal });
  } finally {
    clearTimeout(limit);
    call.signal.removeEventListener('abort', over);
    words?.stop();
  }
}

/** What the words make of the media's verdict. */
async function refined(
  verdict: MachineVerdict,
  words: AnswererWords | null,
  { party, untilMessageEnd, signal }: { party: CallParty; untilMessageEnd: boolean; signal: AbortSignal },
): Promise<Answerer> {
  if (words === null || signal.aborted || verdict.result === 'fax' || verdict.result === 'operator')
    return { result: verdict.result, verdict, heard: null };
  if (verdict.result !== 'machine') {
    // "Please leave a message" may be as short as a person's greeting.
    const heard = words.heard;
    if (heard?.answerer !== 'machine') return { result: verdict.result, verdict, heard };
    const later = untilMessageEnd ? await party.session.detectMachine({ untilMessageEnd }, signal) : null;
    const ends =
      later?.result === 'machine' ? later : { ...verdict, messageEnd: untilMessageEnd ? ('silence' as const) : null };
    return { result: 'machine', verdict: { ...ends, result: 'machine' }, heard };
  }
  const limitMs = verdict.reason === 'beep' || verdict.messageEnd === 'beep' ? wordsAfterBeepMs : wordsLimitMs;
  const heard = await words.next(limitMs, signal);
  return { result: heard?.answerer ?? 'machine', verdict, heard };
}

/** A detection that was stopped while the call goes on was stopped by its time limit. */
function inTime(verdict: MachineVerdict, { ending }: Call): MachineVerdict {
  return verdict.reason === 'call_ended' && ending === null ? { ...verdict, reason: 'timeout' } : verdict;
}

/** Twilio's `AnsweredBy` (https://www.twilio.com/docs/voice/answering-machine-detection), which has neither screening nor operator. */
function wordOf({ result, verdict: { messageEnd } }: Answerer, untilMessageEnd: boolean): AnsweredBy['by'] {
  if (result !== 'machine') return result;
  if (!untilMessageEnd) return 'machine_start';
  if (messageEnd === 'beep') return 'machine_end_beep';
  return messageEnd === 'silence' ? 'machine_end_silence' : 'machine_end_other';
}

/** Milliseconds from the answer. */
function factsOf({ result, verdict, heard }: Answerer): Record<string, unknown> {
  const { reason, decidedMs, greetingMs, messageEnd, messageEndMs, beepHz } = verdict;
  return {
    result,
    ...(heard === null
      ? { reason, decided_ms: decidedMs }
      : { reason: 'words', decided_ms: heard.afterMs, language: heard.language }),
    ...(greetingMs === null ? {} : { greeting_ms: greetingMs }),
    ...(messageEnd === null ? {} : { message_end: messageEnd, message_end_ms: messageEndMs }),
    ...(beepHz === null ? {} : { beep_hz: beepHz }),
  };
}
