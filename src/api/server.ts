import type { AddressInfo, Socket } from 'node:net';
import multipart from '@fastify/multipart';
import Fastify, {
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify';
import { Histogram, type Registry } from 'prom-client';
import type { ConferencesOfAllNodes } from '../call/conference/conferences-of-all-nodes.js';
import type { OutboundCalls } from '../call/core/outbound-request.js';
import type { CallQueues } from '../call/queue/call-queues.js';
import { CallRates } from '../redis/call-rates.js';
import type { RateCounter } from '../redis/rate-counter.js';
import { StoreError } from '../store/database/errors.js';
import { newId } from '../store/database/ids.js';
import type { Store } from '../store/store.js';
import type { TranscriptionEngine, Translator } from '../transcription/engine.js';
import { type Identified, type IdentifySender, identify } from './auth/auth.js';
import { mayDo } from './auth/caller.js';
import { EventTokens } from './auth/event-tokens.js';
import { type TokenSettings, Tokens } from './auth/tokens.js';
import { allowOrigins } from './cors.js';
import { IdentityLogin } from './dashboard/identity-login.js';
import { registerDashboard } from './dashboard/pages.js';
import type { SignInLink } from './dashboard/sign-in-link.js';
import { ApiError, invalid } from './errors.js';
import { createLimits } from './limits/limits.js';
import { describeApi, openapiRoute } from './openapi.js';
import { RecordingFiles } from './recordings/recording-files.js';
import { RecordingUrls } from './recordings/recording-urls.js';
import { loneSurrogate, silentProblem, textOf } from './request/json-body.js';
import { uploadLimits } from './request/upload.js';
import { type Route, register } from './route.js';
import { type CallRoutesOptions, callRoutes } from './routes/calls/calls.js';
import { capsuleRoutes } from './routes/calls/capsule.js';
import { eventRoutes } from './routes/calls/events.js';
import { insightRoutes } from './routes/calls/insights.js';
import { outboundCallRoutes } from './routes/calls/outbound-calls.js';
import { overviewRoutes } from './routes/calls/overview.js';
import { recordingRoutes } from './routes/calls/recordings.js';
import { searchRoutes } from './routes/calls/search.js';
import { transcribeRoute } from './routes/calls/transcribe.js';
import { webhookRecordingRoutes } from './routes/calls/webhook-recordings.js';
import { docsRoute } from './routes/docs.js';
import { type OperationRoutesOptions, operationRoutes } from './routes/operations.js';
import { type ConnectionTestOptions, connectionTestRoutes } from './routes/routing/connection-tests.js';
import { endpointRoutes } from './routes/routing/endpoints.js';
import { phoneNumberRoutes } from './routes/routing/phone-numbers.js';
import { simulateRoutes } from './routes/routing/route-simulation.js';
import { type SimulateCall, simulatorRoutes } from './routes/routing/simulator.js';
import { trunkRoutes } from './routes/routing/trunks.js';
import { webhookDeliveryRoutes } from './routes/routing/webhook-deliveries.js';
import { accountRoutes } from './routes/tenants/account.js';
import { organizationRoutes } from './routes/tenants/organizations.js';
import { signInRoutes } from './routes/tenants/sign-in.js';
import { OutboundRules } from './rules/outbound-rules.js';
import { basicAsKey } from './twilio/basic.js';
import { registerTwilio } from './twilio/routes.js';
import { fieldErrors, validatorCompiler } from './validation.js';

export interface ApiOptions
  extends Omit<CallRoutesOptions, 'now' | 'recordingUrls' | 'recordingFiles'>,
    OperationRoutesOptions,
    ConnectionTestOptions {
  store: Store;
  /** The running conferences. */
  conferences?: ConferencesOfAllNodes;
  /** The queues of calls. */
  queues?: CallQueues;
  /** Whether targets may be private, loopback and link-local addresses. */
  allowPrivateTargets: boolean;
  /** Makes the SIP server reload its trunks. */
  onTrunksChanged: () => void | Promise<void>;
  /** Transcribes speech; null if there is no engine at the moment. */
  readonly transcription?: TranscriptionEngine | null | undefined;
  /** Translates what was transcribed; absent if not configured. */
  translation?: Translator;
  /** Shares request counts among several processes; if absent, each process counts alone. */
  redis?: RateCounter;
  /** Default: the calls of this process alone. */
  callRates?: CallRates;
  /** The identity provider whose tokens are accepted beside API keys; absent if there is none. */
  tokens?: TokenSettings;
  /** The id under which the identity provider knows the dashboard; absent if people do not sign in there. */
  loginClientId?: string;
  /** Origins of pages that may use the API from a browser; `*` for all. Default: none but this server's own. */
  corsOrigins?: readonly string[];
  /** The link that signs in to a fresh server once. */
  signInLink?: SignInLink;
  /** The folder of the built dashboard; absent if it is not served. */
  dashboardFolder?: string;
  /** The interval of heartbeat comments on an idle event stream. */
  heartbeatMs?: number;
  /** The folder of the recordings. */
  recordingsFolder: string;
  /** The public URL of this server, without a trailing slash. Default: the address it listens on. */
  publicUrl?: string;
  /** Places simulated calls to numbers of this server; absent if there is no simulator. */
  simulateCall?: SimulateCall;
  /** Places outbound calls; if absent, none can be placed. */
  outboundCalls?: OutboundCalls;
  /** Called when a retry of an event delivery was requested. */
  onWebhookRetry?: () => void;
  metrics: Registry;
  log?: FastifyBaseLogger;
  /** Wall clock, milliseconds. */
  now?: () => number;
}

export interface ApiServer {
  host: string;
  port: number;
  /** Waits at most 5 s for running requests, then closes. */
  close(): Promise<void>;
}

/** Prevents browsers from content sniffing, framing and caching. */
const safeHeaders = { 'x-content-type-options': 'nosniff', 'x-frame-options': 'DENY', 'cache-control': 'no-store' };

const bodyLimitBytes = 1_048_576;
const closeLimitMs = 5_000;
const lingerMs = 1_000;

/** Starts listening. Rejects with one clear sentence if the address is not available. */
export async function startApi(options: ApiOptions & { host: string; port: number }): Promise<ApiServer> {
  const { host, port } = options;
  const app = await buildApi(options);
  try {
    await app.listen({ host, port });
  } catch (error) {
    await app.close();
    const { code, message } = error as NodeJS.ErrnoException;
    const why = code === 'EADDRINUSE' ? 'the port is in use' : code === 'EACCES' ? 'not permitted' : message;
    throw new Error(`Cannot listen on http://${host}:${port}: ${why}`, { cause: error });
  }
  const address = app.server.address() as AddressInfo;
  return { host: address.address, port: address.port, close: () => closeWithin(app, closeLimitMs) };
}

/** Waits for running requests, for at most `ms`. */
async function closeWithin(app: FastifyInstance, ms: number): Promise<void> {
  const limit = setTimeout(() => app.server.closeAllConnections(), ms);
  try {
    await app.close();
  } finally {
    clearTimeout(limit);
  }
}

/** The API without a socket. */
export async function buildApi(options: ApiOptions): Promise<FastifyInstance> {
  const app = Fastify({
    ...(options.log ? { loggerInstance: options.log } : { logger: false }),
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'request_id' }),
    trustProxy: options.trustedProxies?.length ? options.trustedProxies : false,
    bodyLimit: bodyLimitBytes,
    // Against slow clients: headers must arrive within 10 s, a request within 30 s.
    requestTimeout: 30_000,
    connectionTimeout: 60_000,
    keepAliveTimeout: 65_000,
    http: { headersTimeout: 10_000, connectionsCheckingInterval: 5_000 },
    forceCloseConnections: 'idle',
    genReqId: newId,
    requestIdHeader: false,
    clientErrorHandler: answerUnreadable,
    frameworkErrors: (error, request, reply) => sendError(error, request, reply as FastifyReply),
  });
  app.server.maxConnections = 2_000;
  app.decorateRequest('caller', null);
  app.setValidatorCompiler(validatorCompiler);
  // `present.ts` produces exactly what the schemas describe; a compiled serializer would only hide differences.
  app.setSerializerCompiler(() => (data) => JSON.stringify(data));
  readJsonOnly(app);
  observe(app, options);
  app.setErrorHandler(sendError);
  const tokens = options.tokens ? new Tokens(options.tokens, options.now) : null;
  const identifySender: IdentifySender = (headers) => identify(options.store, tokens, headers);
  const eventTokens = new EventTokens(options.now);
  allowOrigins(app, options.corsOrigins ?? []);
  await guard(app, options, identifySender, eventTokens);
  await describeApi(app);

  const now = options.now ?? Date.now;
  const publicUrl = () => options.publicUrl ?? listeningUrl(app.server.address() as AddressInfo | null);
  const recordingUrls = new RecordingUrls({ links: options.store.recordingLinks, publicUrl, now });
  const calls = { ...options, recordingUrls, recordingFiles: new RecordingFiles(options.recordingsFolder), now };
  const rules = new OutboundRules(
    options.store,
    options.outboundCalls,
    options.callRates ?? new CallRates(null, options.now),
  );
  const routes: Route[] = [
    ...callRoutes(calls),
    ...insightRoutes(calls),
    ...overviewRoutes(calls),
    ...searchRoutes(calls),
    ...recordingRoutes(calls),
    ...capsuleRoutes(calls),
    ...simulatorRoutes(calls),
    ...endpointRoutes(options),
    ...phoneNumberRoutes(options),
    ...trunkRoutes(options),
    ...simulateRoutes(calls),
    ...connectionTestRoutes(options),
    ...eventRoutes(app, { ...options, identifySender, eventTokens }),
    ...outboundCallRoutes({ ...calls, rules }),
    ...webhookDeliveryRoutes({ store: options.store, onRetry: options.onWebhookRetry ?? (() => {}) }),
    ...webhookRecordingRoutes(calls),
    ...accountRoutes(options),
    ...organizationRoutes(options),
    ...signInRoutes({ link: options.signInLink, login: identityLogin(options, tokens) }),
    ...operationRoutes(options),
    openapiRoute(app),
    docsRoute(app),
  ];
  for (const route of routes) register(app, route, options.store);
  const transcribe = transcribeRoute(options);
  // Forms are accepted on this path only.
  await app.register(async (forms) => {
    await forms.register(multipart, { limits: uploadLimits });
    register(forms, transcribe, options.store);
  });
  if (options.dashboardFolder !== undefined) await registerDashboard(app, options.dashboardFolder);
  await registerTwilio(app, { ...options, recordingFiles: calls.recordingFiles, rules, now, refusalOf });
  answerUnknownPaths(app, [...routes, transcribe]);
  await app.ready();
  return app;
}

/** Sign-in at the identity provider, if both its tokens are accepted and it knows the dashboard. */
function identityLogin({ tokens: settings, loginClientId }: ApiOptions, tokens: Tokens | null) {
  const issuer = settings?.issuers[0];
  if (!settings || !tokens || loginClientId === undefined || issuer === undefined) return undefined;
  const accepts = async (token: string) => Tokens.looksLike(token) && (await tokens.person(token)) !== undefined;
  return new IdentityLogin({ issuer, clientId: loginClientId, audience: settings.audience }, accepts);
}

/** The URL of the server; the loopback address if it listens on all addresses. */
function listeningUrl(address: AddressInfo | null): string {
  if (address === null) return 'http://127.0.0.1';
  const host = { '0.0.0.0': '127.0.0.1', '::': '[::1]' }[address.address] ?? address.address;
  return `http://${host.includes(':') && !host.startsWith('[') ? `[${host}]` : host}:${address.port}`;
}

/** Answers input that is not HTTP, too large, or too slow with an API error, then closes the socket. */
function answerUnreadable(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const [status, message] =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? ['431 Request Header Fields Too Large', 'The headers are too large']
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? ['408 Request Timeout', 'The request took too long to arrive']
        : ['400 Bad Request', 'This is not a valid HTTP request'];
  const body = JSON.stringify({ ...invalid({ path: '', message: message.toLowerCase() }).body(), error: message });
  const head = [
    `HTTP/1.1 ${status}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    `X-Request-Id: ${newId()}`,
    'Connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
  // Destroy the connection if the client neither reads the response nor closes it.
  const linger = setTimeout(() => socket.destroy(), lingerMs);
  socket.once('close', () => clearTimeout(linger));
}

/** Accepts JSON only; an absent body is an empty object. Names such as `__proto__` are rejected. */
function readJsonOnly(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser('error', 'error');
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    ['application/json', 'application/merge-patch+json'],
    { parseAs: 'buffer' },
    (request, bytes, done) => {
      const text = textOf(bytes as Buffer);
      if (text === null) return done(invalid({ path: '', message: 'the body is not UTF-8' }));
      if (text === '') return done(null, {});
      parse(request, text, (error, value) => {
        if (error) return done(error);
        const problem = silentProblem(text);
        if (problem !== null) return done(invalid({ path: '', message: problem }));
        const half = loneSurrogate(text, value);
        if (half === null) done(null, value);
        else
          done(
            invalid({
              path: half,
              message: 'has half of a surrogate pair (\\ud800 to \\udfff), which is not a character',
            }),
          );
      });
    },
  );
}

/** Authenticates, limits and authorizes requests, in the order in which they are rejected. */
async function guard(
  app: FastifyInstance,
  options: ApiOptions,
  identifySender: IdentifySender,
  eventTokens: EventTokens,
): Promise<void> {
  const limits = await createLimits(app, { days: options.store.requestDays, redis: options.redis ?? null });
  app.addHook('onRequest', async (request, reply) => {
    reply.headers(safeHeaders).header('x-request-id', request.id);
    const { access, unlimited, signedLink, basic, eventToken } = request.routeOptions.config;
    if (unlimited) return;
    if (access === 'public') return limits.countAddress(request);
    if (signedLink && isSigned(request)) return limits.countAddress(request);
    // An unknown path requires no role.
    const isUnknownPath = access === undefined;
    const isBasic = basic ?? (isUnknownPath && /^basic /i.test(request.headers.authorization ?? ''));
    if (eventToken) {
      const { token } = request.query as { token?: unknown };
      const known = typeof token === 'string' ? eventTokens.redeem(token) : undefined;
      if (known) Object.assign(request.raw.headers, known); // the stream checks these credentials again and again
    }
    let identified: Identified;
    try {
      identified = await identifySender(isBasic ? basicAsKey(request.headers) : request.headers);
    } catch (error) {
      await limits.countAddress(request);
      if (isUnknownPath && error instanceof ApiError) return;
      throw error;
    }
    const { caller, refusal } = identified;
    // A request for a forbidden organization counts against the caller's own; its error precedes that of the limit.
    const forbidden = refusal?.code === 'FORBIDDEN' ? refusal : null;
    try {
      await limits.countOrganization(reply, caller.organization);
    } catch (error) {
      throw forbidden ?? error;
    }
    if (refusal) throw refusal;
    if (isUnknownPath) return;
    if (!mayDo(caller.role, access)) throw new ApiError('FORBIDDEN', `This operation requires the role ${access}`);
    request.caller = caller;
  });
}

/** Whether the request has a signature instead of a key. */
function isSigned({ headers, query }: FastifyRequest): boolean {
  const hasKey = headers.authorization !== undefined || headers['x-api-key'] !== undefined;
  return !hasKey && Object.hasOwn(query as object, 'signature');
}

function sendError(error: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
  const refusal = refusalOf(error, request);
  // Set the request id again: errors before routing skip the hook that sets it.
  reply.code(refusal.status).headers({ ...refusal.headers, 'x-request-id': request.id, ...safeHeaders });
  reply.type('application/json; charset=utf-8').send(JSON.stringify(refusal.body()));
}

/** Converts any error to the API error for the client. */
function refusalOf(error: Error & { code?: string; statusCode?: number }, request: FastifyRequest): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof StoreError) return storeRefusal(error, request);
  const validation = (error as FastifyError).validation;
  if (validation) return invalid(...fieldErrors(validation));
  switch (error.statusCode) {
    case 400:
      return invalid({ path: '', message: error.message });
    case 404:
      return new ApiError('NOT_FOUND');
    case 413:
      return new ApiError('PAYLOAD_TOO_LARGE');
    case 414:
      return invalid({ path: '', message: 'the path is too long' });
    case 415:
      return new ApiError('UNSUPPORTED_MEDIA_TYPE');
  }
  request.log.error({ err: error }, 'a request failed');
  return new ApiError('INTERNAL_ERROR');
}

function storeRefusal(error: StoreError, request: FastifyRequest): ApiError {
  switch (error.code) {
    case 'unavailable':
      return new ApiError('SERVICE_UNAVAILABLE', undefined, undefined, { 'retry-after': '1' });
    case 'too_slow':
    case 'too_many':
      return new ApiError('SERVICE_UNAVAILABLE', error.message, undefined, { 'retry-after': '5' });
    case 'number_taken':
      return new ApiError('NUMBER_TAKEN', error.message, error.details);
    case 'unknown_endpoint':
      return new ApiError('NOT_FOUND', 'Endpoint not found', error.details);
    default:
      request.log.error({ err: error }, 'a request failed');
      return new ApiError('INTERNAL_ERROR');
  }
}

/** Answers 405 if the path exists with another method, else 404. */
function answerUnknownPaths(app: FastifyInstance, routes: readonly Route[]): void {
  const known = routes.map(({ method, path }) => ({
    method,
    pattern: new RegExp(`^${path.replaceAll('.', '\\.').replace(/:\w+/g, '[^/]+')}$`),
  }));
  app.setNotFoundHandler((request) => {
    const path = request.url.split('?')[0] ?? '';
    const methods = known.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method as string);
    if (methods.length === 0) throw new ApiError('NOT_FOUND', 'The path does not exist');
    if (methods.includes('GET')) methods.push('HEAD');
    throw new ApiError('METHOD_NOT_ALLOWED', undefined, undefined, { allow: methods.join(', ') });
  });
}

function observe(app: FastifyInstance, { metrics, log }: ApiOptions): void {
  const durations = new Histogram({
    name: 'trunkline_http_request_duration_seconds',
    help: 'Time from request to response, by route and status',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10],
    registers: [metrics],
  });
  type Duration = Histogram.Internal<'method' | 'route' | 'status'>;
  // Cached by route and status, because the lookup by labels takes longer than counting.
  const known = new Map<unknown, Record<number, Duration>>();
  const durationOf = (method: string, { url, config }: FastifyRequest['routeOptions'], status: number): Duration => {
    // to Fastify, all unknown paths are one route with any method
    if (url === undefined) return durations.labels({ method, route: 'unknown', status: String(status) });
    const ofRoute = known.get(config) ?? {};
    if (!known.has(config)) known.set(config, ofRoute);
    ofRoute[status] ??= durations.labels({ method, route: url, status: String(status) });
    return ofRoute[status];
  };
  app.addHook('onResponse', (request, reply, done) => {
    const { elapsedTime, statusCode } = reply;
    const { method, routeOptions } = request; // a getter that creates a new object
    durationOf(method, routeOptions, statusCode).observe(elapsedTime / 1000);
    if (log)
      request.log.info(
        {
          method,
          route: routeOptions.url ?? 'unknown',
          status: String(statusCode),
          ms: Math.round(elapsedTime),
          organization_id: request.caller?.scope.organizationId,
        },
        'request',
      );
    done();
  });
}
