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
    | 'call.notified'
    | 'conference.waiting'
    | 'queue.waiting'
    | 'queue.whisper';
  /** The `data` of the JSON request. */
  data: { [name: string]: unknown };
  /** What Twilio's form has beside the fields of the call. */
  fields: { [name: string]: string };
}
