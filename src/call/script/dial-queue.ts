import type { Action, DialQueue } from '../../webhook/actions.js';
import { type Dialled, dialledQuestion, whisperQuestion } from '../../webhook/request-bodies.js';
import { ringTone } from '../prompts/ringback-tones.js';
import type { CallQueue } from '../queue/call-queue.js';
import { Pickup } from '../queue/pickup.js';
import type { QueueMember } from '../queue/queue-member.js';
import type { ScriptContext } from './context.js';
import { DialRecording, talk } from './dial.js';
import { stateOf } from './script-webhook.js';

/** Bridges the caller with the call that has waited longest in a queue; while none waits, the caller hears ringback. */
export async function dialQueue(
  script: ScriptContext,
  action: DialQueue,
  signal: AbortSignal,
): Promise<Action[] | null> {
  const { party, deps, webhook } = script;
  await script.answer();
  signal.throwIfAborted();
  const scope = { organizationId: party.facts.organizationId, mode: party.mode };
  const queue = deps.queues.open(scope, action.queue);
  const recording = action.record ? new DialRecording(script, action) : null;
  const dialled: Dialled = {
    status: queue === null ? 'failed' : 'canceled',
    to: [`queue:${action.queue}`],
    callId: null,
    durationSec: 0,
    recording: null,
  };
  if (queue === null) webhook.warn('There are too many queues.');
  try {
    const found = queue === null ? null : await nextReady(script, queue, action, signal);
    if (found !== null) {
      const { member, pickup } = found;
      Object.assign(dialled, { status: 'completed', callId: member.party.call.id });
      const startedMs = performance.now();
      recording?.begin();
      try {
        const until = AbortSignal.any([signal, pickup.over]);
        await talk(script, member.party, { ...action, refer: null }, until, (part) => pickup.bridge(part));
      } finally {
        pickup.end();
        dialled.durationSec = Math.round((performance.now() - startedMs) / 1000);
      }
    } else if (queue !== null) dialled.status = 'no-answer';
  } finally {
    dialled.recording = (await recording?.end()) ?? null;
    if (party.call.ending !== null) webhook.tell(action.next, dialledQuestion(dialled));
  }
  signal.throwIfAborted();
  return action.next === null ? null : webhook.ask(action.next, dialledQuestion(dialled), signal);
}

/** The next call of the queue that can be bridged; null: none came in time. */
async function nextReady(
  script: ScriptContext,
  queue: CallQueue,
  action: DialQueue,
  signal: AbortSignal,
): Promise<{ member: QueueMember; pickup: Pickup } | null> {
  const { session } = script.party;
  const late = new AbortController();
  const quiet = new AbortController();
  const timer = setTimeout(() => late.abort(), action.timeoutSec * 1000);
  session.play(ringTone(action.ringTone), AbortSignal.any([signal, quiet.signal])).catch(() => {}); // without ringback the caller hears silence
  try {
    for (;;) {
      const member = await queue.next(AbortSignal.any([signal, late.signal])).catch(() => null);
      if (member === null) {
        signal.throwIfAborted();
        return null;
      }
      const pickup = new Pickup(whisperTo(script, queue, member, action));
      member.take(pickup);
      if (await isReady(pickup, signal)) return { member, pickup };
      signal.throwIfAborted();
    }
  } finally {
    clearTimeout(timer);
    quiet.abort();
  }
}

/** False: one of the two has left. */
async function isReady(pickup: Pickup, signal: AbortSignal): Promise<boolean> {
  const end = () => pickup.end();
  signal.addEventListener('abort', end, { once: true });
  if (signal.aborted) end();
  const left = new Promise<void>((resolve) => {
    pickup.over.addEventListener('abort', () => resolve(), { once: true });
    if (pickup.over.aborted) resolve();
  });
  try {
    await Promise.race([pickup.ready, left]);
    return !pickup.over.aborted;
  } finally {
    signal.removeEventListener('abort', end);
  }
}

function whisperTo(
  { party, webhook }: ScriptContext,
  queue: CallQueue,
  member: QueueMember,
  { whisper }: DialQueue,
): Pickup['whisper'] {
  if (whisper === null) return null;
  const { client } = webhook;
  const question = whisperQuestion(queue, member.waitedSec, party.call.id);
  return async (to, signal) => (await client.ask(to ?? whisper, stateOf(member.party), question, signal)) ?? [];
}
