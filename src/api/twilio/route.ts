/** The parts shared by the operations of Twilio's REST API. */
import type { FastifyRequest } from 'fastify';
import type { ConferencesOfAllNodes } from '../../call/conference/conferences-of-all-nodes.js';
import type { CallCommands } from '../../call/core/command.js';
import type { OutboundCalls } from '../../call/core/outbound-request.js';
import type { CallQueues } from '../../call/queue/call-queues.js';
import { dialledNumber } from '../../call/routing/dialled-number.js';
import type { CallDetail } from '../../store/calls/call-records.js';
import type { Endpoint } from '../../store/routing/endpoints.js';
import type { Store } from '../../store/store.js';
import { e164 } from '../../webhook/actions.js';
import type { Caller } from '../auth/caller.js';
import { ApiError, invalid, notFound } from '../errors.js';
import type { RecordingFile, RecordingFiles } from '../recordings/recording-files.js';
import { calledAddressOf } from '../request/called-address.js';
import { phoneNumberOf } from '../request/phone-number.js';
import { type OutboundRules, testNumber } from '../rules/outbound-rules.js';
import type { Form } from './form.js';
import { callIdOf } from './resources.js';

export interface TwilioOptions {
  store: Store;
  liveCalls: CallCommands;
  outboundCalls?: OutboundCalls;
  conferences?: ConferencesOfAllNodes;
  queues?: CallQueues;
  rules: OutboundRules;
  recordingFiles: RecordingFiles;
  allowPrivateTargets: boolean;
  now: () => number;
  refusalOf(error: Error, request: FastifyRequest): ApiError;
}

/** One operation, under `/2010-04-01/Accounts/{AccountSid}/`. */
export interface TwilioRoute {
  method: 'GET' | 'POST' | 'DELETE';
  path: string;
  handle(request: FastifyRequest, caller: Caller, options: TwilioOptions): TwilioAnswer;
}

/** `body` is null if the response has none; `audio` is sent instead of it. */
export type TwilioAnswer = Promise<{
  status: number;
  body: object | null;
  audio?: { id: string; file: RecordingFile };
}>;

/** The endpoint whose secret signs the requests: the webhook endpoint of the caller id (a number or a name), else the organization's only one. */
export async function callingEndpoint(fromNumber: string, { scope }: Caller, store: Store): Promise<Endpoint> {
  const number = store.phoneNumbers.findDialled(fromNumber, scope.mode);
  const isOwn = number?.organizationId === scope.organizationId;
  if (!isOwn && e164.test(fromNumber) && !(scope.mode === 'test' && fromNumber === testNumber))
    throw new ApiError('CALLER_ID_NOT_ALLOWED');
  const endpoint =
    isOwn && number.endpointId !== null ? await store.endpoints.get(scope, number.endpointId) : undefined;
  if (endpoint?.type === 'webhook') return endpoint;
  const { data } = await store.endpoints.list(scope, { type: 'webhook', status: 'active' }, { limit: 2, offset: 0 });
  const [only, another] = data;
  if (only === undefined || another !== undefined)
    throw invalid({
      path: 'From',
      message: 'must be a number with a webhook endpoint, whose secret signs the requests',
    });
  return only;
}

/** The call requested by a form of `Calls` or `Participants`; time limits default to 60 and 14,400 seconds. */
export function askedByForm(form: Form, call: CallParties & { endpointId: string }, allowPrivateTargets: boolean) {
  return {
    ...call,
    ...machineDetectionOf(form, allowPrivateTargets),
    ringTimeoutMs: form.seconds('Timeout', 5, 600, 60) * 1000,
    maxDurationMs: form.seconds('TimeLimit', 1, 86_400, 14_400) * 1000,
    ...({ onMachine: 'talk', onScreening: 'talk', onOperator: 'talk', onFax: 'talk' } as const),
    metadata: {},
    record: form.flag('Record'),
  };
}

/** Unless `AsyncAmd` is true, instructions are requested after the detection result. */
function machineDetectionOf(form: Form, allowPrivateTargets: boolean) {
  const mode = form.word('MachineDetection', ['Enable', 'DetectMessageEnd']);
  const isAsync = form.flag('AsyncAmd') ?? false;
  const limitSec = form.seconds('MachineDetectionTimeout', 3, 59, 30);
  const status = form.followUp('AsyncAmdStatusCallback', 'AsyncAmdStatusCallbackMethod', allowPrivateTargets);
  if (mode === null) return { machineDetection: 'off' as const };
  return {
    machineDetection: mode === 'Enable' ? ('detect' as const) : ('detect_message_end' as const),
    machineDetectionLimitMs: limitSec * 1000,
    waitsForMachine: !isAsync,
    machineStatus: isAsync ? status : null,
  };
}

/** Who calls whom. `sipAuth`: what answers the challenge of a called SIP address. */
export interface CallParties {
  fromNumber: string;
  toNumber: string;
  sipAuth: { username: string; password: string } | null;
}

/** `To` of a form: E.164, a national number of the country of `From`, `client:` or `sip:`. Towards these two `From` may be a name as well. */
export function partiesOf(form: Form, { allowPrivateTargets }: TwilioOptions): CallParties {
  const to = form.required('To');
  const from = form.required('From');
  const address = calledAddressOf(to, 'To', allowPrivateTargets);
  const name = /^(?:client:|sips?:)?([A-Za-z_][\w+.-]{0,63})(?:@|$)/i.exec(from)?.[1];
  const fromNumber = address !== null && name !== undefined ? name : phoneNumberOf(from, 'From');
  const toNumber = address ?? dialledNumber(to, fromNumber) ?? phoneNumberOf(to, 'To');
  const username = address?.startsWith('sip') ? form.get('SipAuthUsername') : null;
  const sipAuth = username === null ? null : { username, password: form.get('SipAuthPassword') ?? '' };
  return { fromNumber, toNumber, sipAuth };
}

/** The call of the path. */
export async function callOf(
  request: FastifyRequest,
  { scope }: Caller,
  { store }: TwilioOptions,
): Promise<CallDetail> {
  const sid = (request.params as { call: string }).call.replace(/\.json$/, '');
  const id = callIdOf(sid);
  const call = id === null ? undefined : await store.records.detail(scope, id);
  if (!call) throw notFound('Call');
  return call;
}
