import { uuidv7 } from 'uuidv7';
import type { Cookies } from '../../net/cookies.js';
import { type HttpAnswer, HttpError, type HttpRequest, type SafeHttp } from '../../net/http.js';
import type { EndpointForCall } from '../store/routing/endpoints.js';
import { type Action, type FollowUp, InstructionError, maxTextLength } from './actions.js';
import { documentText } from './charset.js';
import { parseJsonActions } from './json-actions.js';
import { standardHeaders, twilioSignature } from './signature.js';
import { type CallState, callFields } from './twilio-parameters.js';
import { parseTwiml } from './twiml.js';

/** The content of a request to a webhook. */
export interface WebhookRequest {
  type:
    | 'call.incoming'
    | 'call.outgoing'
    | 'call.redirected'
    | 'call.gathered'
    | 'call.recorded'
    | 'call.transcribed'
    | 'call.screening'
    | 'call.dialed'
    | 'call.disconnected'
    | 'call.conferenced'
    | 'call.referred'
    | 'call.dequeued'
    | 'conference.waiting'
    | 'queue.waiting'
    | 'queue.whisper';
  /** The `data` of the JSON request. */
  data: { [name: string]: unknown };
  /** What Twilio's form has beside the fields of the call. */
  fields: { [name: string]: string };
}

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

/** Requests the actions of a call from a webhook endpoint. */
export class Webhook {
  constructor(
    readonly endpoint: EndpointForCall,
    private readonly http: SafeHttp,
    /** Cookies of the call: webhooks get back what they set, until the call ends. */
    private readonly cookies: Cookies,
    private readonly now: () => number = Date.now,
  ) {}

  get speaksTwiml(): boolean {
    return this.endpoint.providerConfig.format === 'twiml';
  }

  /** The URL of the endpoint. */
  get target(): FollowUp {
    return { url: new URL(this.endpoint.target).href, method: 'POST' };
  }

  /** A connect failure is tried once more. Rejects with `WebhookFailure`; `HttpError` `aborted` passes. */
  async ask(to: FollowUp, call: CallState, question: WebhookRequest, signal: AbortSignal): Promise<Action[]> {
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
    return actionsOf(answer, documentUrl(request, answer, to));
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
    return actionsOf(answer, documentUrl(request, answer, to));
  }

  /** The request without its execution, for responses that are ignored. */
  request(to: FollowUp, call: CallState, question: WebhookRequest): HttpRequest {
    const request = this.speaksTwiml ? this.form(to, call, question.fields) : this.json(to, call, question);
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

  /** A form as Twilio sends it, with its signature. */
  form(to: FollowUp, call: CallState, more: { [name: string]: string }): HttpRequest {
    return this.signedForm(to, { ...callFields(call), ...more });
  }

  /** A form that does not concern a call. Each hop of a redirect is signed for its own URL, as at Twilio. */
  signedForm(to: FollowUp, fields: { [name: string]: string }): HttpRequest {
    const headers = { accept: 'application/xml, text/xml', 'user-agent': 'TwilioProxy/1.1 Trunkline' };
    const token = this.endpoint.webhookSecret ?? '';
    const sign: HttpRequest['sign'] = (hop) => ({
      'x-twilio-signature': twilioSignature(token, hop.url, hop.body === undefined ? {} : fields),
    });
    const form = new URLSearchParams(fields).toString();
    if (to.method === 'GET') return { url: withQuery(to.url, form), method: 'GET', headers, sign, ...this.bounds() };
    return {
      url: to.url,
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' },
      body: form,
      sign,
      ...this.bounds(),
    };
  }

  private bounds(): Pick<HttpRequest, 'timeoutMs' | 'maxBodyBytes' | 'maxRedirects' | 'cookies'> {
    return { timeoutMs, maxBodyBytes, maxRedirects, cookies: this.cookies };
  }
}

function isAudioFile(url: string): boolean {
  return audioFile.test(new URL(url).pathname);
}

function withQuery(url: string, form: string): string {
  return `${url}${url.includes('?') ? '&' : '?'}${form}`;
}

/** The base of relative URLs in an answer: the requested URL, without the form fields that a GET adds, or the target of the last redirect. */
function documentUrl(request: HttpRequest, answer: HttpAnswer, to: FollowUp): string {
  return answer.url === request.url ? to.url : answer.url;
}

/** The type of an answer decides: JSON, TwiML, a text to say, or audio to play. */
function actionsOf(answer: HttpAnswer, url: string): Action[] {
  const { status } = answer;
  if (status < 200 || status > 299)
    throw new WebhookFailure(`The webhook answered ${status}.`, { http_status: status });
  const type = (answer.headers['content-type'] ?? '').split(';')[0]?.trim().toLowerCase() ?? '';
  try {
    if (type.startsWith('audio/')) return [{ action: 'play', url, loop: 1 }];
    const text = documentText(answer.body, answer.headers['content-type'] ?? '');
    if (text.trim() === '') return [];
    if (type === 'application/json') return parseJsonActions(parseJson(text), url);
    if (type === 'application/xml' || type === 'text/xml' || type === 'text/html') return parseTwiml(text, url);
    if (type === 'text/plain') return [spoken(text.trim())];
  } catch (error) {
    if (!(error instanceof InstructionError)) throw error;
    throw new WebhookFailure(`The webhook's answer cannot be followed: ${error.message}`, {
      http_status: status,
      where: error.where,
    });
  }
  throw new WebhookFailure(
    `The webhook's answer is neither JSON, XML, plain text nor audio (content-type "${type.slice(0, 100)}").`,
    {
      http_status: status,
      where: 'content-type',
    },
  );
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
