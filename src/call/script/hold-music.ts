import { HttpError } from '../../../net/http.js';
import type { Action, FollowUp, WaitMusic } from '../../webhook/actions.js';
import { type ConferenceFacts, waitingQuestion } from '../../webhook/request-bodies.js';
import { WebhookFailure } from '../../webhook/webhook-client.js';
import { holdTone } from '../prompts/tones.js';
import type { ScriptContext } from './context.js';

/** A document that ends at once is requested at most this often. */
const shortestRoundMs = 1000;

/** Plays hold music until `signal` aborts; after an error, which is noted in the record, it plays a tone. Never rejects. */
export async function holdMusic(
  script: ScriptContext,
  conference: ConferenceFacts,
  music: WaitMusic,
  signal: AbortSignal,
): Promise<void> {
  try {
    if (typeof music === 'object') await playDocuments(script, conference, music, signal);
    else if (music === 'tone') await playTone(script, signal);
    else await aborted(signal);
  } catch (error) {
    if (signal.aborted) return;
    script.webhook.warn(`The music of the conference cannot be played: ${(error as Error).message}`);
    await playTone(script, signal).catch(() => {});
  }
}

async function playTone({ party }: ScriptContext, signal: AbortSignal): Promise<void> {
  await party.session.play(holdTone, signal);
  await aborted(signal);
}

/** Plays the document at the address, again and again; only prompts, pauses and redirects are allowed in it. */
async function playDocuments(
  script: ScriptContext,
  conference: ConferenceFacts,
  first: FollowUp,
  signal: AbortSignal,
): Promise<void> {
  // The document is requested many times; each problem is noted once.
  const warned = new Set<string>();
  const warnOnce = (message: string) => {
    if (!warned.has(message)) script.webhook.warn(message);
    warned.add(message);
  };
  for (let to = first; !signal.aborted; ) {
    const startedMs = performance.now();
    const actions = await fetchMusic(script, conference, to, signal);
    let redirect: FollowUp | null = null;
    for (const action of actions) {
      if (action.action === 'redirect') {
        redirect = action.next;
        break;
      }
      if (action.action === 'warn') {
        warnOnce(action.message);
        continue;
      }
      if (action.action !== 'say' && action.action !== 'play' && action.action !== 'pause')
        throw new WebhookFailure(`"${action.action}" cannot stand in it.`);
      if (action.action === 'pause') await script.prompt(action, signal);
      else await script.deps.voice.speak(script.party.session, action, signal, ({ message }) => warnOnce(message));
    }
    to = redirect ?? first;
    const restMs = shortestRoundMs - (performance.now() - startedMs);
    if (restMs > 0) await script.prompt({ action: 'pause', seconds: restMs / 1000 }, signal);
  }
}

async function fetchMusic(
  script: ScriptContext,
  conference: ConferenceFacts,
  to: FollowUp,
  signal: AbortSignal,
): Promise<Action[]> {
  const { facts, leg, call } = script.party;
  const state = { ...facts, answered: leg !== null, ended: call.ending !== null };
  try {
    return await script.webhook.client.askMusic(to, state, waitingQuestion(conference), signal);
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
