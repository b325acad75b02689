import type { Action, Record as RecordAction, StartRecording } from '../../webhook/actions.js';
import { recordedQuestion, recordingStatusFields } from '../../webhook/request-bodies.js';
import { beep } from '../prompts/tones.js';
import type { ScriptContext } from './context.js';

/**
 * Records the phone until it is silent, a finish key is pressed, the time is up or the call ends. The webhook also gets the message of a
 * caller who hung up.
 */
export async function recordPhone(
  script: ScriptContext,
  action: RecordAction,
  signal: AbortSignal,
): Promise<Action[] | null> {
  const { party, keypad, deps } = script;
  const { call, session } = party;
  await script.answer();
  if (action.beep) await session.play(beep, signal);
  signal.throwIfAborted();
  const silenceMs = action.silenceSec * 1000;
  const take = deps.takes.begin(call, session, 'record', {
    tracks: 'phone',
    maxMs: action.maxSec * 1000,
    // Without a limit of silence: one that no recording reaches.
    silence: { beforeMs: silenceMs || action.maxSec * 2000, afterMs: silenceMs || action.maxSec * 2000 },
    trim: action.trim,
  });
  script.webhook.status(action.status, 'in-progress', recordingStatusFields('in-progress', take.begun, 'RecordVerb'));
  const over = new AbortController();
  let key = '';
  keypad.oneOf(action.finishOnKey, AbortSignal.any([signal, over.signal])).then(
    (pressed) => {
      key = pressed;
      take.stop();
    },
    () => take.stop(),
  );
  const made = await take.made;
  over.abort();
  const reason =
    call.ending !== null
      ? 'hangup'
      : key !== ''
        ? 'finish_key'
        : made.by === 'limit'
          ? ('max_length' as const)
          : ('silence' as const);
  const isEmpty = made.durationMs === 0;
  const status = isEmpty ? 'absent' : 'completed';
  script.webhook.status(action.status, status, recordingStatusFields(status, made, 'RecordVerb'));
  const question = recordedQuestion(made, reason, key);
  if (call.ending !== null && !isEmpty) script.webhook.tell(action.next, question);
  signal.throwIfAborted();
  if (action.next === null || (isEmpty && !action.nextWhenEmpty)) return null;
  return script.webhook.ask(action.next, question, signal);
}

/** Records the call from now to its end, in a file of its own. */
export function startRecording({ party, deps, webhook }: ScriptContext, { channels, status }: StartRecording): void {
  const rules = channels === 1 ? ({ tracks: 'phone' } as const) : {};
  const take = deps.takes.begin(party.call, party.session, 'start', rules);
  const source = 'StartCallRecordingTwiML';
  webhook.status(status, 'in-progress', recordingStatusFields('in-progress', take.begun, source));
  void take.made.then((made) => {
    const step = made.durationMs === 0 ? 'absent' : 'completed';
    webhook.status(status, step, recordingStatusFields(step, made, source));
  });
}
