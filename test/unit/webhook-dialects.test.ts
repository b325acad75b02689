import { createPublicKey, verify } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { streamEndpoint } from '../../src/call/script/streams/stream-endpoint.js';
import type { EndpointForCall } from '../../src/store/routing/endpoints.js';
import { type Action, InstructionError } from '../../src/webhook/actions.js';
import { parseNcco } from '../../src/webhook/dialects/ncco.js';
import { plivoXml } from '../../src/webhook/dialects/plivo-xml.js';
import { dialects } from '../../src/webhook/dialects/registry.js';
import { texml } from '../../src/webhook/dialects/telnyx.js';
import { plivoHeaders, telnyxHeaders, telnyxPublicKey, vonageHeaders } from '../../src/webhook/signature.js';
import { parseTwiml } from '../../src/webhook/twiml.js';

const base = 'https://app.example/answer';
const id = '01980a51-0000-7000-8000-00000000000a';
const call = {
  CallSid: `CA${id.replaceAll('-', '')}`,
  AccountSid: `AC${id.replaceAll('-', '')}`,
  From: '+12025550199',
  To: '+15550100',
  CallStatus: 'in-progress',
  Direction: 'inbound',
};

const split = (actions: Action[]) => ({
  warnings: actions.flatMap((each) => (each.action === 'warn' ? [each.message] : [])),
  actions: actions.filter((each) => each.action !== 'warn'),
});
const plivo = (xml: string) => split(parseTwiml(`<Response>${xml}</Response>`, base, plivoXml));
const telnyx = (xml: string) => split(parseTwiml(`<Response>${xml}</Response>`, base, texml));
const ncco = (actions: unknown, eventsUrl: string | null = null) => split(parseNcco(actions, { url: base, eventsUrl }));

test.each([
  ['+4930123456', '+12025550123', 'DE', 'US'],
  ['+14165550123', '+442071838750', 'CA', 'GB'],
  ['+18005550100', '+88312345', undefined, undefined],
  ['anonymous', 'sip:bot@example.com', undefined, undefined],
])('Twilio: the countries of %s and %s, where the numbering plan has them', (From, To, from, to) => {
  const sent = dialects.twiml?.fields({ ...call, From, To }, 'status', undefined as never);
  const { FromCountry, CallerCountry, ToCountry, CalledCountry } = sent ?? {};
  expect([FromCountry, CallerCountry, ToCountry, CalledCountry]).toEqual([from, from, to, to]);
  expect(Object.keys(sent ?? {})).not.toContain('FromCity');
});

describe('Plivo XML', () => {
  test('says, plays, waits, presses keys and hangs up', () => {
    const xml =
      '<Speak voice="WOMAN" loop="2">Hi<break time="1s"/>there</Speak><Play>/a.mp3</Play><Wait length="2"/><DTMF>1w2</DTMF><Hangup reason="busy"/>';
    const words = { voice: 'WOMAN', language: null, loop: 1 };
    expect(plivo(xml)).toEqual({
      warnings: [],
      actions: [
        ...[1, 2].flatMap(() => [
          { action: 'say', text: 'Hi', ...words },
          { action: 'pause', seconds: 1 },
          { action: 'say', text: 'there', ...words },
        ]),
        { action: 'play', url: 'https://app.example/a.mp3', loop: 1 },
        { action: 'pause', seconds: 2 },
        { action: 'dtmf', digits: '1w2' },
        { action: 'reject', status: 486 },
      ],
    });
  });

  test('takes input with its own defaults; without an action nobody gets it; retries ask again', () => {
    expect(plivo('<GetInput inputType="dtmf speech" speechEndTimeout="auto"/>').actions).toMatchObject([
      { digits: true, speech: true, timeoutSec: 15, betweenKeysSec: 2, speechTimeoutSec: 2, next: null },
    ]);
    const { actions } = plivo('<GetDigits action="/d" finishOnKey="none" retries="3"/><Speak>bye</Speak>');
    expect(actions).toMatchObject([
      ...[1, 2, 3].map(() => ({ action: 'gather', finishOnKey: '', timeoutSec: 5, betweenKeysSec: 2, numDigits: 99 })),
      { action: 'say' },
    ]);
    expect(plivo('<GetDigits action="/d" redirect="false"/>').actions).toMatchObject([
      { next: { url: 'https://app.example/d', answerIgnored: true } },
    ]);
  });

  test('records the caller, or the session in the background', () => {
    expect(plivo('<Record action="/r" callbackUrl="/c" transcriptionType="auto" transcriptionUrl="/t"/>')).toEqual({
      warnings: [],
      actions: [
        {
          ...{ action: 'record', maxSec: 60, silenceSec: 15, finishOnKey: '#', beep: true, trim: false },
          ...{ next: { url: 'https://app.example/r', method: 'POST' }, nextWhenEmpty: false },
          status: { to: { url: 'https://app.example/c', method: 'POST' }, events: ['completed'] },
          transcription: { next: { url: 'https://app.example/t', method: 'POST' } },
        },
      ],
    });
    expect(plivo('<Record recordSession="true" action="/r" method="GET"/>').actions).toEqual([
      {
        ...{ action: 'start_recording', channels: 2 },
        status: { to: { url: 'https://app.example/r', method: 'GET' }, events: ['completed'] },
      },
    ]);
  });

  test('dials numbers without plus, and users; each callee confirms', () => {
    const { actions } = plivo(
      '<Dial callerId="15550100" confirmSound="/c" confirmKey="5"><Number sendDigits="1W2">447700900123</Number><User>sip:a@b.example</User></Dial>',
    );
    const confirm = { screen: { url: 'https://app.example/c' }, acceptedBy: { keys: '5', timeoutSec: 120 } };
    expect(actions).toMatchObject([
      {
        ...{ action: 'dial', from: '+15550100', timeoutSec: 120 },
        to: [
          { to: '+447700900123', sendDigits: '1ww2', ...confirm },
          { to: 'sip:a@b.example', ...confirm },
        ],
      },
    ]);
  });

  test('joins conferences, and streams', () => {
    expect(
      plivo('<Conference enterSound="beep:1" maxMembers="5" timeLimit="60" action="/a">r</Conference>'),
    ).toMatchObject({
      warnings: [],
      actions: [
        {
          ...{ action: 'conference', name: 'r', beep: { entered: true, left: false }, maxParticipants: 5 },
          ...{ timeLimitSec: 60, wait: 'silence', next: { url: 'https://app.example/a' } },
        },
      ],
    });
    const both = plivo(
      '<Stream bidirectional="true" keepCallAlive="true" contentType="audio/x-mulaw;rate=8000" extraHeaders=\'{"a":1}\'>wss://bot.example/s</Stream><Stream audioTrack="both">wss://bot.example/l</Stream>',
    );
    expect(both.warnings).toEqual([]);
    const to = { protocol: 'plivo', url: 'wss://bot.example/s', custom: { a: '1' } };
    expect(both.actions).toMatchObject([
      { action: 'connect', to: { kind: 'stream', ...to, audio: { encoding: 'ulaw', sample_rate: 8000 } } },
      { action: 'start_stream', track: 'both', stream: { protocol: 'plivo', url: 'wss://bot.example/l' } },
    ]);
  });

  test.each([
    ['<GetDigits validDigits="12"/>', 'line 1: validDigits of <GetDigits> has no effect'],
    [
      '<GetInput executionTimeout="x"/>',
      'line 1: <GetInput>: executionTimeout must be a number from 0 to 600; "15" is used',
    ],
    [
      '<PreAnswer><Speak>a</Speak></PreAnswer>',
      'line 1: <PreAnswer> has no effect; the call is answered before anything is heard',
    ],
    ['<Speak>a</Speak><Message>b</Message>', 'line 1: <Message>: is no verb of ours; '],
    ['<Speak>a</Speak><Say>b</Say>', 'line 1: <Say>: is no verb of ours; '],
    ['<Record fileFormat="mp3"/>', 'line 1: fileFormat of <Record> has no effect'],
    [
      '<Stream contentType="audio/opus">wss://b.example/</Stream>',
      'line 1: <Stream>: the audio "audio/opus" is not available',
    ],
  ])("%s is warned of in the document's own words", (xml, warning) => {
    const { warnings } = plivo(xml);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain(warning);
  });
});

describe('TeXML', () => {
  test("is TwiML with Telnyx' streams and names of its own", () => {
    const { warnings, actions } = telnyx(
      '<Gather maxDigits="3"/><Connect><Stream url="wss://bot.example/" bidirectionalMode="rtp" bidirectionalCodec="L16" bidirectionalSamplingRate="16000"/></Connect><Start><Transcription language="en-GB" transcriptionCallback="/t"/></Start>',
    );
    expect(warnings).toEqual([]);
    expect(actions).toMatchObject([
      { action: 'gather', numDigits: 3, timeoutSec: 5, next: { url: base } },
      { action: 'connect', to: { protocol: 'telnyx', audio: { encoding: 'l16', sample_rate: 16000 } } },
      { action: 'start_transcription', language: 'en-GB', status: { url: 'https://app.example/t' } },
    ]);
  });

  test('what it has alone is left out', () => {
    expect(telnyx('<Say>a</Say><AIGather/>').warnings[0]).toContain('line 1: <AIGather>: is no verb of ours');
    expect(telnyx('<Gather validDigits="1" minDigits="2"/>').warnings).toEqual([
      'line 1: validDigits of <Gather> has no effect',
      'line 1: minDigits of <Gather> has no effect',
    ]);
  });
});

describe('NCCO', () => {
  test('prompts with bargeIn are interrupted by the input after them', () => {
    const { warnings, actions } = ncco([
      { action: 'talk', text: 'first' },
      { action: 'talk', text: 'press', bargeIn: true, language: 'en-GB' },
      { action: 'stream', streamUrl: ['/s.mp3'], bargeIn: true, loop: 0 },
      { action: 'input', type: ['dtmf'], dtmf: { submitOnHash: true }, eventUrl: ['/i'], eventMethod: 'GET' },
      { action: 'wait' },
    ]);
    expect(warnings).toEqual([]);
    expect(actions).toEqual([
      { action: 'say', text: 'first', voice: null, language: null, loop: 1 },
      {
        ...{ action: 'gather', digits: true, speech: false, speechTimeoutSec: 2, language: null, hints: null },
        ...{ numDigits: 4, finishOnKey: '#', timeoutSec: 3, nextWhenEmpty: true },
        next: { url: 'https://app.example/i', method: 'GET' },
        prompts: [
          { action: 'say', text: 'press', voice: null, language: 'en-GB', loop: 1 },
          { action: 'play', url: 'https://app.example/s.mp3', loop: 0 },
        ],
      },
      { action: 'pause', seconds: 10 },
    ]);
  });

  test('speech markup, input of speech, and the events URL of the endpoint', () => {
    expect(ncco([{ action: 'talk', text: '<speak>a<break time="1s"/>b</speak>' }]).actions).toHaveLength(3);
    const speech = { endOnSilence: 1.5, context: ['yes', 'no'], startTimeout: 5 };
    expect(ncco([{ action: 'input', type: ['speech'], speech }], 'https://app.example/events').actions).toMatchObject([
      {
        digits: false,
        speech: true,
        speechTimeoutSec: 1.5,
        hints: 'yes, no',
        timeoutSec: 5,
        next: { url: 'https://app.example/events' },
      },
    ]);
    expect(ncco([{ action: 'input', type: ['dtmf'] }]).warnings[0]).toContain('[0].eventUrl: is absent');
  });

  test('records until a condition, or in the background', () => {
    const eventUrl = ['/r'];
    expect(
      ncco([{ action: 'record', eventUrl, endOnKey: '#', endOnSilence: 3, timeOut: '30', beepStart: true }]),
    ).toMatchObject({
      warnings: [],
      actions: [
        { action: 'record', maxSec: 30, silenceSec: 3, finishOnKey: '#', beep: true, next: { answerIgnored: true } },
      ],
    });
    expect(ncco([{ action: 'record', eventUrl, format: 'mp3' }])).toMatchObject({
      warnings: ['[0].format: must be "wav"; that is made'],
      actions: [{ action: 'start_recording', status: { events: ['completed'] } }],
    });
  });

  test('connects phones, SIP addresses, users and WebSockets, and joins conversations', () => {
    const connect = (endpoint: object, more: object = {}) =>
      ncco([{ action: 'connect', endpoint: [endpoint], ...more }]).actions[0];
    expect(
      connect(
        { type: 'phone', number: '447700900123', dtmfAnswer: '2p1' },
        { eventUrl: ['/e'], eventType: 'synchronous' },
      ),
    ).toMatchObject({
      ...{ timeoutSec: 60, timeLimitSec: 7200, next: { url: 'https://app.example/e' } },
      to: [
        {
          to: '+447700900123',
          sendDigits: '2w1',
          status: { events: ['initiated', 'ringing', 'answered', 'completed'] },
        },
      ],
    });
    expect(connect({ type: 'sip', uri: 'sip:a@b.example', headers: { loc: 'x y' } })).toMatchObject({
      to: [{ to: 'sip:a@b.example?X-loc=x+y' }],
      next: null,
    });
    expect(connect({ type: 'app', user: 'jamie' })).toMatchObject({ to: [{ to: 'client:jamie' }] });
    expect(connect({ type: 'websocket', uri: 'wss://b.example/', headers: { a: { b: 1 } } })).toMatchObject({
      to: { protocol: 'vonage', custom: { a: '{"b":1}' }, audio: { encoding: 'l16', sample_rate: 16000 } },
    });
    expect(
      ncco([{ action: 'conversation', name: 'r', startOnEnter: false, musicOnHoldUrl: ['/m.mp3'] }]).actions,
    ).toMatchObject([
      { action: 'conference', startOnEnter: false, wait: { url: 'https://app.example/m.mp3', method: 'GET' } },
    ]);
  });

  test.each<[unknown, string]>([
    [{}, 'body: must be a list'],
    [['talk'], '[0]: must be an object'],
    [[{ action: 'pay' }], '[0].action: is no action of ours'],
    [[{ action: 'talk' }], '[0].text: is required'],
    [[{ action: 'talk', text: 7 }], '[0].text: must be a text'],
    [[{ action: 'stream', streamUrl: ['ftp://a/'] }], '[0].streamUrl: must be a URL of http: or https:'],
    [[{ action: 'connect' }], '[0].endpoint: must have one endpoint'],
    [[{ action: 'connect', endpoint: [{ type: 'vbc' }] }], '[0].endpoint[0].type: must be phone'],
    [
      [{ action: 'connect', endpoint: [{ type: 'websocket', uri: 'wss://b/', 'content-type': 'audio/opus' }] }],
      'content-type: must be',
    ],
    [[{ action: 'notify', payload: {} }], '[0].eventUrl: is required'],
    [Array.from({ length: 101 }, () => ({ action: 'wait' })), 'body: has more than 100'],
  ])('%j is refused', (document, problem) => {
    expect(() => ncco(document)).toThrow(InstructionError);
    expect(() => ncco(document)).toThrow(problem);
  });

  test('an option without effect is a warning with its place', () => {
    expect(ncco([{ action: 'wait' }, { action: 'talk', text: 'a', style: 3 }]).warnings).toEqual([
      '[1].style has no effect',
    ]);
  });
});

describe('requests', () => {
  const ended = { ...call, CallStatus: 'busy', CallDuration: '7', Direction: 'outbound-api' };
  test.each<[string, string, Record<string, string>, object]>([
    [
      'plivo',
      'call.incoming',
      call,
      { CallUUID: id, From: '12025550199', To: '15550100', Event: 'StartApp', Direction: 'inbound' },
    ],
    ['plivo', 'call.gathered', { ...call, Digits: '12' }, { Digits: '12', InputType: 'dtmf' }],
    [
      'plivo',
      'call.gathered',
      { ...call, SpeechResult: 'yes', Confidence: '1.0' },
      { Speech: 'yes', InputType: 'speech' },
    ],
    [
      'plivo',
      'status',
      ended,
      { Event: 'Hangup', CallStatus: 'busy', HangupCause: 'USER_BUSY', Duration: '7', ALegUUID: id },
    ],
    [
      'plivo',
      'call.dialed',
      { ...call, DialCallStatus: 'no-answer' },
      { DialStatus: 'no-answer', DialRingStatus: 'true', DialBLegUUID: '' },
    ],
    [
      'plivo',
      'call.recorded',
      {
        ...call,
        RecordingUrl: 'https://a/',
        RecordingSid: call.CallSid.replace('CA', 'RE'),
        RecordingDuration: '2',
        Digits: '#',
      },
      { RecordUrl: 'https://a/', RecordingID: id, RecordingDurationMs: '2000', Digits: '#' },
    ],
    [
      'plivo',
      'status',
      {
        ...call,
        ConferenceSid: call.CallSid.replace('CA', 'CF'),
        FriendlyName: 'r',
        StatusCallbackEvent: 'participant-join',
      },
      { ConferenceName: 'r', ConferenceAction: 'enter', ConferenceUUID: id },
    ],
    [
      'texml',
      'call.incoming',
      { ...call, CallerName: 'A' },
      { CallSid: call.CallSid, CallSidLegacy: call.CallSid, CallerId: 'A' },
    ],
    ['ncco', 'call.incoming', call, { from: '12025550199', to: '15550100', uuid: id, conversation_uuid: `CON-${id}` }],
    [
      'ncco',
      'call.gathered',
      { ...call, SpeechResult: 'yes', Confidence: '1.0' },
      { speech: { results: [{ text: 'yes', confidence: '1.0' }] }, dtmf: { digits: null } },
    ],
    [
      'ncco',
      'status',
      { ...call, CallSid: `CA${'b'.repeat(32)}`, ParentCallSid: call.CallSid, CallStatus: 'no-answer' },
      { status: 'timeout', conversation_uuid: `CON-${id}` },
    ],
  ])('%s has its names for %s', (format, occasion, fields, expected) => {
    expect(dialects[format]?.fields(fields, occasion as 'status', {})).toMatchObject(expected);
  });

  const token = 'whsec_abcdefghijklmnop';
  // Checked with the validator of the plivo package, 4.79.0.
  test.each([
    ['https://app.example/x?b=2&a=1', { To: '1', From: '15550100' }, 'NinG0TOq6pG8YMD1EyleSLRZwEpr2rGLmTDvEZJFL6g='],
    ['https://app.example/x?b=2&a=1', null, 'VueGc8JnU4TLI/v5mI1zJ6DFih/wXFP9rdFpw0asHXU='],
    ['https://app.example/x', { From: '15550100' }, 'TQg9hJnJgs0OHcXfcGtRxOzAdr4291mJw6bdjLBwhOE='],
    ['wss://app.example/x?b=2&a=1', null, 'VueGc8JnU4TLI/v5mI1zJ6DFih/wXFP9rdFpw0asHXU='],
  ])("Plivo's signature of %s with %j", (url, fields, signature) => {
    expect(plivoHeaders(token, url, fields, 'nonce-1')['x-plivo-signature-v3']).toBe(signature);
  });

  test("Telnyx' signature is checked with the public key of the secret", () => {
    const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: telnyxPublicKey(token) }, format: 'jwk' });
    const { 'telnyx-timestamp': at, 'telnyx-signature-ed25519': signature } = telnyxHeaders(token, 1_000_000, 'a=1');
    expect(at).toBe('1000');
    expect(verify(null, Buffer.from('1000|a=1'), key, Buffer.from(signature ?? '', 'base64'))).toBe(true);
    expect(verify(null, Buffer.from('1000|a=2'), key, Buffer.from(signature ?? '', 'base64'))).toBe(false);
    expect(telnyxPublicKey('whsec_another')).not.toBe(telnyxPublicKey(token));
  });

  test("Vonage's JWT has the digest of a body only", () => {
    const claims = (body: string | undefined) => {
      const { authorization = '' } = vonageHeaders(token, 1_000_000, body, { applicationId: 'a', apiKey: 'k' });
      return JSON.parse(Buffer.from(authorization.split('.')[1] ?? '', 'base64url').toString());
    };
    expect(claims('{}')).toMatchObject({
      iat: 1000,
      iss: 'Vonage',
      application_id: 'a',
      payload_hash: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
    expect(claims(undefined)).not.toHaveProperty('payload_hash');
  });

  test('streams are signed as their platform signs, and have the audio of the document', () => {
    const webhook = { target: base, webhookSecret: token, providerConfig: {} } as unknown as EndpointForCall;
    const audio = { encoding: 'l16' as const, sample_rate: 16000 };
    const { providerConfig } = streamEndpoint(webhook, { url: 'wss://bot.example/', protocol: 'plivo', audio });
    expect(providerConfig).toMatchObject({
      protocol: 'plivo',
      ...audio,
      headers: { 'x-plivo-signature-v3': expect.any(String) },
    });
  });
});

describe('answers', () => {
  const place = { url: base, eventsUrl: null };
  test('an event is answered with an NCCO, or with anything else', () => {
    expect(dialects.ncco?.read('[{"action":"wait"}]', 'application/json', place)).toHaveLength(1);
    for (const answer of ['[]', '{}', '{"status":"ok"}', '"ok"'])
      expect(dialects.ncco?.read(answer, 'application/json', place)).toBeNull();
    expect(() => dialects.ncco?.read('[', 'application/json', place)).toThrow('is not JSON');
    expect(dialects.ncco?.read('<Response/>', 'text/xml', place)).toBeUndefined();
    expect(dialects.plivo?.read('[]', 'application/json', place)).toBeUndefined();
  });
});
