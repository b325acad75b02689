import { HttpError } from '../../../net/http.js';
import type { Action, FollowUp, WaitMusic } from '../../webhook/actions.js';
import { WebhookFailure } from '../../webhook/webhook-client.js';
import type { WebhookRequest } from '../../webhook/webhook-request.js';
import { holdTone } from '../prompts/tones.js';
import type { ScriptContext } from './context.js';

/** A document that ends at once is requested at most this often. */
const shortestRoundMs = 1000;

/** Where the caller waits. */
export interface Waiting {
  readonly place: 'conference' | 'queue';
  /** Asks for the document, with the facts of this moment. */
  question(): WebhookRequest;
  /** Carries out an action that is no prompt, and resolves with the actions that follow; undefined: it is not allowed here. */
  perform?(action: Action, signal: AbortSignal): Promise<Action[] | null | undefined>;
}

/** Plays hold music until `signal` aborts; after an error, which is noted in the record, it plays a tone. Never rejects. */
export async function holdMusic(
  script: ScriptContext,
  waiting: Waiting,
  music: WaitMusic,
  signal: AbortSignal,
): Promise<void> {
  try {
    if (typeof music === 'object') await playDocuments(script, waiting, music, signal);
    else if (music === 'tone') await playTone(script, signal);
    else await aborted(signal);
  } catch (error) {
    if (signal.aborted) return;
    script.webhook.warn(`The music of the ${waiting.place} cannot be played: ${(error as Error).message}`);
    await playTone(script, signal).catch(() => {});
  }
}

async function playTone({ party }: ScriptContext, signal: AbortSignal): Promise<void> {
  await party.session.play(holdTone, signal);
  await aborted(signal);
}

/** Plays the document at the address, again and again: prompts, redirects, and what the place allows. */
async function playDocuments(
  script: ScriptContext,
  waiting: Waiting,
  first: FollowUp,
  signal: AbortSignal,
): Promise<void> {
  // The document is requested many times; each problem is noted once.
  const warned = new Set<string>();
  const warnOnce = (message: string) => {
    if (!warned.has(message)) script.webhook.warn(message);
    warned.add(message);
  };
  for (let next: FollowUp | Action[] = first; !signal.aborted; ) {
    const startedMs = performance.now();
    const actions: Action[] = Array.isArray(next) ? next : await fetchMusic(script, waiting, next, signal);
    next = (await playDocument(script, waiting, actions, warnOnce, signal)) ?? first;
    const restMs = shortestRoundMs - (performance.now() - startedMs);
    if (restMs > 0) await script.prompt({ action: 'pause', seconds: restMs / 1000 }, signal);
  }
}

/** Resolves with what follows at once; null: the first document again. */
async function playDocument(
  script: ScriptContext,
  waiting: Waiting,
  actions: Action[],
  warnOnce: (message: string) => void,
  signal: AbortSignal,
): Promise<FollowUp | Action[] | null> {
  for (const action of actions) {
    signal.throwIfAborted();
    if (action.action === 'redirect') return action.next;
    if (action.action === 'warn') warnOnce(action.message);
    else if (action.action === 'pause') await script.prompt(action, signal);
    else if (action.action === 'say' || action.action === 'play')
      await script.deps.voice.speak(script.party.session, action, signal, ({ message }) => warnOnce(message));
    else {
      const follows = await waiting.perform?.(action, signal);
      if (follows === undefined) throw new WebhookFailure(`"${action.action}" cannot stand in it.`);
      if (follows !== null) return follows;
    }
  }
  return null;
}

async function fetchMusic(
  script: ScriptContext,
  waiting: Waiting,
  to: FollowUp,
  signal: AbortSignal,
): Promise<Action[]> {
  const { facts, leg, call } = script.party;
  const state = { ...facts, answered: leg !== null, ended: call.ending !== null };
  try {
    return await script.webhook.client.askMusic(to, state, waiting.question(), signal);
  } catch (error) {
    throw error instanceof HttpError ? new WebhookFailure(error.message) : error;
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true });
    if (signal.aborted) resolve();
  });
}
