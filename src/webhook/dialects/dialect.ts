/**
 * The platforms whose applications can steer calls. A question to the application is made in Twilio's fields (`request-bodies.ts`); a
 * dialect gives them the platform's names, signs the request as the platform does, and reads the answer.
 */
import type { Action, FollowUp } from '../actions.js';
import type { WebhookRequest } from '../webhook-request.js';

/** Twilio's fields of a request, those of the call included. */
export type FormFields = { readonly [name: string]: string };

/** What a request is about; `status`: progress, whose answer is ignored. */
export type Occasion = WebhookRequest['type'] | 'status';

/** Who signs: a webhook endpoint. */
export interface Signer {
  id: string;
  organizationId: string;
  /** Its `webhook_secret`. */
  secret: string;
}

export interface Dialect {
  /** Of the request for the first actions. */
  firstMethod: FollowUp['method'];
  body: 'form' | 'json';
  userAgent: string;
  accept: string;
  /** The fields in the platform's names. `data`: what our own JSON would say beside them. */
  fields(fields: FormFields, occasion: Occasion, data: WebhookRequest['data']): { [name: string]: unknown };
  /** Header fields that prove who sends this request. `body` undefined: GET. `sent`: the fields of a form. */
  sign(
    signer: Signer,
    request: { url: string; body: string | undefined },
    sent: FormFields,
  ): { [name: string]: string };
  /** Of the upgrade request of a stream, over the URL as the document has it. */
  signStream(signer: Signer, url: string): { [name: string]: string };
  /**
   * Reads a document that is not empty. undefined: not a type that this platform's applications answer with. null: it has no
   * instructions, and those before it go on. Throws `InstructionError`.
   */
  read(text: string, contentType: string, where: DocumentPlace): Action[] | null | undefined;
  /** What an empty answer means: the end of the call, as in TwiML, or that the earlier actions go on. */
  emptyAnswer: 'hangs_up' | 'goes_on';
}

export interface DocumentPlace {
  /** The base of relative URLs. */
  url: string;
  /** The endpoint's `status_callback_url`. */
  eventsUrl: string | null;
}

/** Types of an answer in XML. */
export const xmlTypes: ReadonlySet<string> = new Set(['application/xml', 'text/xml', 'text/html']);
