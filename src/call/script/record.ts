import { TranscriptionError } from '../../transcription/engine.js';
import type { Action, Record as RecordAction, StartRecording } from '../../webhook/actions.js';
import {
  type MadeRecording,
  recordedQuestion,
  recordingStatusFields,
  transcribedQuestion,
} from '../../webhook/request-bodies.js';
import { beep } from '../prompts/tones.js';
import type { ScriptContext } from './context.js';
import { noEngine } from './input/transcriptions.js';

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
  if (action.transcription !== null && !isEmpty) transcribe(script, action.transcription, take.file, made);
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

/** Recognizes the words of a recording while the call goes on, and reports them. */
function transcribe(
  { party, deps, webhook }: ScriptContext,
  { next }: NonNullable<RecordAction['transcription']>,
  file: string,
  made: MadeRecording,
): void {
  const { call } = party;
  const { transcription: engine } = deps;
  if (engine === null) webhook.warn(`The recording is not transcribed: there is ${noEngine}.`);
  webhook.tellLater(next, async (signal) => {
    try {
      const text = (await engine?.transcribe({ path: file, format: 'wav' }, signal))?.text ?? null;
      if (text !== null && text !== '') {
        call.said({ speaker: 'caller', text });
      }
      return transcribedQuestion(made, text);
    } catch (error) {
      const message = error instanceof TranscriptionError ? error.message : 'The words could not be understood.';
      if (call.ending === null) call.event('agent.warning', { code: 'transcription_failed', message });
      return transcribedQuestion(made, null);
    }
  });
}
