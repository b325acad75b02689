import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { withDeadline } from '../../../../net/deadline.js';
import type { CallEvent } from '../../../store/calls/call-records.js';
import { newId } from '../../../store/database/ids.js';
import type { Store } from '../../../store/store.js';
import type { Scope } from '../../../store/tenants/scope.js';
import { type IdentifySender, isStillAuthorized } from '../../auth/auth.js';
import type { EventTokens } from '../../auth/event-tokens.js';
import { ApiError } from '../../errors.js';
import { presentCallEvent } from '../../present/present.js';
import { type Route, route } from '../../route.js';
import { body, Type, time } from '../../schemas/types.js';

const heartbeatEveryMs = 15_000;
/** The interval at which the credentials of each open stream are checked: a stream ends within a second of their revocation. */
const recheckEveryMs = 500;
/** The time for data written before the end of a stream to be sent. */
const lastBytesMs = 1_000;
const streamsPerOrganization = 100;
/** A reader with more unread bytes is disconnected; it can resume from its last event. */
const maxUnreadBytes = 1_048_576;
/** The maximum number of new events that are queued during the replay. */
const mostMeanwhile = 10_000;
/** The number of events replayed at once; small enough not to delay calls. */
const replayedAtOnce = 200;
const drainLimitMs = 30_000;

export function eventRoutes(
  app: FastifyInstance,
  {
    store,
    identifySender,
    eventTokens,
    heartbeatMs = heartbeatEveryMs,
  }: { store: Store; identifySender: IdentifySender; eventTokens: EventTokens; heartbeatMs?: number },
): Route[] {
  const open = new Set<ServerResponse>();
  app.addHook('preClose', async () => {
    for (const stream of open) stream.end();
  });
  return [
    route({
      method: 'POST',
      path: '/v1/events/token',
      operationId: 'createEventToken',
      tag: 'Calls',
      summary: 'Create a token for the event stream',
      description:
        "A token for `GET /v1/events?token=…`, for a browser's `EventSource`, which cannot send a key. It opens one stream, within a minute, with the rights of the key that asked for it.",
      access: 'member',
      answer: {
        status: 200,
        description: 'The token.',
        schema: Type.Object(
          { token: Type.String({ description: 'The token.' }), expires_at: time('When it can no longer be used.') },
          { $id: 'EventToken', additionalProperties: false },
        ),
      },
      handle: ({ request }) => {
        const issued = eventTokens.issue(request.headers);
        if (!issued)
          throw new ApiError('RATE_LIMIT_EXCEEDED', 'Too many unused event tokens', { limited_by: 'streams' });
        return { token: issued.token, expires_at: new Date(issued.untilMs).toISOString() };
      },
    }),
    route({
      method: 'GET',
      path: '/v1/events',
      operationId: 'streamEvents',
      tag: 'Calls',
      summary: 'Stream events',
      description:
        'The events of all calls of the organization as they occur, as Server-Sent Events: `id` is the id of the event, `event` its `event_type`, `data` the event with `call_id`. A comment is sent every 15 seconds. With `Last-Event-ID` the stream resumes after that event; if that event is unknown or more than 10,000 events old, a `reset` event is sent first. A reader that is too slow is disconnected. The stream ends within a second after the key is revoked, the token expires or the user leaves the organization. With PostgreSQL it has the events of all nodes, in the order in which they were written, and resumes at any node; with SQLite it has those of this process.',
      access: 'member',
      eventToken: true,
      query: body({
        token: Type.Optional(
          Type.String({ maxLength: 128, description: 'Instead of a key: a token of `POST /v1/events/token`.' }),
        ),
      }),
      answer: {
        status: 200,
        description: 'The stream.',
        schema: Type.String({ description: 'Server-Sent Events.' }),
        contentType: 'text/event-stream',
      },
      handle: ({ caller, request, reply }) => {
        const { scope } = caller;
        if (request.method === 'HEAD') return '';
        if (store.calls.feed.count(scope) >= streamsPerOrganization)
          throw new ApiError('RATE_LIMIT_EXCEEDED', `At most ${streamsPerOrganization} streams at once`, {
            limited_by: 'streams',
          });
        const lastId = request.headers['last-event-id'];
        reply.hijack();
        const stream = reply.raw;
        stream.writeHead(200, {
          ...(reply.getHeaders() as Record<string, string>),
          'content-type': 'text/event-stream; charset=utf-8',
          'cache-control': 'no-store',
          'x-accel-buffering': 'no',
        });
        open.add(stream);
        const stop = follow(store, scope, stream, typeof lastId === 'string' ? lastId : null);
        const heartbeat = setInterval(() => {
          if (isOpen(stream)) stream.write(': still here\n\n');
        }, heartbeatMs);
        heartbeat.unref();
        const recheck = setInterval(async () => {
          if (!isOpen(stream) || (await isStillAuthorized(identifySender, request.headers, caller))) return;
          stop(); // write no further events
          stream.end();
          setTimeout(() => stream.destroy(), lastBytesMs).unref();
        }, recheckEveryMs);
        recheck.unref();
        stream.on('error', () => {}); // `close` follows
        stream.once('close', () => {
          clearInterval(heartbeat);
          clearInterval(recheck);
          stop();
          open.delete(stream);
        });
        return reply;
      },
    }),
  ];
}

/** Writes the events after the reader's last event, then new events. Returns a function that stops. */
function follow(store: Store, scope: Scope, stream: ServerResponse, lastId: string | null): () => void {
  const send = (event: CallEvent): void => {
    if (!isOpen(stream)) return;
    if (stream.writableLength > maxUnreadBytes) stream.destroy();
    else stream.write(textOf(event));
  };
  const { feed } = store.calls;
  const begun = feed.begin().then(() => {
    if (isOpen(stream)) stream.write(': events\n\n');
  });
  if (lastId === null) {
    begun.catch(() => stream.destroy());
    // Events that occurred before may not be on disk yet, and are published later: their ids are lower, if one clock made them.
    const now = newId();
    return feed.subscribe(scope, (event) => {
      if (feed.isOfAllNodes || event.id > now) send(event);
    });
  }
  let meanwhile: CallEvent[] | null = [];
  let replayed = new Set<string>();
  const sendNew = (event: CallEvent): void => {
    if (replayed.delete(event.id)) return;
    if (feed.isOfAllNodes) replayed.clear(); // in one order: what was replayed has passed
    send(event);
  };
  const stop = feed.subscribe(scope, (event) => {
    if (meanwhile === null) sendNew(event);
    else if (meanwhile.push(event) > mostMeanwhile) stream.destroy();
  });
  begun
    .then(() => replay(store, scope, stream, lastId.toLowerCase()))
    .then(
      (told) => {
        replayed = told;
        for (const event of meanwhile ?? []) sendNew(event);
        meanwhile = null;
      },
      () => stream.destroy(), // the reader reconnects
    );
  return stop;
}

/** Returns the ids of the events it has written. */
async function replay(store: Store, scope: Scope, stream: ServerResponse, lastId: string): Promise<Set<string>> {
  const told = new Set<string>();
  await store.calls.flush();
  let from = lastId;
  while (isOpen(stream)) {
    const missed = await store.longReads.ask('eventsAfter', scope, from, replayedAtOnce);
    if (!isOpen(stream)) break;
    if (!missed) stream.write('event: reset\ndata: {}\n\n');
    for (const event of missed ?? []) {
      told.add(event.id);
      from = event.id;
      stream.write(textOf(event));
    }
    if (!missed || missed.length < replayedAtOnce) break;
    if (stream.writableLength > maxUnreadBytes)
      await withDeadline(drainLimitMs, 'the reader', null, (signal) => once(stream, 'drain', { signal }));
  }
  return told;
}

function isOpen(stream: ServerResponse): boolean {
  return !stream.writableEnded && !stream.destroyed;
}

function textOf(event: CallEvent): string {
  const data = JSON.stringify({ ...presentCallEvent(event), call_id: event.callId });
  return `id: ${event.id}\nevent: ${event.type}\ndata: ${data}\n\n`;
}
