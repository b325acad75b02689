/** The API of queues: lists, makes, changes and deletes them, and takes calls out of them. */
import type { FastifyRequest } from 'fastify';
import type { CallQueue } from '../../call/queue/call-queue.js';
import { usualQueueSize } from '../../call/queue/call-queues.js';
import type { QueueMember } from '../../call/queue/queue-member.js';
import { maxQueueSize, maxRoomName } from '../../webhook/actions.js';
import type { Caller } from '../auth/caller.js';
import { ApiError, invalid, notFound } from '../errors.js';
import { Form, refuse } from './form.js';
import { onePage } from './pages.js';
import { callIdOf, presentQueue, presentQueueMember, queueIdOf } from './resources.js';
import type { TwilioAnswer, TwilioOptions, TwilioRoute } from './route.js';

type Asked = Parameters<TwilioRoute['handle']>;

export const queueRoutes: TwilioRoute[] = [
  {
    method: 'GET',
    path: 'Queues.json',
    handle: async (request, { scope }, { queues }) => ({
      status: 200,
      body: onePage('queues', request, (queues?.list(scope) ?? []).map(presentQueue)),
    }),
  },
  { method: 'POST', path: 'Queues.json', handle: createQueue },
  {
    method: 'GET',
    path: 'Queues/:queue',
    handle: async (...asked) => ({ status: 200, body: presentQueue(queueOf(...asked)) }),
  },
  { method: 'POST', path: 'Queues/:queue', handle: updateQueue },
  { method: 'DELETE', path: 'Queues/:queue', handle: deleteQueue },
  {
    method: 'GET',
    path: 'Queues/:queue/Members.json',
    handle: async (...asked) => {
      const queue = queueOf(...asked);
      const members = queue.members.map((member) => presentQueueMember(queue, member));
      return { status: 200, body: onePage('queue_members', asked[0], members) };
    },
  },
  {
    method: 'GET',
    path: 'Queues/:queue/Members/:member',
    handle: async (...asked) => {
      const queue = queueOf(...asked);
      return { status: 200, body: presentQueueMember(queue, memberOf(queue, asked[0])) };
    },
  },
  { method: 'POST', path: 'Queues/:queue/Members/:member', handle: dequeue },
];

async function createQueue(...[request, { scope }, { queues }]: Asked): TwilioAnswer {
  const form = new Form(request);
  const name = form.required('FriendlyName');
  if (name.length > maxRoomName) refuse('FriendlyName', `must not have more than ${maxRoomName} characters`);
  const made = queues?.create(scope, name, sizeOf(form) ?? usualQueueSize) ?? null;
  if (made === null)
    throw invalid({ path: 'FriendlyName', message: 'is the name of another queue, or there are too many queues' });
  return { status: 201, body: presentQueue(made) };
}

async function updateQueue(...asked: Asked): TwilioAnswer {
  const queue = queueOf(...asked);
  const form = new Form(asked[0]);
  const name = form.get('FriendlyName');
  if (name !== null && name !== queue.name) refuse('FriendlyName', 'cannot be changed');
  queue.maxSize = sizeOf(form) ?? refuse('MaxSize', 'is required');
  return { status: 200, body: presentQueue(queue) };
}

async function deleteQueue(...asked: Asked): TwilioAnswer {
  const queue = queueOf(...asked);
  if (asked[2].queues?.delete(queue) !== true)
    throw new ApiError(
      'CALL_COMMAND_FAILED',
      'Calls wait in the queue, or a caller waits for one; it cannot be deleted.',
    );
  return { status: 204, body: null };
}

/** Takes a call out of the queue: it follows the instructions of `Url`. */
async function dequeue(...asked: Asked): TwilioAnswer {
  const [request, , { liveCalls, allowPrivateTargets }] = asked;
  const queue = queueOf(...asked);
  const form = new Form(request);
  const next = form.followUp('Url', 'Method', allowPrivateTargets) ?? refuse('Url', 'is required');
  const member = memberOf(queue, request);
  const body = presentQueueMember(queue, member);
  const result = await liveCalls.command(member.party.call.id, { kind: 'redirect', to: { next } });
  if (!result.ok) throw new ApiError('CALL_COMMAND_FAILED', result.message); // it keeps its place
  queue.leave(member);
  return { status: 200, body };
}

function sizeOf(form: Form): number | null {
  const text = form.get('MaxSize');
  if (text === null) return null;
  const size = Number(text);
  return Number.isInteger(size) && size >= 1 && size <= maxQueueSize
    ? size
    : refuse('MaxSize', `must be a whole number from 1 to ${maxQueueSize}`);
}

function queueOf(request: FastifyRequest, { scope }: Caller, { queues }: TwilioOptions): CallQueue {
  const id = queueIdOf((request.params as { queue: string }).queue.replace(/\.json$/, ''));
  const queue = id === null ? undefined : queues?.find(scope, id);
  if (!queue) throw notFound('Queue');
  return queue;
}

/** By the sid of the call, or `Front`: the one that has waited longest. */
function memberOf(queue: CallQueue, request: FastifyRequest): QueueMember {
  const name = (request.params as { member: string }).member.replace(/\.json$/, '');
  const callId = callIdOf(name);
  const found = name === 'Front' ? queue.members[0] : queue.members.find(({ party }) => party.call.id === callId);
  if (!found) throw notFound('Member');
  return found;
}
