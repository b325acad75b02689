/** Prompts of a script: what its actions say and play, and pauses. */
import type { SpeechWarning } from '../../speech/offline-voice.js';
import type { Action, PlayAction, Prompt, Say } from '../../webhook/actions.js';
import { WebhookFailure } from '../../webhook/webhook-client.js';
import type { CallParty } from '../party/party.js';
import type { PromptPlayer } from '../prompts/prompt-player.js';
import type { ScriptWebhook } from './script-webhook.js';

/** Resolves when the prompt was heard. What cannot be made or fetched is left out, with a warning. Rejects with the reason of `signal`. */
export async function playPrompt(
  prompt: Prompt,
  { session }: CallParty,
  voice: PromptPlayer,
  webhook: ScriptWebhook,
  signal: AbortSignal,
): Promise<void> {
  if (prompt.action === 'pause') return wait(prompt.seconds * 1000, signal);
  const startedMs = performance.now();
  try {
    const warn = ({ message, code }: SpeechWarning) => webhook.warn(message, code);
    await voice.speak(session, prompt, signal, warn);
  } catch (error) {
    if (!(error instanceof WebhookFailure)) throw error;
    webhook.failedFor(performance.now() - startedMs);
    webhook.warn(`${nameOf(prompt)} cannot be heard: ${error.message} The call goes on without it.`);
  }
}

/** What an action says and plays. */
export function promptsOf(action: Action): (Say | PlayAction)[] {
  if (action.action === 'gather') return action.prompts.flatMap(promptsOf);
  return action.action === 'say' || action.action === 'play' ? [action] : [];
}

/** A prompt in a warning, without its text and without the query of its address, which may be confidential. */
function nameOf(prompt: Say | PlayAction): string {
  if (prompt.action === 'say') return 'A text';
  const { origin, pathname } = new URL(prompt.url);
  return `The file ${origin}${pathname}`;
}

/** Rejects with the reason of `signal`. */
function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', end);
      resolve();
    }, ms);
    signal.addEventListener('abort', end, { once: true });
    if (signal.aborted) end();
  });
}
