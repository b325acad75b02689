import type { Action, Gather } from '../../../webhook/actions.js';
import { type Gathered, gatheredQuestion } from '../../../webhook/request-bodies.js';
import type { ScriptContext } from '../context.js';
import { SpeechInput } from './speech-input.js';
import { noEngine } from './transcriptions.js';

/** Collects keys or speech, whichever comes first; both interrupt the prompts. */
export async function gather(script: ScriptContext, action: Gather, signal: AbortSignal): Promise<Action[] | null> {
  const { transcription } = script.deps;
  if (action.speech && transcription === null)
    script.webhook.warn(
      `Speech is not heard here: there is ${noEngine}. ${action.digits ? 'Keys are taken all the same.' : 'The gather ends with its timeout.'}`,
    );
  await script.answer();
  const hearing =
    action.speech && transcription !== null
      ? new SpeechInput(script.party, transcription, {
          speechTimeoutSec: action.speechTimeoutSec,
          ...(action.language === null ? {} : { language: action.language }),
          ...(action.hints === null ? {} : { hints: action.hints }),
        })
      : null;
  const endRedaction = action.redact ? script.party.call.redaction.begin('gather') : null;
  const input = await inputOf(script, action, hearing, signal).finally(() => endRedaction?.());
  const isEmpty = input.digits === '' && input.speech === null;
  if (action.next === null || (isEmpty && !action.nextWhenEmpty)) return null;
  return script.webhook.ask(action.next, gatheredQuestion(input), signal);
}

async function inputOf(
  script: ScriptContext,
  action: Gather,
  hearing: SpeechInput | null,
  signal: AbortSignal,
): Promise<Gathered> {
  const over = new AbortController();
  const { digits, numDigits, finishOnKey, timeoutSec, betweenKeysSec = timeoutSec, prompts } = action;
  let pressed = false;
  const keys = script.keypad.collect(
    { digits, numDigits, finishOnKey, timeoutMs: timeoutSec * 1000, betweenKeysMs: betweenKeysSec * 1000 },
    async (stop) => {
      for (const prompt of prompts) await script.prompt(prompt, stop);
    },
    AbortSignal.any([signal, over.signal]),
    hearing && {
      begun: hearing.begun,
      giveUp: () => {
        pressed = true;
        hearing.giveUp();
      },
    },
  );
  const keyed = keys.then((input): Gathered => ({ ...input, speech: null }));
  if (hearing === null) return keyed;
  const spoken = hearing.said.then((speech): Gathered | Promise<Gathered> => {
    if (pressed) return keyed;
    return { digits: '', speech, reason: speech === null ? 'timeout' : 'speech' };
  });
  try {
    return await Promise.race([keyed, spoken]);
  } finally {
    over.abort(new Error('the input is complete'));
    keyed.catch(() => {});
    hearing.giveUp();
    await hearing.said;
  }
}
