/** The part of Twilio's REST API that applications call back while a call runs: make a call, read one, end it, send it elsewhere. */
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { CallCommand, LiveCalls } from '../../call/command.js';
import type { OutboundCalls } from '../../call/outbound-calls.js';
import type { CallDetail } from '../../store/call-records.js';
import type { Endpoint } from '../../store/endpoints.js';
import type { Store } from '../../store/store.js';
import { type Action, type FollowUp, InstructionError, type StatusCallback } from '../../webhook/instructions.js';
import { parseTwiml } from '../../webhook/twiml.js';
import type { Caller } from '../caller.js';
import { ApiError, invalid, notFound } from '../errors.js';
import { type OutboundRules, testNumber } from '../outbound-rules.js';
import { phoneNumberOf } from '../phone-number.js';
import { startOutbound } from '../start-outbound.js';
import { targetProblem } from '../targets.js';
import { callIdOf, organizationIdOf, presentTwilioCall, twilioError, version } from './words.js';

export interface TwilioOptions {
  store: Store;
  liveCalls: LiveCalls;
  outboundCalls?: OutboundCalls;
  rules: OutboundRules;
  allowPrivateTargets: boolean;
  now: () => number;
  refusalOf(error: Error, request: FastifyRequest): ApiError;
}

const maxBodyBytes = 262_144;
const calls = `/${version}/Accounts/:account/Calls`;

/** A scope of its own: forms are read here, and errors are in Twilio's words. */
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
    const add = (method: 'GET' | 'POST', url: string, handle: (request: FastifyRequest, caller: Caller) => Answer) =>
      scope.route({
        method,
        url,
        config: { access: 'member', basic: true },
        schema: { hide: true },
        handler: async (request: FastifyRequest, reply: FastifyReply) => {
          const { caller } = request;
          const { account } = request.params as { account: string };
          if (!caller || caller.organization.id !== organizationIdOf(account)) throw notFound('Account');
          const { status, body } = await handle(request, caller);
          return reply.code(status).type('application/json; charset=utf-8').send(body);
        },
      });
    add('POST', `${calls}.json`, (request, caller) => createCall(new Form(request), caller, options));
    add('GET', `${calls}/:call`, async (request, caller) => ({
      status: 200,
      body: shown(callOf(request, caller, options)),
    }));
    add('POST', `${calls}/:call`, (request, caller) => updateCall(request, caller, options));
  });
}

type Answer = Promise<{ status: number; body: object }>;

async function createCall(form: Form, caller: Caller, options: TwilioOptions): Answer {
  const fromNumber = phoneNumberOf(form.required('From'), 'From');
  const toNumber = phoneNumberOf(form.required('To'), 'To');
  const endpoint = callingEndpoint(fromNumber, caller, options.store);
  const instructions = instructionsOf(form, endpoint, options);
  if (instructions === null) throw invalid({ path: 'Url', message: 'or Twiml is required' });
  const callback = form.get('StatusCallback');
  const status: StatusCallback | null =
    callback === null
      ? null
      : {
          to: { url: urlOf('StatusCallback', callback, options), method: form.method('StatusCallbackMethod') },
          events: form.all('StatusCallbackEvent').length > 0 ? form.all('StatusCallbackEvent') : ['completed'],
        };
  const { callId, start } = startOutbound(options, options.rules, caller, {
    toNumber,
    fromNumber,
    endpointId: endpoint.id,
    ringTimeoutMs: form.seconds('Timeout', 5, 600, 60) * 1000,
    maxDurationMs: form.seconds('TimeLimit', 1, 86_400, 14_400) * 1000,
    machineDetection: 'off',
    onMachine: 'talk',
    metadata: {},
    record: form.get('Record') === 'true',
    instructions,
    status,
  });
  const call = options.store.records.detail(caller.scope, callId);
  if (!call) throw new Error('a call that has begun has no record');
  start();
  return { status: 201, body: { ...shown(call), status: 'queued' } };
}

async function updateCall(request: FastifyRequest, caller: Caller, options: TwilioOptions): Answer {
  const form = new Form(request);
  const call = callOf(request, caller, options);
  const status = form.get('Status');
  if (status !== null && status !== 'completed' && status !== 'canceled')
    throw invalid({ path: 'Status', message: 'must be completed or canceled' });
  const endpoint = call.endpointId === null ? undefined : options.store.endpoints.get(caller.scope, call.endpointId);
  const to = status === null ? instructionsOf(form, endpoint, options) : null;
  if (status === null && to === null) throw invalid({ path: 'Status', message: ', Url or Twiml is required' });
  const command: CallCommand = to === null ? { kind: 'hangup' } : { kind: 'redirect', to };
  // Only a call that nobody answered can be cancelled.
  if (status === 'canceled' && call.answeredAt !== null)
    throw new ApiError('CALL_COMMAND_FAILED', 'The call is answered: end it with Status=completed');
  if (call.completedAt !== null) {
    if (to === null) throw notFound('Call');
    throw new ApiError('CALL_ALREADY_ENDED', 'Call is not in-progress. Cannot redirect.');
  }
  const result = await options.liveCalls.command(call.id, command);
  if (!result.ok && result.code === 'not_running') throw notFound('Call');
  if (!result.ok) throw new ApiError('CALL_COMMAND_FAILED', result.message);
  return { status: 200, body: shown(callOf(request, caller, options)) };
}

function callOf(request: FastifyRequest, { scope }: Caller, { store }: TwilioOptions): CallDetail {
  const sid = (request.params as { call: string }).call.replace(/\.json$/, '');
  const id = callIdOf(sid);
  const call = id === null ? undefined : store.records.detail(scope, id);
  if (!call) throw notFound('Call');
  return call;
}

function shown(call: CallDetail) {
  const parent = call.metadata?.parent_call_id;
  return presentTwilioCall(call, typeof parent === 'string' ? parent : null);
}

/** Whose secret signs what is asked: the webhook endpoint of the caller id, or else the organization's only one. */
function callingEndpoint(fromNumber: string, { scope }: Caller, store: Store): Endpoint {
  const number = store.phoneNumbers.findDialled(fromNumber, scope.mode);
  const isOwn = number?.organizationId === scope.organizationId;
  if (!isOwn && !(scope.mode === 'test' && fromNumber === testNumber)) throw new ApiError('CALLER_ID_NOT_ALLOWED');
  const endpoint = isOwn && number.endpointId !== null ? store.endpoints.get(scope, number.endpointId) : undefined;
  if (endpoint?.type === 'webhook') return endpoint;
  const { data } = store.endpoints.list(scope, { type: 'webhook', status: 'active' }, { limit: 2, offset: 0 });
  const [only, another] = data;
  if (only === undefined || another !== undefined)
    throw invalid({
      path: 'From',
      message: 'must be a number with a webhook endpoint, whose secret signs the requests',
    });
  return only;
}

/** null: the form has neither. `Twiml` wins. */
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
  const url = form.get('Url');
  return url === null ? null : { next: { url: urlOf('Url', url, options), method: form.method('Method') } };
}

function urlOf(name: string, url: string, { allowPrivateTargets }: TwilioOptions): string {
  const problem = targetProblem(url, { schemes: ['http', 'https'], allowPrivate: allowPrivateTargets });
  if (problem !== null) throw invalid({ path: name, message: problem });
  return new URL(url).href;
}

class Form {
  private readonly fields: URLSearchParams;

  constructor({ body }: FastifyRequest) {
    this.fields = new URLSearchParams(typeof body === 'string' ? body : '');
  }

  get(name: string): string | null {
    const value = this.fields.get(name);
    return value === '' ? null : value;
  }

  all(name: string): string[] {
    return this.fields.getAll(name).flatMap((each) => each.split(/[\s,]+/).filter((word) => word !== ''));
  }

  required(name: string): string {
    return this.get(name) ?? refuse(name, 'is required');
  }

  method(name: string): 'GET' | 'POST' {
    const value = (this.get(name) ?? 'POST').toUpperCase();
    return value === 'GET' || value === 'POST' ? value : refuse(name, 'must be GET or POST');
  }

  seconds(name: string, minimum: number, maximum: number, absent: number): number {
    const value = this.get(name);
    if (value === null) return absent;
    const seconds = Number(value);
    return Number.isFinite(seconds)
      ? Math.min(maximum, Math.max(minimum, seconds))
      : refuse(name, 'must be a number of seconds');
  }
}

function refuse(path: string, message: string): never {
  throw invalid({ path, message });
}
