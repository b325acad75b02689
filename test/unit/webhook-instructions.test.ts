import { describe, expect, test } from 'vitest';
import { dialledNumber } from '../../src/call/routing/dialled-number.js';
import { streamEndpoint } from '../../src/call/script/streams/stream-endpoint.js';
import type { EndpointForCall } from '../../src/store/routing/endpoints.js';
import { InstructionError } from '../../src/webhook/actions.js';
import { documentText } from '../../src/webhook/charset.js';
import { parseJsonActions } from '../../src/webhook/json-actions.js';
import { parseTwiml } from '../../src/webhook/twiml.js';
import { parseXml } from '../../src/webhook/xml.js';

const base = 'https://ivr.example.com/calls/start?x=1';

/** What is wrong, as the event tells it. */
function problemOf(read: () => unknown): string {
  try {
    read();
  } catch (error) {
    if (error instanceof InstructionError) return error.message;
    throw error;
  }
  throw new Error('It was accepted.');
}

describe('actions in JSON', () => {
  const one = (action: object) => parseJsonActions({ actions: [action] }, base)[0];

  test('get their defaults, and URLs relative to the document', () => {
    expect(one({ action: 'gather', url: '../menu' })).toEqual({
      action: 'gather',
      digits: true,
      speech: false,
      speechTimeoutSec: 1,
      language: null,
      hints: null,
      numDigits: null,
      finishOnKey: '#',
      timeoutSec: 5,
      prompts: [],
      next: { url: 'https://ivr.example.com/menu', method: 'POST' },
      nextWhenEmpty: true,
    });
    expect(one({ action: 'play', url: 'a.wav' })).toEqual({
      action: 'play',
      url: 'https://ivr.example.com/calls/a.wav',
      loop: 1,
    });
    expect(one({ action: 'reject' })).toEqual({ action: 'reject', status: 603 });
    expect(one({ action: 'connect', url: 'wss://bot.example.com/a' })).toMatchObject({
      to: { kind: 'stream', url: 'wss://bot.example.com/a', protocol: 'twilio', custom: {} },
      next: null,
    });
  });

  test.each<[unknown, string]>([
    [null, 'body: must be an object'],
    [[], 'body: must be an object'],
    [{}, 'actions: must be a list'],
    [{ actions: {} }, 'actions: must be a list'],
    [{ actions: [], more: 1 }, 'more: is not a field'],
    [{ actions: ['answer'] }, 'actions[0]: must be an object'],
    [{ actions: [{}] }, 'actions[0].action: is required'],
    [{ actions: [{ action: 'dance' }] }, 'actions[0].action: "dance" is not an action'],
    [{ actions: [{ action: '__proto__' }] }, 'actions[0].action'],
    [{ actions: [{ action: 'answer' }, { action: 'answer', now: true }] }, 'actions[1].now: is not a field'],
    [{ actions: [{ action: 'say' }] }, 'actions[0].text: is required'],
    [{ actions: [{ action: 'say', text: 7 }] }, 'actions[0].text: must be a text'],
    [{ actions: [{ action: 'say', text: 'x'.repeat(10_001) }] }, 'actions[0].text: is too long'],
    [{ actions: [{ action: 'say', text: 'x', loop: 1.5 }] }, 'actions[0].loop: must be a whole number'],
    [{ actions: [{ action: 'play', url: 'file:///etc/passwd' }] }, 'actions[0].url: must be a URL of http: or https:'],
    [{ actions: [{ action: 'play', url: 'http://' }] }, 'actions[0].url: is not a URL'],
    [{ actions: [{ action: 'pause', seconds: '1' }] }, 'actions[0].seconds: must be a number'],
    [{ actions: [{ action: 'pause', seconds: 1e9 }] }, 'actions[0].seconds: must be a number from 0 to 600'],
    [{ actions: [{ action: 'dtmf', digits: '12x' }] }, 'actions[0].digits: is malformed'],
    [{ actions: [{ action: 'gather', input: ['thoughts'] }] }, 'actions[0].input[0]: must be "digits" or "speech"'],
    [
      { actions: [{ action: 'gather', prompts: [{ action: 'hangup' }] }] },
      'actions[0].prompts[0].action: must be "say", "play" or "pause"',
    ],
    [
      { actions: [{ action: 'gather', prompts: [{ action: 'say', text: 'x', colour: 1 }] }] },
      'actions[0].prompts[0].colour: is not a field',
    ],
    [{ actions: [{ action: 'connect' }] }, 'actions[0].url: or endpoint_id is required'],
    [{ actions: [{ action: 'connect', url: 'https://x.example' }] }, 'actions[0].url: must be a URL of ws: or wss:'],
    [
      { actions: [{ action: 'connect', url: 'wss://x.example', custom: { a: 1 } }] },
      'actions[0].custom.a: must be a text',
    ],
    [{ actions: [{ action: 'dial', to: '911' }] }, 'actions[0].to: must be an E.164 number or a SIP address'],
    [{ actions: [{ action: 'conference' }] }, 'actions[0].name: is required'],
    [{ actions: [{ action: 'conference', name: 'x'.repeat(129) }] }, 'actions[0].name: is too long'],
    [{ actions: [{ action: 'conference', name: 'x', beep: 'loud' }] }, 'actions[0].beep: is malformed'],
    [
      { actions: [{ action: 'conference', name: 'x', max_participants: 1 }] },
      'max_participants: must be a number from 2',
    ],
    [{ actions: [{ action: 'conference', name: 'x', wait_url: 'ftp://x' }] }, 'actions[0].wait_url: must be a URL'],
    [{ actions: [{ action: 'reject', status: 200 }] }, 'actions[0].status: must be a number from 400 to 699'],
    [{ actions: Array(101).fill({ action: 'answer' }) }, 'actions: must not have more than 100 entries'],
  ])('%j: %s', (body, problem) => {
    expect(problemOf(() => parseJsonActions(body, base))).toContain(problem);
  });
});

describe('TwiML', () => {
  const response = (verbs: string) =>
    parseTwiml(`<?xml version="1.0" encoding="UTF-8"?>\n<Response>${verbs}</Response>`, base);

  test("has Twilio's defaults", () => {
    expect(response('<Gather><Say>Hi &amp; hello</Say><Play>a.mp3</Play><Pause/></Gather>')).toEqual([
      {
        action: 'gather',
        digits: true,
        speech: false,
        speechTimeoutSec: 5,
        language: null,
        hints: null,
        numDigits: null,
        finishOnKey: '#',
        timeoutSec: 5,
        prompts: [
          { action: 'say', text: 'Hi & hello', voice: null, language: null, loop: 1 },
          { action: 'play', url: 'https://ivr.example.com/calls/a.mp3', loop: 1 },
          { action: 'pause', seconds: 1 },
        ],
        next: { url: base, method: 'POST' },
        nextWhenEmpty: false,
      },
    ]);
    expect(response('<Record/>')[0]).toMatchObject({
      maxSec: 3600,
      silenceSec: 5,
      beep: true,
      finishOnKey: '1234567890*#',
      trim: true,
      next: { url: base, method: 'POST' },
      nextWhenEmpty: false,
      status: null,
    });
    expect(response('<Record trim="do-not-trim" recordingStatusCallback="/r"/>')[0]).toMatchObject({
      trim: false,
      status: { to: { url: 'https://ivr.example.com/r', method: 'POST' }, events: ['completed'] },
    });
    expect(response('<Dial timeout="9"><Conference waitMethod="GET">\nRoom 1 </Conference></Dial>')).toEqual([
      { action: 'warn', message: 'line 2: timeout of <Dial> has no effect' },
      {
        action: 'conference',
        name: 'Room 1',
        label: null,
        startOnEnter: true,
        endOnExit: false,
        muted: false,
        beep: { entered: true, left: true },
        wait: 'tone',
        maxParticipants: 250,
        record: false,
        recordingStatus: null,
        timeLimitSec: 14_400,
        hangupOnStar: false,
        status: null,
        next: null,
      },
    ]);
    expect(
      response('<Dial><Conference beep="onExit" waitUrl="" maxParticipants="1">x</Conference></Dial>')[1],
    ).toMatchObject({ wait: 'silence', maxParticipants: 2, beep: { entered: false, left: true } });
    const many = Array.from({ length: 50 }, (_, i) => `a${i}="1"`).join(' ');
    expect(response(`<Hangup ${many}/><Hangup ${many}/>`).filter(({ action }) => action === 'warn')).toHaveLength(20);
    expect(response('<Dial ringTone="UK"><Client>desk.1</Client></Dial>')[0]).toMatchObject({
      to: [{ to: 'client:desk.1' }],
      ringTone: 'uk',
      sequential: false,
      refer: null,
    });
    expect(response('<Dial>+12025550123</Dial>')[0]).toMatchObject({
      timeoutSec: 30,
      timeLimitSec: 14_400,
      answerOnBridge: false,
      hangupOnStar: false,
      record: null,
      next: null,
    });
    expect(
      response('<Gather input="speech dtmf" speechTimeout="auto" language="en-GB" hints="yes,no"/>')[0],
    ).toMatchObject({ digits: true, speech: true, speechTimeoutSec: 1, language: 'en-GB', hints: 'yes,no' });
    expect(
      response('<Start><Stream url="wss://bot.example.com/m" name="copy" track="both_tracks"/></Start>')[0],
    ).toEqual({
      action: 'start_stream',
      track: 'both',
      stream: { url: 'wss://bot.example.com/m', protocol: 'twilio', name: 'copy', custom: {}, status: null },
    });
    expect(response('<Stop><Stream name="copy"/></Stop>')[0]).toEqual({ action: 'stop_stream', name: 'copy' });
    expect(response('<Start><Recording/></Start><Start><Recording track="inbound" channels="mono"/></Start>')).toEqual([
      { action: 'start_recording', channels: 2, status: null },
      { action: 'start_recording', channels: 1, status: null },
    ]);
    expect(
      response(
        '<Start><Transcription name="n" track="inbound_track" languageCode="de-DE" hints="a,b" statusCallbackUrl="/t"/></Start><Stop><Transcription name="n"/></Stop>',
      ),
    ).toMatchObject([
      { action: 'start_transcription', name: 'n', language: 'de-DE', hints: 'a,b', label: null },
      { action: 'stop_transcription', name: 'n' },
    ]);
    expect(
      response(
        '<Connect action="/after"><ConversationRelay url="wss://bot.example.com/r" welcomeGreeting="Hello" welcomeGreetingInterruptible="none" dtmfDetection="true" events="speaker-events" partialPrompts="true" interruptSensitivity="low" ignoreBackchannel="true" speechTimeout="1200" language="en-GB" transcriptionLanguage="de-DE" voice="slt" interruptible="false"><Language code="sv-SE" voice="rms"/><Parameter name="a" value="1"/></ConversationRelay></Connect>',
      ),
    ).toEqual([
      {
        action: 'conversation_relay',
        url: 'wss://bot.example.com/r',
        custom: { a: '1' },
        welcome: { text: 'Hello', interruptible: 'none' },
        interruptible: 'none',
        preemptible: false,
        language: { spoken: 'en-GB', heard: 'de-DE' },
        voice: 'slt',
        voices: { 'sv-SE': 'rms' },
        hints: null,
        dtmf: true,
        reports: { speakers: true, played: false },
        reportsDuringSpeech: 'none',
        partialPrompts: true,
        interruptSensitivity: 'low',
        ignoreBackchannel: true,
        pauseSec: 1.2,
        next: { url: 'https://ivr.example.com/after', method: 'POST' },
      },
    ]);
    expect(response('<Reject reason="busy"/><Reject/>')).toEqual([
      { action: 'reject', status: 486 },
      { action: 'reject', status: 603 },
    ]);
    expect(response('<Play digits="1W#"/><Redirect method="GET">/next</Redirect><Hangup/>')).toEqual([
      { action: 'dtmf', digits: '1ww#' },
      { action: 'redirect', next: { url: 'https://ivr.example.com/next', method: 'GET' } },
      { action: 'hangup' },
    ]);
  });

  test('reads streams with parameters, dials with nouns, CDATA, comments, speech markup', () => {
    expect(
      response(
        '<Connect action="/after"><Stream url="wss://bot.example.com/m"><Parameter name="a" value="1 &lt; 2"/></Stream></Connect>',
      ),
    ).toEqual([
      {
        action: 'connect',
        to: {
          ...{ kind: 'stream', url: 'wss://bot.example.com/m', protocol: 'twilio', custom: { a: '1 < 2' } },
          ...{ name: null, status: null },
        },
        next: { url: 'https://ivr.example.com/after', method: 'POST' },
      },
    ]);
    expect(response('<Connect><Stream url="/media"/></Connect>')[0]).toMatchObject({
      to: { url: 'wss://ivr.example.com/media' },
    });
    expect(response('<Dial><Number>+1 (202) 555-0123</Number><Sip>sip:a@b.example</Sip></Dial>')[0]).toMatchObject({
      to: [{ to: '+1 (202) 555-0123' }, { to: 'sip:a@b.example' }],
    });
    const desk =
      '<Sip username="u" password="p" statusCallback="/s" statusCallbackEvent="ringing answered">sip:a@b.example?X-A=1</Sip>';
    expect(response(`<Dial record="record-from-ringing-dual" hangupOnStar="true">${desk}</Dial>`)[0]).toMatchObject({
      record: 'ringing',
      hangupOnStar: true,
      to: [
        {
          to: 'sip:a@b.example?X-A=1',
          auth: { username: 'u', password: 'p' },
          status: { to: { url: 'https://ivr.example.com/s' }, events: ['ringing', 'answered'] },
        },
      ],
    });
    expect(response('<Dial><Number sendDigits="W12#">+12025550123</Number></Dial>')[0]).toMatchObject({
      to: [{ sendDigits: 'ww12#' }],
    });
    expect(
      response(
        '<Dial><Number url="screen.xml" method="GET">+12025550123</Number><Sip url="/s">sip:a@b.example</Sip><Client>c</Client></Dial>',
      )[0],
    ).toMatchObject({
      to: [
        { screen: { url: 'https://ivr.example.com/calls/screen.xml', method: 'GET' } },
        { screen: { url: 'https://ivr.example.com/s', method: 'POST' } },
        { screen: null },
      ],
    });
    expect(response('<!-- <Hangup/> --><Say><![CDATA[1 < 2 & so on]]></Say>')[0]).toMatchObject({
      text: '1 < 2 & so on',
    });
    expect(response('<Say>Hello <emphasis>you</emphasis>&#33;</Say>')[1]).toMatchObject({ text: 'Hello you!' });
  });

  test.each([
    ['<Response>\n<Dance/></Response>', 'line 2: <Dance>: is no verb of ours'],
    ['<Say>Hello</Say>', 'line 1: <Say>: the document must be a <Response>'],
    ['<Response><Play>ftp://x.example/a.wav</Play></Response>', 'needs a URL of http: or https:'],
    ['<Response><Connect/></Response>', '<Connect>: needs one <Stream> or <ConversationRelay> in <Connect>'],
    ['<Response><Dial><Queue/></Dial></Response>', '<Queue>: is empty'],
    ['<Response><Enqueue/></Response>', '<Enqueue>: is empty'],
    [`<Response><Enqueue>${'q'.repeat(129)}</Enqueue></Response>`, 'has a name of more than 128 characters'],
    ['<Response><Dial><Sim>q</Sim></Dial></Response>', '<Sim>: cannot be dialled here'],
    ['<Response><Dial><Client>a@b</Client></Dial></Response>', '<Client>: needs the name of a user'],
    ['<Response><Dial><Conference/></Dial></Response>', '<Conference>: is empty'],
    ['<Response><Start/></Response>', '<Start>: needs one <Stream> or <Recording> or <Transcription> in <Start>'],
    ['<Response><Stop><Say>x</Say></Stop></Response>', '<Say>: needs one <Stream> or <Transcription> in <Stop>'],
  ])('%s: %s', (text, problem) => {
    expect(problemOf(() => parseTwiml(text, base))).toContain(problem);
  });
});

describe('TwiML that can be followed in part', () => {
  const read = (verbs: string) => parseTwiml(`<Response>\n${verbs}</Response>`, base);
  const warnings = (verbs: string) => read(verbs).flatMap((each) => (each.action === 'warn' ? [each.message] : []));
  const rest = (verbs: string) => read(verbs).filter(({ action }) => action !== 'warn');

  test.each<[string, string, object]>([
    ['<Pause length="long"/>', 'length must be a number from 0 to 600; "1" is used', { seconds: 1 }],
    ['<Pause length="9999"/>', 'length must be a number from 0 to 600; "600" is used', { seconds: 600 }],
    [
      '<Gather input="thoughts"/>',
      'input must be dtmf, speech or both; "dtmf" is used',
      { digits: true, speech: false },
    ],
    ['<Gather input="speech thoughts"/>', 'the rest has no effect', { digits: false, speech: true }],
    ['<Gather language="german!"/>', 'language must be a language code such as en-US', { language: null }],
    [
      '<Gather numDigits="some"/>',
      'numDigits must be a number from 1 to 1000; it counts as absent',
      { numDigits: null },
    ],
    ['<Gather finishOnKey="x"/>', 'finishOnKey must be keys of a phone', { finishOnKey: '#' }],
    ['<Gather action="ftp://x"/>', 'action needs a URL of http: or https:', { next: { url: base, method: 'POST' } }],
    ['<Gather><Hangup/></Gather>', 'line 2: <Hangup>: cannot stand in <Gather>; it is left out', { prompts: [] }],
    ['<Gather><Play/><Pause/></Gather>', '<Play>: is empty; it is left out', { prompts: [{ action: 'pause' }] }],
    ['<Record trim="maybe"/>', 'trim must be trim-silence or do-not-trim', { trim: true }],
    ['<Record recordingStatusCallback="http://"/>', 'recordingStatusCallback has no valid URL', { status: null }],
    ['<Redirect method="PUT">/x</Redirect>', 'method must be GET or POST', { next: { method: 'POST' } }],
    ['<Reject reason="tired"/>', 'reason must be rejected or busy; "rejected" is used', { status: 603 }],
    ['<Dial record="yes">+12025550123</Dial>', 'record must be do-not-record or', { record: null }],
    ['<Dial action="http://">+12025550123</Dial>', 'action has no valid URL; it counts as absent', { next: null }],
    ['<Dial referUrl="http://">+12025550123</Dial>', 'referUrl has no valid URL', { refer: null }],
    ['<Dial timeout="soon">+12025550123</Dial>', 'timeout must be a number from 5 to 600; "30"', { timeoutSec: 30 }],
    [
      '<Dial><Number sendDigits="now">+12025550123</Number></Dial>',
      'sendDigits must be keys of a phone',
      { to: [{ to: '+12025550123', sendDigits: null }] },
    ],
    [
      '<Dial><Sim>q</Sim><Number>+12025550123</Number></Dial>',
      '<Sim>: cannot be dialled here; Number, Sip, Client, Conference and Queue can; it is left out',
      { to: [{ to: '+12025550123' }] },
    ],
    [
      '<Dial record="true" timeout="9"><Queue url="/hello" reservationSid="WR1">q</Queue></Dial>',
      'reservationSid of <Queue> has no effect',
      {
        action: 'dial_queue',
        queue: 'q',
        whisper: { url: 'https://ivr.example.com/hello', method: 'POST' },
        timeoutSec: 9,
        record: true,
      },
    ],
    [
      '<Dial><Number>+1</Number><Queue>q</Queue></Dial>',
      '<Number> cannot stand beside <Queue>',
      { action: 'dial_queue', queue: 'q', whisper: null },
    ],
    [
      '<Enqueue maxQueueSize="0" waitUrl="/music" waitUrlMethod="GET" action="/after">q</Enqueue>',
      'maxQueueSize must be a number from 1 to 5000; "1" is used',
      {
        action: 'enqueue',
        queue: 'q',
        maxSize: 1,
        wait: { url: 'https://ivr.example.com/music', method: 'GET' },
        next: { url: 'https://ivr.example.com/after', method: 'POST' },
      },
    ],
    [
      '<Enqueue workflowSid="WW1" waitUrl="">q</Enqueue>',
      'workflowSid of <Enqueue> has no effect',
      { maxSize: null, wait: 'silence', next: null },
    ],
    [
      `<Dial>${'<Number>+12025550123</Number>'.repeat(11)}</Dial>`,
      'has more than 10 destinations',
      { to: { length: 10 } },
    ],
    [
      '<Dial><Number>+1</Number><Conference>x</Conference></Dial>',
      '<Number> cannot stand beside <Conference>',
      { action: 'conference', name: 'x' },
    ],
    ['<Dial><Conference beep="loud">x</Conference></Dial>', 'beep must be true or false or', { beep: { left: true } }],
    ['<Dial><Conference waitUrl="http://">x</Conference></Dial>', 'waitUrl has no valid URL', { wait: 'tone' }],
    [
      '<Connect><Stream url="wss://x.example"><Parameter name="a"/><Parameter name="b" value="1"/></Stream></Connect>',
      '<Parameter>: needs name and value; it is left out',
      { to: { custom: { b: '1' } } },
    ],
    [
      '<Say>Hi <prosody rate="fast">you</prosody></Say>',
      '<prosody> in line 2 has no effect; its words',
      { text: 'Hi you' },
    ],
    ['<Dance/><Hangup/>', 'line 2: <Dance>: is no verb of ours; those are Say, Play', { action: 'hangup' }],
    ['<Play>ftp://x/a</Play><Hangup/>', '<Play>: needs a URL of http: or https:; it is left out', { action: 'hangup' }],
    ['<Play digits="x"/><Hangup/>', 'digits must be keys of a phone', { action: 'hangup' }],
    ['<Refer><Number>1</Number></Refer><Hangup/>', '<Refer>: needs a <Sip>; it is left out', { action: 'hangup' }],
    ['<Say/><Hangup/>', 'line 2: <Say>: has no text; nothing is said', { action: 'hangup' }],
  ])('%s: %s', (verbs, warning, action) => {
    expect(warnings(verbs).join('\n')).toContain(warning);
    expect(rest(verbs)).toHaveLength(1);
    expect(rest(verbs)[0]).toMatchObject(action);
  });

  test('of which nothing is left is an error only when verbs could not be read', () => {
    expect(rest('')).toEqual([]);
    expect(rest('<Say></Say>')).toEqual([]);
    expect(() => read('<Dance/><Play/>')).toThrow('line 2: <Dance>');
  });

  test('numbers and caller ids stay as they are written', () => {
    expect(rest('<Dial callerId=" (415) 767-1351 ">415-767-1351</Dial>')[0]).toMatchObject({
      to: [{ to: '415-767-1351' }],
      from: '(415) 767-1351',
    });
    expect(rest('<Dial callerId="">+12025550123</Dial>')[0]).toMatchObject({ from: null });
  });

  test('markup of speech becomes words and silence', () => {
    const say = (text: string) => ({ action: 'say', text, voice: null, language: null, loop: 1 });
    expect(rest('<Say>One.<break time="1500ms"/> Two<break strength="none"/>.</Say>')).toEqual([
      say('One.'),
      { action: 'pause', seconds: 1.5 },
      say('Two'),
      { action: 'pause', seconds: 0 },
      say('.'),
    ]);
    expect(rest('<Say><speak><p>One</p><s>Two</s> <sub alias="World Wide Web">WWW</sub></speak></Say>')).toEqual([
      say('One\n\nTwo\n World Wide Web'),
    ]);
    expect(rest('<Say loop="2">A<break time="2s"/></Say>')).toHaveLength(4);
    expect(rest('<Say loop="0">A<break time="2s"/>B</Say>')).toEqual([{ ...say('A B'), loop: 0 }]);
    expect(warnings('<Say loop="0">A<break time="2s"/>B</Say>')[0]).toContain('repeated without end');
    expect(rest('<Say>A<break time="900s"/></Say>')[1]).toEqual({ action: 'pause', seconds: 10 });
  });
});

describe('the text of a document', () => {
  const xml = (encoding: string) =>
    `<?xml version="1.0" encoding="${encoding}"?><Response><Say>Grüße, 5 €</Say></Response>`;
  const utf16be = (text: string) => Buffer.from(text, 'utf16le').swap16();

  test.each<[string, Buffer, string]>([
    ['UTF-8 without a word about it', Buffer.from(xml('UTF-8')), 'text/xml'],
    ['a byte order mark of UTF-8', Buffer.from(`\ufeff${xml('UTF-8')}`), 'text/xml'],
    ['a byte order mark of UTF-16LE', Buffer.from(`\ufeff${xml('UTF-16')}`, 'utf16le'), 'text/xml; charset=utf-8'],
    ['a byte order mark of UTF-16BE', utf16be(`\ufeff${xml('UTF-16')}`), 'text/xml'],
    ['UTF-16LE without a mark', Buffer.from(xml('UTF-16'), 'utf16le'), 'text/xml'],
    ['UTF-16BE without a mark', utf16be(xml('UTF-16')), 'text/xml'],
    ['UTF-16 by its content type', Buffer.from(xml('x'), 'utf16le'), 'text/xml; charset="utf-16"'],
    ['UTF-8 that calls itself UTF-16', Buffer.from(xml('utf-16')), 'text/xml'],
  ])('%s', (_name, body, contentType) => {
    expect(documentText(body, contentType)).toContain('<Say>Grüße, 5 €</Say>');
  });

  test('Latin-1 by its declaration or its content type; the content type is stronger', () => {
    const latin = (encoding: string) =>
      Buffer.from(`<?xml version='1.0' encoding='${encoding}'?><Response><Say>Grüße</Say></Response>`, 'latin1');
    expect(documentText(latin('ISO-8859-1'), 'application/xml')).toContain('Grüße');
    expect(documentText(latin('utf-8'), 'text/xml; charset=iso-8859-1')).toContain('Grüße');
    expect(problemOf(() => documentText(latin('klingon-1'), 'text/xml'))).toContain(
      '"klingon-1" is not a known encoding',
    );
  });
});

describe('a number as it is written', () => {
  test.each<[string, string, string | null]>([
    ['+14157671351', '+442071838750', '+14157671351'],
    ['+1 (415) 767-1351', '+442071838750', '+14157671351'],
    ['415-767-1351', '+12025550100', '+14157671351'],
    ['(415) 767 1351', '+12025550100', '+14157671351'],
    ['1.415.767.1351', '+12025550100', '+14157671351'],
    ['011 44 20 7183 8750', '+12025550100', '+442071838750'],
    ['0044 20 7183 8750', '+12025550100', '+442071838750'],
    ['0044 20 7183 8750', '+4930123456', '+442071838750'],
    ['0011 44 20 7183 8750', '+61291234567', '+442071838750'],
    ['020 7183 8750', '+442079460000', '+442071838750'],
    ['030/901820', '+4930123456', '+4930901820'],
    ['06 6982', '+390669812345', '+39066982'],
    ['8 (495) 123-45-67', '+74951112233', '+74951234567'],
    ['415-767-1351', '+15005550006', '+14157671351'],
    ['911', '+12025550100', null],
    ['*98', '+12025550100', null],
    ['call mum', '+12025550100', null],
    ['', '+12025550100', null],
    ['+1', '+12025550100', null],
    ['415-767-1351', 'anonymous', null],
    ['1-800-FLOWERS', '+12025550100', null],
    ['415-767-1351 x12', '+12025550100', null],
  ])('%s, of the country of %s: %s', (written, home, number) => {
    expect(dialledNumber(written, home)).toBe(number);
  });
});

describe('XML', () => {
  test.each([
    ['', 'line 1: the document must begin with an element'],
    ['hello', 'line 1: the document must begin with an element'],
    ['<a>', 'line 1: <a> is never closed'],
    ['<a>\n<b></a>', 'line 2: </b> was expected, not </a>'],
    ['<a/><b/>', 'line 1: there is something after the root element'],
    ['<a b=1/>', 'the value of b must be in quotes'],
    ['<a b="1" b="2"/>', 'b is given twice'],
    ['<a b="1"c="2"/>', 'an attribute must follow white space'],
    ['<a b="<"/>', 'contains a "<"'],
    ['<a>&nbsp;</a>', '"&nbsp;" is no reference'],
    ['<a>R&D</a>', 'an ampersand is written &amp;'],
    ['<a>&#0;</a>', 'is no reference'],
    ['<a>&#xD800;</a>', 'is no reference'],
    ['<a>&constructor;</a>', 'is no reference'],
    ['<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>', 'a document type declaration is not allowed'],
    ['<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>', 'a document type declaration is not allowed'],
    ['<a><!ENTITY x "y"></a>', 'a declaration is not allowed'],
    ['<a><!-- ', 'a comment is never closed'],
    ['<a><![CDATA[ ', 'a CDATA section is never closed'],
    [`${'<a>'.repeat(11)}${'</a>'.repeat(11)}`, 'elements are nested too deeply'],
    [`<r>${'<a/>'.repeat(1001)}</r>`, 'there are too many elements'],
  ])('%s: %s', (text, problem) => {
    expect(problemOf(() => parseXml(text))).toContain(problem);
  });

  test('of 256 KiB is read or refused at once, whatever is in it', () => {
    const started = performance.now();
    for (const filling of ['<', '&', '<a ', '<a b="', '&#x41;', '<!--', '\n', '</', '<a>&lt;</a>']) {
      try {
        parseXml(`<r>${filling.repeat(262_144 / filling.length)}</r>`);
      } catch (error) {
        expect(error).toBeInstanceOf(InstructionError);
      }
    }
    expect(performance.now() - started).toBeLessThan(5000);
  });
});

describe('a stream', () => {
  const webhook = {
    id: 'w',
    organizationId: 'o',
    providerConfig: { wss_map: { 'bot.example.com': 'ws://127.0.0.1:8080' } },
    webhookSecret: 'whsec_c2VjcmV0',
  } as unknown as EndpointForCall;

  test('goes where wss_map sends its host, signed with the address as written', () => {
    const to = { kind: 'stream', url: 'wss://bot.example.com/media?a=1', protocol: 'twilio', custom: {} } as const;
    const mapped = streamEndpoint(webhook, to);
    expect(mapped.target).toBe('ws://127.0.0.1:8080/media?a=1');
    const unmapped = streamEndpoint({ ...webhook, providerConfig: {} }, to);
    expect(unmapped.target).toBe(to.url);
    expect(mapped.providerConfig).toEqual(unmapped.providerConfig);
  });

  test('of another protocol is not signed, and nothing of the webhook goes with it', () => {
    const raw = { kind: 'stream', url: 'wss://other.example/', protocol: 'raw', custom: {} } as const;
    expect(streamEndpoint(webhook, raw).providerConfig).toEqual({ protocol: 'raw' });
  });
});
