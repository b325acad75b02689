import type { Action, Enqueue } from '../../webhook/actions.js';
import { dequeuedQuestion, type QueueResult, waitingInQueueQuestion } from '../../webhook/request-bodies.js';
import type { CallQueue } from '../queue/call-queue.js';
import type { Pickup } from '../queue/pickup.js';
import type { QueueMember } from '../queue/queue-member.js';
import type { ScriptContext } from './context.js';
import { holdMusic, type Waiting } from './hold-music.js';
import { gather } from './input/gather.js';
import { playOnce } from './play-once.js';

/** The caller waits in a queue, with its music, until a caller who dialled the queue is bridged with it, or it leaves. */
export async function enqueue(script: ScriptContext, action: Enqueue, signal: AbortSignal): Promise<Action[] | null> {
  const { party, deps, webhook } = script;
  await script.answer();
  signal.throwIfAborted();
  const scope = { organizationId: party.facts.organizationId, mode: party.mode };
  const queue = deps.queues.open(scope, action.queue, action.maxSize ?? undefined);
  const member = queue?.enter(party, action.maxSize ?? queue.maxSize) ?? null;
  if (queue === null || member === null) {
    webhook.warn(queue === null ? 'There are too many queues.' : `The queue "${action.queue}" is full.`);
    const full = dequeuedQuestion(queue, 'queue-full', 0);
    return action.next === null ? null : webhook.ask(action.next, full, signal);
  }
  const { call } = party;
  const about = { queue_id: queue.id, name: queue.name };
  // One who is connected at once is not in the queue any more.
  const [position, size] = [Math.max(1, queue.positionOf(member)), Math.max(1, queue.members.length)];
  call.event('queue.entered', { ...about, position, size });
  let result: QueueResult = 'error';
  try {
    result = await stay(script, action, queue, member, signal);
  } finally {
    queue.leave(member);
    // Whoever has just taken it, or takes it now, goes on with the next call.
    void member.taken.then((by) => {
      if (by !== 'leave') by.end();
    });
    if (call.ending === null) call.event('queue.left', { ...about, result, waited_s: member.waitedSec });
    else if (result === 'error') result = 'hangup';
  }
  const question = dequeuedQuestion(queue, result, member.waitedSec);
  // The instructions of a redirected call are elsewhere.
  if (signal.aborted) webhook.tell(action.next, question);
  signal.throwIfAborted();
  return action.next === null ? null : webhook.ask(action.next, question, signal);
}

async function stay(
  script: ScriptContext,
  action: Enqueue,
  queue: CallQueue,
  member: QueueMember,
  signal: AbortSignal,
): Promise<QueueResult> {
  const { call } = script.party;
  for (;;) {
    const gone = new AbortController();
    const taken = member.taken.then((by) => {
      gone.abort();
      return by;
    });
    await holdMusic(script, waitingIn(script, queue, member), action.wait, AbortSignal.any([signal, gone.signal]));
    if (!gone.signal.aborted) return call.ending === null ? 'redirected' : 'hangup';
    const by = await taken;
    if (by === 'leave') return call.ending === null ? 'leave' : 'hangup';
    const result = await connect(script, by, member, signal);
    if (result !== null) return result;
    queue.reenter(member);
  }
}

function waitingIn(script: ScriptContext, queue: CallQueue, member: QueueMember): Waiting {
  return {
    place: 'queue',
    question: () => waitingInQueueQuestion(queue.facts(member)),
    perform: async (action, signal) => {
      if (action.action === 'gather') return gather(script, action, signal);
      if (action.action === 'leave') {
        queue.leave(member);
        member.take('leave');
        return null;
      }
      if (action.action !== 'hangup') return undefined;
      script.party.call.end({ cause: 'normal_clearing', source: 'agent' });
      return null;
    },
  };
}

/** null: the one who dialled the queue hung up before the bridge. */
async function connect(
  script: ScriptContext,
  pickup: Pickup,
  member: QueueMember,
  signal: AbortSignal,
): Promise<QueueResult | null> {
  const { party } = script;
  const until = AbortSignal.any([signal, pickup.over]);
  const ended = new Promise<null>((resolve) => {
    until.addEventListener('abort', () => resolve(null), { once: true });
    if (until.aborted) resolve(null);
  });
  try {
    if (pickup.whisper !== null) await playOnce(script, pickup.whisper, until);
    pickup.isReady();
    const part = await Promise.race([pickup.part, ended]);
    if (part === null)
      return !signal.aborted ? null : party.call.ending === null ? 'redirected' : 'bridging-in-process';
    member.bridged();
    await party.control.lend(part, until);
    return signal.aborted && party.call.ending === null ? 'redirected-from-bridged' : 'bridged';
  } finally {
    pickup.end();
  }
}
