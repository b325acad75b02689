/**
 * Amazon Bedrock's `InvokeModelWithBidirectionalStream`: the model's events, JSON in base64 in JSON, as signed messages of an event stream.
 * Source: Amazon Bedrock API reference; the same as `@aws-sdk/client-bedrock-runtime` sends.
 */
import type { MessageCodec, Upgrade } from '../agent.js';
import { asText, parseObject } from '../json.js';
import { decodeEvent, encodeEvent, encodeHeaders, eventLength, PRELUDE_BYTES } from './event-stream.js';
import { type AwsCredentials, EventStreamSigner } from './signature-v4.js';

const CONTENT_TYPE = 'application/vnd.amazon.eventstream';
const CHUNK_HEADERS = encodeHeaders({
  ':event-type': 'chunk',
  ':message-type': 'event',
  ':content-type': 'application/json',
});

/** The path of the operation for a model, encoded. */
export function bedrockPath(modelId: string): string {
  return `/model/${encodeURIComponent(modelId)}/invoke-with-bidirectional-stream`;
}

/** One request. `endpoint`: URL of the service, without a path. */
export function bedrockStream(endpoint: string, modelId: string, region: string, credentials: AwsCredentials): Upgrade {
  const { origin, host } = new URL(endpoint);
  const path = bedrockPath(modelId);
  const signer = new EventStreamSigner(credentials, { region, service: 'bedrock' });
  const headers = signer.request('POST', host, path, CONTENT_TYPE);
  const codec: MessageCodec = {
    headerBytes: PRELUDE_BYTES,
    lengthOf: eventLength,
    encode: (message) => signer.event(chunk(message)),
    decode: readChunk,
  };
  return { url: origin + path, headers, codec };
}

/** The message that contains one event of the model. */
export function chunk(event: string | Uint8Array): Buffer {
  const bytes =
    typeof event === 'string' ? Buffer.from(event) : Buffer.from(event.buffer, event.byteOffset, event.length);
  return encodeEvent(CHUNK_HEADERS, Buffer.from(`{"bytes":"${bytes.toString('base64')}"}`, 'latin1'));
}

/** The event of the model in a message; of an exception `{"exception": name}`; the message itself when it cannot be read. */
function readChunk(message: Buffer): string | Uint8Array {
  const event = decodeEvent(message);
  if (event === null) return Buffer.from(message);
  const { headers, payload } = event;
  const exception = headers[':exception-type'] ?? headers[':error-code'];
  if (exception !== undefined) return JSON.stringify({ exception });
  const bytes = asText(parseObject(payload.toString())?.bytes, Number.POSITIVE_INFINITY);
  return bytes === null ? Buffer.from(message) : Buffer.from(bytes, 'base64').toString();
}
