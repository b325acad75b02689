/** Amazon's own client holds a conversation with our simulator; and our messages and signatures are those that it makes. */
import { createHash } from 'node:crypto';
import { afterEach, describe, expect, test } from 'vitest';
import { tone } from '../../examples/tone-agent/sound.js';
import { bedrockPath, bedrockStream, chunk } from '../../media/agents/aws/bedrock-stream.js';
import { decodeEvent, encodeEvent, encodeHeaders, eventLength } from '../../media/agents/aws/event-stream.js';
import { EventStreamSigner } from '../../media/agents/aws/signature-v4.js';
import { decodeAudio, encodeAudio } from '../../src/simulator/providers/codec.js';
import { providerProtocols } from '../../src/simulator/providers/registry.js';
import { type ProviderSimulator, simulateProvider } from '../../src/simulator/providers/serve.js';
import { probeTone } from '../support/tone-probe.js';

type Header = { type: string; value: unknown };
type EventOfSdk = { headers: Record<string, Header>; body: Uint8Array };
type New<T> = new (...options: unknown[]) => T;

/** What is used of Amazon's packages. Their own types are thousands of files, which every check of types would read. */
interface Smithy {
  EventStreamCodec: New<{ encode(event: EventOfSdk): Uint8Array; decode(message: Uint8Array): EventOfSdk }>;
}
interface Signature {
  SignatureV4: New<{
    sign(request: object, o: { signingDate: Date }): Promise<{ headers: Record<string, string> }>;
    signMessage(
      o: { message: EventOfSdk; priorSignature: string },
      at: { signingDate: Date },
    ): Promise<{ signature: string }>;
  }>;
}
interface Bedrock {
  BedrockRuntimeClient: New<{
    send(command: unknown): Promise<{ body?: AsyncIterable<{ chunk?: { bytes?: Uint8Array } }> }>;
    destroy(): void;
  }>;
  InvokeModelWithBidirectionalStreamCommand: New<unknown>;
}
const loaded = async <T>(name: string) => (await import(name)) as T;
const { EventStreamCodec } = await loaded<Smithy>('@smithy/core/event-streams');
const { SignatureV4 } = await loaded<Signature>('@smithy/signature-v4');
const { BedrockRuntimeClient, InvokeModelWithBidirectionalStreamCommand } = await loaded<Bedrock>(
  '@aws-sdk/client-bedrock-runtime',
);

const MODEL = 'amazon.nova-2-sonic-v1:0';
const credentials = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'secret', sessionToken: 'session/token+=' };
const region = 'eu-north-1';
const now = new Date('2026-11-23T10:11:12.345Z');

const utf8 = (bytes: Uint8Array) => Buffer.from(bytes).toString();
const theirs = new EventStreamCodec(utf8, (text: string) => Buffer.from(text));

describe('messages', () => {
  const headers = { ':event-type': 'chunk', ':content-type': 'application/json', né: 'ü' };
  const asTheirs = Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, { type: 'string' as const, value }]),
  );

  test('are those of the SDK, and are read by it', () => {
    const plain = { ':event-type': headers[':event-type'], ':content-type': headers[':content-type'] };
    const { né: _odd, ...same } = asTheirs;
    const body = Buffer.from('{"bytes":"AQID"}');
    expect(encodeEvent(encodeHeaders(plain), body)).toEqual(Buffer.from(theirs.encode({ headers: same, body })));
    expect(Buffer.from(theirs.decode(chunk('{"event":{}}')).body).toString()).toBe(
      `{"bytes":"${Buffer.from('{"event":{}}').toString('base64')}"}`,
    );
  });

  test('of all types of headers are read', () => {
    const message = Buffer.from(
      theirs.encode({
        headers: {
          on: { type: 'boolean', value: true },
          off: { type: 'boolean', value: false },
          byte: { type: 'byte', value: 1 },
          short: { type: 'short', value: 2 },
          whole: { type: 'integer', value: 3 },
          binary: { type: 'binary', value: Buffer.from([1, 2]) },
          time: { type: 'timestamp', value: now },
          id: { type: 'uuid', value: '0192f000-1111-7000-8000-000000000001' },
          ':message-type': { type: 'string', value: 'event' },
        },
        body: Buffer.from('body'),
      }),
    );
    expect(eventLength(message)).toBe(message.length);
    const event = decodeEvent(message);
    expect(event?.headers).toEqual({ ':message-type': 'event' });
    expect(event?.payload.toString()).toBe('body');
  });

  test('that are damaged anywhere are not read', () => {
    const message = encodeEvent(encodeHeaders({ ':message-type': 'event', ':date': now }), Buffer.from('body'));
    for (let at = 0; at < message.length; at++) {
      const damaged = Buffer.from(message);
      damaged[at] = damaged[at]! ^ 0x40;
      if (at < 12) expect(eventLength(damaged)).toBe(-1);
      expect(decodeEvent(damaged)).toBeNull();
    }
  });
});

class Sha256 {
  readonly #hash;
  readonly #secret: Buffer | null;
  constructor(secret?: Uint8Array | string) {
    this.#secret = secret === undefined ? null : Buffer.from(secret as string);
    this.#hash = createHash('sha256');
    if (this.#secret !== null) this.#hash.update(padded(this.#secret, 0x36));
  }
  update(data: Uint8Array): void {
    this.#hash.update(data);
  }
  async digest(): Promise<Uint8Array> {
    const inner = this.#hash.digest();
    if (this.#secret === null) return inner;
    return createHash('sha256').update(padded(this.#secret, 0x5c)).update(inner).digest();
  }
  reset(): void {}
}

/** A key of HMAC (RFC 2104), 64 bytes. */
function padded(secret: Buffer, by: number): Buffer {
  const key = secret.length > 64 ? createHash('sha256').update(secret).digest() : secret;
  return Buffer.concat([key, Buffer.alloc(64 - key.length)]).map((byte) => byte ^ by) as Buffer;
}

test('signatures of the request and of its messages are those of the SDK', async () => {
  const host = `bedrock-runtime.${region}.amazonaws.com`;
  const signer = new SignatureV4({ credentials, region, service: 'bedrock', sha256: Sha256 });
  const ours = new EventStreamSigner(credentials, { region, service: 'bedrock' }, () => now);
  const type = 'application/vnd.amazon.eventstream';
  const headers = ours.request('POST', host, bedrockPath(MODEL), type);
  const signed = await signer.sign(
    {
      method: 'POST',
      protocol: 'https:',
      hostname: host,
      path: bedrockPath(MODEL),
      headers: {
        ':authority': host,
        'content-type': type,
        'x-amz-content-sha256': 'STREAMING-AWS4-HMAC-SHA256-EVENTS',
      },
    },
    { signingDate: now },
  );
  expect(headers.authorization).toBe(signed.headers.authorization);
  let priorSignature = /Signature=(\w+)$/.exec(signed.headers.authorization ?? '')?.[1] ?? '';
  for (const text of ['{"event":{"sessionStart":{}}}', '{"event":{"audioInput":{}}}']) {
    const body = chunk(text);
    const message = { headers: { ':date': { type: 'timestamp' as const, value: now } }, body };
    const { signature } = await signer.signMessage({ message, priorSignature }, { signingDate: now });
    priorSignature = signature;
    const sent = theirs.decode(ours.event(body));
    expect(Buffer.from(sent.headers[':chunk-signature']?.value as Uint8Array).toString('hex')).toBe(signature);
    expect(sent.headers[':date']?.value).toEqual(now);
    expect(Buffer.from(sent.body)).toEqual(body);
  }
});

test('the request names its address, and no message is signed twice alike', () => {
  const { url, headers, codec } = bedrockStream('https://example.com:8443', MODEL, region, credentials);
  expect(url).toBe(`https://example.com:8443/model/amazon.nova-2-sonic-v1%3A0/invoke-with-bidirectional-stream`);
  expect(headers['x-amz-security-token']).toBe(credentials.sessionToken);
  expect(headers.authorization).toContain(`/${region}/bedrock/aws4_request`);
  expect(codec?.encode('{}')).not.toEqual(codec?.encode('{}'));
});

let simulator: ProviderSimulator | undefined;
afterEach(async () => {
  await simulator?.close();
  simulator = undefined;
});

test("Amazon's client talks with the simulator", async () => {
  const options = { port: 0, greetingMs: 1000, answerDelayMs: 0 };
  simulator = await simulateProvider(providerProtocols.get('amazon_nova_sonic')!, options);
  const client = new BedrockRuntimeClient({ region, credentials, endpoint: simulator.url });
  const waiting: (() => void)[] = [];
  const queue: (object | null)[] = [];
  const say = (...events: (object | null)[]) => {
    queue.push(...events);
    for (const wake of waiting.splice(0)) wake();
  };
  async function* body() {
    while (true) {
      const next = queue.shift();
      if (next === null) return;
      if (next === undefined) await new Promise<void>((resolve) => waiting.push(resolve));
      else yield { chunk: { bytes: Buffer.from(JSON.stringify({ event: next })) } };
    }
  }
  const promptName = 'p';
  const audio = { promptName, contentName: 'audio' };
  const text = { promptName, contentName: 'hello' };
  const lpcm = {
    mediaType: 'audio/lpcm',
    sampleSizeBits: 16,
    channelCount: 1,
    audioType: 'SPEECH',
    encoding: 'base64',
  };
  say(
    { sessionStart: { inferenceConfiguration: { maxTokens: 1024 } } },
    { promptStart: { promptName, audioOutputConfiguration: { ...lpcm, sampleRateHertz: 24000, voiceId: 'matthew' } } },
    {
      contentStart: {
        ...audio,
        type: 'AUDIO',
        interactive: true,
        role: 'USER',
        audioInputConfiguration: { ...lpcm, sampleRateHertz: 16000 },
      },
    },
    { contentStart: { ...text, type: 'TEXT', interactive: true, role: 'USER' } },
    { textInput: { ...text, content: 'Greet me.' } },
    { contentEnd: text },
  );
  const response = await client.send(new InvokeModelWithBidirectionalStreamCommand({ modelId: MODEL, body: body() }));
  const names: string[] = [];
  const heard: Buffer[] = [];
  for await (const { chunk: part } of response.body ?? []) {
    const event = JSON.parse(utf8(part?.bytes ?? new Uint8Array(0))).event as Record<string, Record<string, string>>;
    const [name = ''] = Object.keys(event);
    names.push(name);
    if (name === 'audioOutput') heard.push(Buffer.from(event[name]?.content ?? '', 'base64'));
    if (name === 'usageEvent' && heard.length <= 10) {
      const spoken = encodeAudio(tone(700, 200, 16000), 'l16');
      const content = (bytes: Buffer) => ({ audioInput: { ...audio, content: bytes.toString('base64') } });
      say(content(spoken), content(Buffer.alloc(16000)));
    }
    if (name === 'textOutput' && event[name]?.content === 'You sang 700 hertz.')
      say({ contentEnd: audio }, { promptEnd: { promptName } }, { sessionEnd: {} }, null);
  }
  const samples = decodeAudio(Buffer.concat(heard), 'l16').filter((_, i) => i % 3 === 0);
  expect(probeTone(samples.subarray(0, 3000), 440).amplitude).toBeGreaterThan(5000);
  expect(names).toEqual(expect.arrayContaining(['completionStart', 'textOutput', 'audioOutput', 'usageEvent']));
  expect(simulator.calls[0]?.received.at(-1)).toMatchObject({ type: 'sessionEnd' });
  client.destroy();
});
