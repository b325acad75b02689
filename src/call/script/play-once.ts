import type { Action, FollowUp } from '../../webhook/actions.js';
import type { ScriptContext } from './context.js';

/** Documents that follow one another by redirects. */
const maxDocuments = 10;

/**
 * Plays a document of prompts to the party: what it hears before it is connected. Another action has no effect; it and a document that
 * cannot be had are noted in the record. Never rejects.
 */
export async function playOnce(
  script: ScriptContext,
  ask: (to: FollowUp | null, signal: AbortSignal) => Promise<Action[]>,
  signal: AbortSignal,
): Promise<void> {
  const { webhook } = script;
  try {
    let to: FollowUp | null = null;
    for (let count = 0; count < maxDocuments; count++) {
      const actions: Action[] = await ask(to, signal);
      to = null;
      for (const action of actions) {
        if (action.action === 'redirect') {
          to = action.next;
          break;
        }
        if (action.action === 'warn') webhook.warn(action.message);
        else if (action.action === 'say' || action.action === 'play' || action.action === 'pause')
          await script.prompt(action, signal);
        else webhook.warn(`"${action.action}" has no effect before the connection.`);
      }
      if (to === null) return;
    }
    webhook.warn('The document before the connection redirects in a circle.');
  } catch (error) {
    if (!signal.aborted)
      webhook.warn(`The document before the connection cannot be played: ${(error as Error).message}`);
  }
}
