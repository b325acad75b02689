/** Amazon Nova Sonic on Bedrock: contents that begin and end, in an event stream over HTTP/2. */
import { randomUUID } from 'node:crypto';
import { chunk } from '../../../../media/agents/aws/bedrock-stream.js';
import {
  decodeEvent,
  encodeEvent,
  encodeHeaders,
  eventLength,
  PRELUDE_BYTES,
} from '../../../../media/agents/aws/event-stream.js';
import { decodeAudio, encodeAudio } from '../codec.js';
import { jsonOf, type ProviderProtocol, type ServerCodec, within } from '../provider-protocol.js';

const path = /^\/model\/[^/]+\/invoke-with-bidirectional-stream$/;
const signature =
  /^AWS4-HMAC-SHA256 Credential=[A-Za-z0-9]+\/\d{8}\/[a-z0-9-]+\/bedrock\/aws4_request, SignedHeaders=[a-z0-9:;-]+, Signature=[0-9a-f]{64}$/;

const codec = (): ServerCodec => ({
  headerBytes: PRELUDE_BYTES,
  lengthOf: eventLength,
  encode: chunk,
  encodeError: (message) =>
    encodeEvent(
      encodeHeaders({ ':message-type': 'exception', ':exception-type': 'modelStreamErrorException' }),
      Buffer.from(JSON.stringify({ message })),
    ),
  /** A signed message contains the message with the event; an empty one ends the stream. */
  decode: (message) => {
    const inner = decodeEvent(message)?.payload;
    if (inner === undefined || inner.length === 0) return null;
    const bytes = jsonOf(decodeEvent(inner)?.payload ?? '')?.bytes;
    return typeof bytes === 'string' ? Buffer.from(bytes, 'base64').toString() : null;
  },
  /** `{event: {name: fields}}` as `{type: name, …fields}`. */
  describe: (message) => {
    const [name, fields] = Object.entries(within(jsonOf(Buffer.from(message).toString()), 'event'))[0] ?? [];
    return name === undefined ? null : { type: name, ...(fields as object) };
  },
});

/** In each reply, whatever is said. */
const used = { input: { speechTokens: 80, textTokens: 120 }, output: { speechTokens: 40, textTokens: 10 } };
const times = ({ speechTokens, textTokens }: typeof used.input, count: number) => ({
  speechTokens: speechTokens * count,
  textTokens: textTokens * count,
});

export const amazonNovaSonic: ProviderProtocol = {
  provider: 'amazon_nova_sonic',
  path: '',
  late: true,
  refuse: ({ url, headers }) => {
    if (!path.test(url.pathname)) return 404;
    const isSigned = signature.test(headers.authorization ?? '') && typeof headers['x-amz-date'] === 'string';
    return isSigned ? null : 403;
  },
  byteStream: { over: 'http2', codec },
  open(wire, agentInput) {
    const ids = { sessionId: randomUUID(), promptName: '', completionId: randomUUID() };
    const contents = new Map<string, Record<string, unknown>>();
    let speaksHz = 0;
    let began = false;
    let started = 0;
    let audioContent: string | null = null;
    let agentText = '';
    let replies = 0;
    const send = (name: string, fields: Record<string, unknown>) =>
      wire.send({ event: { [name]: { ...ids, ...fields } } });
    const invalid = (text: string) => wire.close(1007, text);
    const begin = (type: string, role: string, stage?: string): string => {
      started += 1;
      const contentId = `content-${started}`;
      const additionalModelFields = JSON.stringify({ generationStage: stage });
      send('contentStart', { contentId, type, role, ...(stage && { additionalModelFields }) });
      return contentId;
    };
    const text = (role: string, stage: string, content: string, stopReason: string) => {
      const contentId = begin('TEXT', role, stage);
      send('textOutput', { contentId, role, content });
      send('contentEnd', { contentId, type: 'TEXT', stopReason });
    };
    const callFunction = (toolName: string, args: object) => {
      const contentId = begin('TOOL', 'TOOL');
      send('toolUse', { contentId, toolName, toolUseId: randomUUID(), content: JSON.stringify(args) });
      send('contentEnd', { contentId, type: 'TOOL', stopReason: 'TOOL_USE' });
    };
    const startAudio = (fields: Record<string, unknown>) => {
      const rate = within(fields, 'audioInputConfiguration').sampleRateHertz;
      if (began || speaksHz === 0 || typeof rate !== 'number') return invalid('Audio needs a prompt and a rate.');
      began = true;
      send('completionStart', {});
      agentInput.begin({ listensHz: rate, speaksHz });
    };
    const onEvent: Record<string, (fields: Record<string, unknown>) => void> = {
      sessionStart: () => {},
      promptStart: (fields) => {
        ids.promptName = String(fields.promptName);
        speaksHz = Number(within(fields, 'audioOutputConfiguration').sampleRateHertz);
      },
      contentStart: (fields) => {
        contents.set(String(fields.contentName), fields);
        if (fields.type === 'AUDIO') startAudio(fields);
      },
      textInput: ({ contentName, content }) => {
        const { role, interactive } = contents.get(String(contentName)) ?? {};
        if (role === undefined) return invalid('No contentStart for this content.');
        if (role !== 'USER' || interactive !== true) return;
        if (!began) return invalid('Texts need open audio.');
        agentInput.read(String(content));
        agentInput.greet();
      },
      audioInput: ({ contentName, content }) => {
        if (contents.get(String(contentName))?.type !== 'AUDIO') return invalid('No contentStart for this audio.');
        agentInput.hear(decodeAudio(Buffer.from(String(content), 'base64'), 'l16'));
      },
      toolResult: () => {},
      contentEnd: ({ contentName }) => void contents.delete(String(contentName)),
      promptEnd: () => {},
      sessionEnd: () => wire.close(1000),
    };
    return {
      message(data) {
        const [name = '', fields] = Object.entries(within(jsonOf(data), 'event'))[0] ?? [];
        const handle = onEvent[name];
        if (handle === undefined) invalid('Unknown event.');
        else handle((fields ?? {}) as Record<string, unknown>);
      },
      interrupted: (turn) => {
        if (turn === null || audioContent === null) return;
        send('contentEnd', { contentId: audioContent, type: 'AUDIO', stopReason: 'INTERRUPTED' });
        text('ASSISTANT', 'FINAL', '{ "interrupted" : true }', 'INTERRUPTED');
      },
      heard: (said) => text('USER', 'FINAL', said, 'END_TURN'),
      said: (said) => {
        agentText = said;
        text('ASSISTANT', 'SPECULATIVE', said, 'PARTIAL_TURN');
        audioContent = begin('AUDIO', 'ASSISTANT');
      },
      audio: (samples) =>
        send('audioOutput', { contentId: audioContent, content: encodeAudio(samples, 'l16').toString('base64') }),
      finished: () => {
        send('contentEnd', { contentId: audioContent, type: 'AUDIO', stopReason: 'END_TURN' });
        text('ASSISTANT', 'FINAL', agentText, 'END_TURN');
        replies += 1;
        const total = { input: times(used.input, replies), output: times(used.output, replies) };
        const [totalInputTokens, totalOutputTokens] = [200 * replies, 50 * replies];
        const totals = { totalInputTokens, totalOutputTokens, totalTokens: totalInputTokens + totalOutputTokens };
        send('usageEvent', { details: { delta: used, total }, ...totals });
      },
      hangUp: () => callFunction('hang_up', {}),
      transfer: (to) => callFunction('transfer_call', { to }),
      expire: () => wire.close(1011, 'The session has reached its longest duration.'),
    };
  },
};
