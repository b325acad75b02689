/** The part of Twilio's REST API that applications use during calls: create, read, end and redirect a call. */

import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { CallCommand } from '../../call/core/command.js';
import { traceContextOf } from '../../call/core/trace-context.js';
import type { CallDetail } from '../../store/calls/call-records.js';
import type { Endpoint } from '../../store/routing/endpoints.js';
import { type Action, type FollowUp, InstructionError } from '../../webhook/actions.js';
import { parseTwiml } from '../../webhook/twiml.js';
import type { Caller } from '../auth/caller.js';
import { ApiError, invalid, notFound } from '../errors.js';
import { sendRecording } from '../recordings/send-recording.js';
import { startOutbound } from '../rules/start-outbound.js';
import { conferenceRoutes } from './conferences.js';
import { Form } from './form.js';
import { listRoutes } from './lists.js';
import { queueRoutes } from './queues.js';
import { recordingRoutes } from './recordings.js';
import { organizationIdOf, presentTwilioCall, twilioError, version } from './resources.js';
import {
  askedByForm,
  callingEndpoint,
  callOf,
  partiesOf,
  type TwilioAnswer,
  type TwilioOptions,
  type TwilioRoute,
} from './route.js';

const maxBodyBytes = 262_144;

/** A separate Fastify scope, which parses forms and answers errors in Twilio's format. */
export async function registerTwilio(app: FastifyInstance, options: TwilioOptions): Promise<void> {
  await app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser(
      'application/x-www-form-urlencoded',
      { parseAs: 'string', bodyLimit: maxBodyBytes },
      (_request, text, done) => done(null, text),
    );
    scope.setErrorHandler((error: FastifyError, request, reply) => {
      const refusal = options.refusalOf(error, request);
      const body = twilioError(refusal);
      reply.code(body.status).headers({ ...refusal.headers, 'x-request-id': request.id });
      reply.type('application/json; charset=utf-8').send(JSON.stringify(body));
    });
    for (const { method, path, handle } of [
      ...callRoutes,
      ...listRoutes,
      ...conferenceRoutes,
      ...queueRoutes,
      ...recordingRoutes,
    ])
      scope.route({
        method,
        url: `/${version}/Accounts/:account/${path}`,
        config: { access: 'member', basic: true },
        schema: { hide: true },
        handler: async (request: FastifyRequest, reply: FastifyReply) => {
          const { caller } = request;
          const params = request.params as { account: string };
          if (!caller || caller.organization.id !== organizationIdOf(params.account)) throw notFound('Account');
          const { status, body, audio } = await handle(request, caller, options);
          if (audio) return sendRecording(audio.id, audio.file, request, reply);
          reply.code(status);
          return body === null ? reply.send() : reply.type('application/json; charset=utf-8').send(body);
        },
      });
    // Other Twilio paths get Twilio's error format too, which is all its clients understand.
    scope.all(
      `/${version}/*`,
      { config: { access: 'member', basic: true }, schema: { hide: true } },
      async (request) => {
        throw new ApiError(
          'NOT_FOUND',
          `The requested resource ${request.url.split('?')[0]} was not found; the supported resources of Twilio's API are Calls, Recordings, Conferences, Participants, Queues and Members (docs/webhooks.md)`,
        );
      },
    );
  });
}

const callRoutes: TwilioRoute[] = [
  {
    method: 'POST',
    path: 'Calls.json',
    handle: (request, caller, options) => createCall(request, caller, options),
  },
  {
    method: 'GET',
    path: 'Calls/:call',
    handle: async (request, caller, options) => ({ status: 200, body: shown(await callOf(request, caller, options)) }),
  },
  { method: 'POST', path: 'Calls/:call', handle: updateCall },
];

async function createCall(request: FastifyRequest, caller: Caller, options: TwilioOptions): TwilioAnswer {
  const form = new Form(request);
  const requestedBy = traceContextOf(request.headers.traceparent);
  const parties = partiesOf(form, options);
  const endpoint = await callingEndpoint(parties.fromNumber, caller, options.store);
  const instructions = instructionsOf(form, endpoint, options);
  if (instructions === null) throw invalid({ path: 'Url', message: 'or Twiml is required' });
  const status = form.statusCallback('StatusCallback', ['completed'], options.allowPrivateTargets);
  const { callId, start } = await startOutbound(options, options.rules, caller, {
    ...askedByForm(form, { ...parties, endpointId: endpoint.id }, options.allowPrivateTargets),
    instructions,
    status,
    ...(requestedBy && { requestedBy }),
    warnings: form.warnings,
  });
  const call = await options.store.records.detail(caller.scope, callId);
  if (!call) throw new Error('the started call has no record');
  start();
  return { status: 201, body: { ...shown(call), status: 'queued' } };
}

async function updateCall(request: FastifyRequest, caller: Caller, options: TwilioOptions): TwilioAnswer {
  const form = new Form(request);
  const call = await callOf(request, caller, options);
  const status = form.get('Status');
  if (status !== null && status !== 'completed' && status !== 'canceled')
    throw invalid({ path: 'Status', message: 'must be completed or canceled' });
  const endpoint =
    call.endpointId === null ? undefined : await options.store.endpoints.get(caller.scope, call.endpointId);
  const to = status === null ? instructionsOf(form, endpoint, options) : null;
  if (status === null && to === null) throw invalid({ path: 'Status', message: ', Url or Twiml is required' });
  const command: CallCommand = to === null ? { kind: 'hangup' } : { kind: 'redirect', to };
  // Only an unanswered call can be cancelled.
  if (status === 'canceled' && call.answeredAt !== null)
    throw new ApiError('CALL_COMMAND_FAILED', 'The call has been answered; end it with Status=completed');
  if (call.completedAt !== null) {
    if (to === null) throw notFound('Call');
    throw new ApiError('CALL_ALREADY_ENDED', 'Call is not in-progress. Cannot redirect.');
  }
  const result = await options.liveCalls.command(call.id, command);
  if (!result.ok && result.code === 'not_running') throw notFound('Call');
  if (!result.ok && result.code === 'unreachable') throw new ApiError('SERVICE_UNAVAILABLE', result.message);
  if (!result.ok) throw new ApiError('CALL_COMMAND_FAILED', result.message);
  return { status: 200, body: shown(await callOf(request, caller, options)) };
}

function shown(call: CallDetail) {
  const parent = call.metadata?.parent_call_id;
  const answeredBy = call.events.find(({ type }) => type === 'amd.completed')?.data.answered_by;
  return presentTwilioCall(
    call,
    typeof parent === 'string' ? parent : null,
    typeof answeredBy === 'string' ? answeredBy : null,
  );
}

/** null if the form has neither. `Twiml` takes precedence. */
function instructionsOf(
  form: Form,
  endpoint: Endpoint | undefined,
  options: TwilioOptions,
): { actions: Action[] } | { next: FollowUp } | null {
  const twiml = form.get('Twiml');
  if (twiml !== null) {
    try {
      return { actions: parseTwiml(twiml, endpoint?.target ?? 'http://invalid/') };
    } catch (error) {
      if (error instanceof InstructionError) throw invalid({ path: 'Twiml', message: error.message });
      throw error;
    }
  }
  const next = form.followUp('Url', 'Method', options.allowPrivateTargets);
  return next === null ? null : { next };
}
