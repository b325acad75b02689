import { uuidv7 } from 'uuidv7';
import type { Cookies } from '../../net/cookies.js';
import { type HttpAnswer, HttpError, type HttpRequest, type SafeHttp } from '../../net/http.js';
import type { EndpointForCall } from '../store/routing/endpoints.js';
import { type Action, type FollowUp, InstructionError, maxTextLength } from './actions.js';
import { documentText } from './charset.js';
import type { Dialect, DocumentPlace, Occasion } from './dialects/dialect.js';
import { dialectOf } from './dialects/registry.js';
import { twilio } from './dialects/twilio.js';
import { parseJsonActions } from './json-actions.js';
import { standardHeaders } from './signature.js';
import { type CallState, callFields } from './twilio-parameters.js';
import type { WebhookRequest } from './webhook-request.js';

/** The reason why there are no instructions, as a sentence for the event. */
export class WebhookFailure extends Error {
  constructor(
    message: string,
    readonly facts: { http_status?: number; where?: string } = {},
  ) {
    super(message);
    this.name = 'WebhookFailure';
  }
}

const timeoutMs = 10_000;
const maxBodyBytes = 262_144;
/** Each redirect target is checked like the first URL. */
const maxRedirects = 5;
const audioFile = /\.(mp3|wav|ogg|opus|flac|aiff?|au|ulaw)$/i;

/** Where a webhook endpoint is asked about a new call: its target, with the method of its settings or of its platform. */
export function firstRequestOf(endpoint: Pick<EndpointForCall, 'target' | 'providerConfig'>): FollowUp {
  const { method } = endpoint.providerConfig;
  const isSet = method === 'GET' || method === 'POST';
  const { href } = new URL(endpoint.target);
  return { url: href, method: isSet ? method : (dialectOf(endpoint)?.firstMethod ?? 'POST') };
}

/** Requests the actions of a call from a webhook endpoint. */
export class Webhook {
  /** null: requests and answers are this product's own JSON. */
  private readonly dialect: Dialect | null;

  constructor(
    readonly endpoint: EndpointForCall,
    private readonly http: SafeHttp,
    /** Cookies of the call: webhooks get back what they set, until the call ends. */
    private readonly cookies: Cookies,
    private readonly now: () => number = Date.now,
  ) {
    this.dialect = dialectOf(endpoint);
  }

  /** The URL of the endpoint. */
  get target(): FollowUp {
    return firstRequestOf(this.endpoint);
  }

  /**
   * A connect failure is tried once more. null: the answer has no instructions, and the earlier ones go on. Rejects with
   * `WebhookFailure`; `HttpError` `aborted` passes.
   */
  async ask(to: FollowUp, call: CallState, question: WebhookRequest, signal: AbortSignal): Promise<Action[] | null> {
    const request = this.request(to, call, question);
    let answer: HttpAnswer;
    try {
      answer = await this.http.request(request, signal).catch((error: unknown) => {
        if (!(error instanceof HttpError) || error.code !== 'connect') throw error;
        return this.http.request(request, signal);
      });
    } catch (error) {
      if (!(error instanceof HttpError) || error.code === 'aborted') throw error;
      if (error.code === 'body_too_large' && isAudioFile(to.url)) return [{ action: 'play', url: to.url, loop: 1 }];
      throw new WebhookFailure(error.message);
    }
    return this.actionsOf(answer, documentUrl(request, answer, to));
  }

  /** As `ask`; an audio file is instructions to play it until the end. */
  async askMusic(to: FollowUp, call: CallState, question: WebhookRequest, signal: AbortSignal): Promise<Action[]> {
    const file: Action[] = [{ action: 'play', url: to.url, loop: 0 }];
    if (isAudioFile(to.url)) return file;
    const request = this.request(to, call, question);
    const answer = await this.http.request(request, signal).catch((error: unknown) => {
      if (!(error instanceof HttpError) || error.code === 'aborted') throw error;
      if (error.code === 'body_too_large') return null; // too large for instructions
      throw new WebhookFailure(error.message);
    });
    if (answer === null || answer.headers['content-type']?.startsWith('audio/')) return file;
    return this.actionsOf(answer, documentUrl(request, answer, to)) ?? [];
  }

  /** The request without its execution, for responses that are ignored. */
  request(to: FollowUp, call: CallState, question: WebhookRequest): HttpRequest {
    const { dialect } = this;
    const request =
      dialect === null
        ? this.json(to, call, question)
        : this.inDialect(to, dialect, { ...callFields(call), ...question.fields }, question.type, question.data);
    return { ...request, trace: { callId: call.callId, name: 'webhook' } };
  }

  private json(to: FollowUp, call: CallState, question: WebhookRequest): HttpRequest {
    const id = uuidv7();
    const nowMs = this.now();
    const body = JSON.stringify({
      id,
      type: question.type,
      created_at: new Date(nowMs).toISOString(),
      organization_id: call.organizationId,
      call_id: call.callId,
      data: question.data,
    });
    const sign: HttpRequest['sign'] = (hop) =>
      standardHeaders(this.endpoint.signingSecrets, id, nowMs, String(hop.body ?? ''));
    const headers = { 'content-type': 'application/json', accept: 'application/json, application/xml' };
    return { url: to.url, method: 'POST', headers, body, sign, ...this.bounds() };
  }

  /** A report of the call's progress, in the endpoint's dialect; Twilio's form for an endpoint without one. */
  form(to: FollowUp, call: CallState, more: { [name: string]: string }): HttpRequest {
    return this.signedForm(to, { ...callFields(call), ...more });
  }

  /** A report that does not concern one call. */
  signedForm(to: FollowUp, fields: { [name: string]: string }): HttpRequest {
    return this.inDialect(to, this.dialect ?? twilio, fields, 'status', {});
  }

  /** Each hop of a redirect is signed for its own URL. */
  private inDialect(
    to: FollowUp,
    dialect: Dialect,
    fields: { [name: string]: string },
    occasion: Occasion,
    data: WebhookRequest['data'],
  ): HttpRequest {
    const { userAgent, accept } = dialect;
    const headers = { accept, 'user-agent': userAgent };
    const sent = dialect.fields(fields, occasion, data);
    const texts = textsOf(sent);
    const { id, organizationId, webhookSecret } = this.endpoint;
    // An agent has no secret: what is sent in its name is not signed.
    const sign: HttpRequest['sign'] = ({ url, body }) =>
      webhookSecret === null
        ? {}
        : dialect.sign(
            { id, organizationId, secret: webhookSecret },
            { url, body: body === undefined ? undefined : String(body) },
            texts,
          );
    const bounds = { sign, ...this.bounds() };
    if (to.method === 'GET')
      return { url: withQuery(to.url, new URLSearchParams(texts).toString()), method: 'GET', headers, ...bounds };
    const [type, body] =
      dialect.body === 'json'
        ? ['application/json', JSON.stringify(sent)]
        : ['application/x-www-form-urlencoded; charset=utf-8', new URLSearchParams(texts).toString()];
    return { url: to.url, method: 'POST', headers: { ...headers, 'content-type': type }, body, ...bounds };
  }

  /** The type of an answer decides: a document, a text to say, or audio to play. */
  private actionsOf({ status, headers, body }: HttpAnswer, url: string): Action[] | null {
    if (status < 200 || status > 299)
      throw new WebhookFailure(`The webhook answered ${status}.`, { http_status: status });
    const contentType = headers['content-type'] ?? '';
    const type = contentType.split(';')[0]?.trim().toLowerCase() ?? '';
    try {
      if (type.startsWith('audio/')) return [{ action: 'play', url, loop: 1 }];
      const text = documentText(body, contentType);
      if (text.trim() === '') return this.dialect?.emptyAnswer === 'goes_on' ? null : [];
      if (type === 'text/plain') return [spoken(text.trim())];
      const read = this.read(text, type, url);
      if (read !== undefined) return read;
    } catch (error) {
      if (!(error instanceof InstructionError)) throw error;
      throw new WebhookFailure(`The webhook's answer cannot be followed: ${error.message}`, {
        http_status: status,
        where: error.where,
      });
    }
    throw new WebhookFailure(
      `The webhook's answer is neither JSON, XML, plain text nor audio (content-type "${type.slice(0, 100)}").`,
      { http_status: status, where: 'content-type' },
    );
  }

  /** undefined: no type of a document. A dialect may also answer with our own JSON actions, and our own format with TwiML. */
  private read(text: string, type: string, url: string): Action[] | null | undefined {
    const { dialect, endpoint } = this;
    const eventsUrl = endpoint.providerConfig.status_callback_url;
    const place: DocumentPlace = { url, eventsUrl: typeof eventsUrl === 'string' ? eventsUrl : null };
    const read = (dialect ?? twilio).read(text, type, place);
    if (read !== undefined || type !== 'application/json') return read;
    return parseJsonActions(parseJson(text), url);
  }

  private bounds(): Pick<HttpRequest, 'timeoutMs' | 'maxBodyBytes' | 'maxRedirects' | 'cookies'> {
    return { timeoutMs, maxBodyBytes, maxRedirects, cookies: this.cookies };
  }
}

function isAudioFile(url: string): boolean {
  return audioFile.test(new URL(url).pathname);
}

/** As query or form; values that are no texts as JSON. */
function textsOf(sent: { [name: string]: unknown }): { [name: string]: string } {
  return Object.fromEntries(
    Object.entries(sent).map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)]),
  );
}

function withQuery(url: string, form: string): string {
  return `${url}${url.includes('?') ? '&' : '?'}${form}`;
}

/** The base of relative URLs in an answer: the requested URL, without the form fields that a GET adds, or the target of the last redirect. */
function documentUrl(request: HttpRequest, answer: HttpAnswer, to: FollowUp): string {
  return answer.url === request.url ? to.url : answer.url;
}

function spoken(text: string): Action {
  if (text.length > maxTextLength) throw new InstructionError('body', `has more than ${maxTextLength} characters`);
  return { action: 'say', text, voice: null, language: null, loop: 1 };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new InstructionError('body', `is not JSON (${(error as Error).message.slice(0, 100)})`);
  }
}
