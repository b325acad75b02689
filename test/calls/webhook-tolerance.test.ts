import { createHmac } from 'node:crypto';
import twilio from 'twilio';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { tone } from '../../media/audio/dsp/tone.js';
import { wavOf } from '../../src/simulator/phone/voice.js';
import { activeLevelDb, spokenLevelDb } from '../../src/speech/loudness.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { phoneCalls } from '../support/caller.js';
import { type ReceivedRequest, type Receiver, startReceiver } from '../support/receiver.js';
import { millisecondsOfTone } from '../support/tone-probe.js';
import { soon } from '../support/webhook-app.js';

/** Applications that are not quite as we would write them: the call goes on, and the record says what was wrong. */
let app: TestApp;
let nextNumber = 12025557000;
const closing: Receiver[] = [];

beforeAll(async () => {
  app = await startTestApp({ TRUNKLINE_RTP_FIRST_TIMEOUT_SEC: '0' }, { t1: 100, t2: 400, t4: 500 });
});
afterAll(async () => {
  for (const each of closing) await each.close();
  await app.end();
});

interface Served {
  status?: number;
  headers?: { [name: string]: string | string[] };
  body?: string | Buffer;
}
type Serve = (request: ReceivedRequest) => Served | string;

async function serverOf(serve: Serve): Promise<Receiver> {
  const server = await startReceiver((request, response) => {
    const served = serve(request);
    const { status = 200, headers = {}, body } = typeof served === 'string' ? { body: served } : served;
    response.writeHead(status, { 'content-type': 'text/xml', ...headers }).end(body);
  });
  closing.push(server);
  return server;
}

/** A number of which `serve` answers what a call does. `/start` is asked first. */
async function numberOf(serve: Serve, config: object = { format: 'twiml' }, path = '/start') {
  const server = await serverOf(serve);
  const number = `+${nextNumber++}`;
  const endpoint = await app.api<{ id: string; webhook_secret: string }>('POST', '/v1/endpoints', {
    name: number,
    type: 'webhook',
    target: `${server.url}${path}`,
    provider_config: config,
  });
  await app.api('POST', '/v1/phone-numbers', { number, endpoint_id: endpoint.id });
  return { number, server, secret: endpoint.webhook_secret };
}

const asked = (server: Receiver) => server.requests.map(({ method, path }) => `${method} ${path}`);
const isSigned = (secret: string, server: Receiver, { path, headers, body }: ReceivedRequest) =>
  twilio.validateRequest(
    secret,
    String(headers['x-twilio-signature']),
    `${server.url}${path}`,
    Object.fromEntries(new URLSearchParams(body)),
  );
const redirect = (status: number, location: string): Served => ({ status, headers: { location } });

async function warningsOf(number: string): Promise<string[]> {
  const { events } = await app.finishedCall(number);
  return events.filter((each) => each.event_type === 'webhook.warning').map((each) => String(each.event_data.message));
}

test('a plain text is spoken, and the call ends after it', async () => {
  const { number } = await numberOf(() => ({
    headers: { 'content-type': 'text/plain; charset=utf-8' },
    body: 'Good morning, the bakery opens at nine.',
  }));
  const recording = await phoneCalls(app, number, { durationMs: 20_000, speech: { kind: 'silence' } });
  expect(Math.abs(activeLevelDb(Int16Array.from(recording.samples()), 8000) - spokenLevelDb)).toBeLessThan(3);
  expect(await app.finishedCall(number)).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing' });
});

test.each([
  ['small', 1],
  ['larger than instructions may be', 20],
])('a %s audio file is played, and the call ends after it', async (_what, seconds) => {
  const clip = Buffer.from(wavOf(tone({ frequencyHz: 1000, durationMs: seconds * 1000, sampleRateHz: 8000 })));
  const { number, server } = await numberOf(
    ({ method }) => {
      return { headers: { 'content-type': method === 'GET' || seconds === 1 ? 'audio/wav' : 'text/xml' }, body: clip };
    },
    { format: 'twiml' },
    '/greeting.wav',
  );
  const recording = await phoneCalls(app, number, { durationMs: 3000, speech: { kind: 'silence' } });
  expect(millisecondsOfTone(recording.samples(), 1000)).toBeGreaterThan(500);
  expect(asked(server)).toEqual(['POST /greeting.wav', 'GET /greeting.wav']);
  expect(await app.finishedCall(number)).toMatchObject({ status: 'completed' });
});

// Each test has a number and an application of its own.
describe.concurrent('a webhook that redirects', () => {
  test.each<[status: number, method: string]>([
    [301, 'GET'],
    [302, 'GET'],
    [303, 'GET'],
    [307, 'POST'],
    [308, 'POST'],
  ])(
    'with %s is followed as %s; every hop is signed, and relative addresses count from the last',
    async (status, method) => {
      const { number, server, secret } = await numberOf(({ path }) => {
        if (path === '/start') return redirect(status, '/calls/menu?from=start#top');
        if (path.startsWith('/calls/menu')) return '<Response><Redirect>next</Redirect></Response>';
        return '<Response><Hangup/></Response>';
      });
      await phoneCalls(app, number);
      expect(asked(server)).toEqual(['POST /start', `${method} /calls/menu?from=start`, 'POST /calls/next']);
      const [first, second] = server.requests as [ReceivedRequest, ReceivedRequest];
      expect(second.body).toBe(method === 'POST' ? first.body : '');
      for (const request of server.requests) expect(isSigned(secret, server, request)).toBe(true);
      expect(await app.finishedCall(number)).toMatchObject({ hangup_cause: 'normal_clearing' });
    },
  );

  test('five times is followed, six times is not', async () => {
    const hops = (most: number): Serve => {
      return ({ path }) => {
        const hop = Number(path.slice('/start'.length));
        return hop < most ? redirect(302, `/start${hop + 1}`) : '<Response><Hangup/></Response>';
      };
    };
    const five = await numberOf(hops(5));
    const six = await numberOf(hops(6));
    await Promise.all([five, six].map(({ number }) => phoneCalls(app, number)));
    expect(five.server.requests).toHaveLength(6);
    expect(await app.finishedCall(five.number)).toMatchObject({ hangup_cause: 'normal_clearing' });
    expect(six.server.requests).toHaveLength(6);
    const record = await app.finishedCall(six.number);
    expect(record).toMatchObject({ status: 'failed', hangup_cause: 'webhook_error' });
    const failed = record.events.find((each) => each.event_type === 'webhook.failed');
    expect(failed?.event_data.message).toBe('More than 5 redirects.');
  });

  test('in JSON signs what each hop gets', async () => {
    const { number, server, secret } = await numberOf(
      ({ path }) =>
        path === '/start'
          ? redirect(302, '/moved')
          : { headers: { 'content-type': 'application/json' }, body: '{"actions":[{"action":"hangup"}]}' },
      {},
    );
    await phoneCalls(app, number);
    expect(asked(server)).toEqual(['POST /start', 'GET /moved']);
    for (const { headers, body } of server.requests) {
      const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
      const key = Buffer.from(secret.replace('whsec_', ''), 'base64');
      expect(headers['webhook-signature']).toBe(`v1,${createHmac('sha256', key).update(signed).digest('base64')}`);
    }
  });

  test('is not asked twice when the address it names does not answer', async () => {
    const { number, server } = await numberOf(() => redirect(307, 'http://127.0.0.1:1/'));
    await phoneCalls(app, number);
    expect(server.requests).toHaveLength(1);
  });

  test('events are not sent on', async () => {
    const events = await serverOf(() => redirect(307, '/elsewhere'));
    const { number } = await numberOf(() => '<Response><Hangup/></Response>', {
      format: 'twiml',
      events_url: `${events.url}/events`,
    });
    await phoneCalls(app, number);
    await soon(() => expect(events.requests.length).toBeGreaterThan(0));
    expect(events.requests.map(({ path }) => path.split('?')[0])).not.toContain('/elsewhere');
  });
});

describe.concurrent('cookies', () => {
  test('are returned to the host that set them until the call ends, also during a redirect', async () => {
    const { number, server } = await numberOf(({ path, headers }): Served | string => {
      if (path === '/start')
        return {
          status: 302,
          headers: {
            location: '/menu',
            'set-cookie': [
              'session=a; Path=/; HttpOnly',
              'only=here; Path=/menu',
              'old=1; Max-Age=0',
              'other=1; Domain=example.com',
            ],
          },
        };
      if (path === '/menu')
        return {
          headers: { 'set-cookie': 'session=b; Path=/' },
          body: '<Response><Redirect>/next</Redirect></Response>',
        };
      return headers.cookie === 'session=b' ? '<Response><Hangup/></Response>' : '<Response><Reject/></Response>';
    });
    await phoneCalls(app, number);
    const sent = server.requests.map(({ headers }) => headers.cookie?.split('; ').sort().join('; '));
    expect(sent).toEqual([undefined, 'only=here; session=a', 'session=b']);
    await phoneCalls(app, number);
    expect(server.requests[3]?.headers.cookie).toBeUndefined(); // another call
  });

  test('carry the state of an application that keeps it nowhere else', async () => {
    const { number, server } = await numberOf(({ headers, body }) => {
      const state = /state=(\w+)/.exec(headers.cookie ?? '')?.[1];
      const setCookie = (value: string) => ({ 'set-cookie': `state=${value}; HttpOnly; Path=/` });
      if (state === undefined)
        return { headers: setCookie('menu'), body: '<Response><Gather numDigits="1" timeout="20"/></Response>' };
      if (state === 'menu' && body.includes('Digits=7'))
        return { headers: setCookie('end'), body: '<Response><Redirect/>\n<Redirect>/start</Redirect></Response>' };
      return '<Response><Hangup/></Response>';
    });
    await phoneCalls(app, number, { durationMs: 20_000, digits: '7', digitsAfterMs: 1000 });
    expect(server.requests.map(({ headers }) => headers.cookie)).toEqual([undefined, 'state=menu', 'state=end']);
  });
});

describe.concurrent('a call goes on', () => {
  test.each<[string, string]>([
    ['an empty <Response>', '<Response/>'],
    ['an empty body', ''],
    ['an empty <Say>', '<Response><Say></Say></Response>'],
  ])('answered and completed, with %s', async (_name, document) => {
    const { number } = await numberOf(() => document);
    const heard = await phoneCalls(app, number);
    expect(heard.report()).toMatchObject({ answered: true, endedBy: 'far side' });
    expect(await app.finishedCall(number)).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing' });
  });

  test('behind verbs, attributes and files that are wrong; each is in the record', async () => {
    const { number, server } = await numberOf(({ path }) => {
      if (path === '/start')
        return `<Response>
<Dance/>
<Pause length="soon"/>
<Say></Say>
<Play>/missing.wav?token=secret</Play>
<Play>/broken.wav</Play>
<Gather numDigits="1" timeout="0" action="/heard"><Play>/missing.wav</Play><Hangup/></Gather>
<Redirect>/end</Redirect>
</Response>`;
      if (path === '/broken.wav') return { body: 'no audio', headers: { 'content-type': 'audio/wav' } };
      return path === '/end' ? '<Response><Hangup/></Response>' : { status: 404 };
    });
    await phoneCalls(app, number, { durationMs: 20_000 });
    expect(server.requests.at(-1)?.path).toBe('/end');
    expect(await app.finishedCall(number)).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing' });
    const warnings = await warningsOf(number);
    const said = [
      'line 2: <Dance>: is no verb of ours',
      'line 3: <Pause>: length must be a number',
      'line 4: <Say>: has no text',
      `The file ${server.url}/missing.wav cannot be heard: The audio file's server answered 404. The call goes on`,
      `The file ${server.url}/broken.wav cannot be heard`,
      '<Hangup>: cannot stand in <Gather>; it is left out',
    ];
    for (const each of said) expect(warnings.join('\n')).toContain(each);
    expect(warnings.join('\n')).not.toContain('token=secret');
  });

  test('in JSON too, behind a file and an endpoint that are not there', async () => {
    const json = (actions: object[]): Served => ({
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ actions }),
    });
    const { number, server } = await numberOf(({ path }) => {
      if (path === '/start')
        return json([
          { action: 'play', url: '/missing.wav' },
          { action: 'connect', endpoint_id: '00000000-0000-7000-8000-000000000000', url: '/after' },
        ]);
      return path === '/after' ? json([{ action: 'hangup' }]) : { status: 404 };
    }, {});
    await phoneCalls(app, number, { durationMs: 20_000 });
    const last = server.requests.at(-1);
    expect(last?.path).toBe('/after');
    expect(JSON.parse(last?.body ?? '{}')).toMatchObject({ type: 'call.disconnected', data: { status: 'failed' } });
    expect((await warningsOf(number)).at(-1)).toBe('The call is not connected: There is no such endpoint.');
  });

  test.each<[string, string, string]>([
    ['speech', 'The gather ends with its timeout.', '/next'],
    ['dtmf speech', 'Keys are taken all the same.', '/heard'],
  ])('when %s is gathered and nothing understands speech', async (input, told, reached) => {
    const { number, server } = await numberOf(({ path }) =>
      path === '/start'
        ? `<Response><Gather input="${input}" numDigits="1" timeout="3" action="/heard"><Play>/tone.wav</Play></Gather><Redirect>/next</Redirect></Response>`
        : '<Response><Hangup/></Response>',
    );
    await phoneCalls(app, number, { durationMs: 20_000, digits: '7', digitsAfterMs: 1000 });
    expect(server.requests.at(-1)?.path).toBe(reached);
    expect(server.requests.map(({ path }) => path)).toContain('/tone.wav'); // the prompts are played
    const [warning] = await warningsOf(number);
    expect(warning).toContain('there is no transcription engine (run `npx trunkline setup speech`');
    expect(warning).toContain(told);
  });

  test('but not for ever: what fails again and again is a circle', async () => {
    const { number, server } = await numberOf(({ path }) =>
      path === '/start' ? '<Response><Play>/x.wav</Play><Redirect>/start</Redirect></Response>' : { status: 404 },
    );
    await phoneCalls(app, number, { durationMs: 30_000 });
    expect(await app.finishedCall(number)).toMatchObject({ status: 'failed', hangup_cause: 'webhook_error' });
    expect(server.requests.filter(({ path }) => path === '/start').length).toBeLessThan(30);
  });

  test('with documents that are not in UTF-8', async () => {
    const { number, server } = await numberOf(({ path }) =>
      path === '/start'
        ? {
            body: Buffer.from(
              '\ufeff<?xml version="1.0" encoding="UTF-16"?><Response><Redirect>/gr\u00fc\u00dfe</Redirect></Response>',
              'utf16le',
            ),
          }
        : '<Response><Hangup/></Response>',
    );
    await phoneCalls(app, number);
    expect(server.requests.at(-1)?.path).toBe('/gr%C3%BC%C3%9Fe');
  });

  test('with markup in a text: words are spoken, breaks are silence, the rest is named', async () => {
    const { number } = await numberOf(
      () => '<Response><Say>One.<break time="2s"/><prosody rate="slow">Two.</prosody></Say></Response>',
    );
    const heard = await phoneCalls(app, number, { durationMs: 30_000 });
    const samples = heard.samples();
    const loud = Array.from({ length: Math.floor(samples.length / 800) }, (_, at) =>
      samples.subarray(at * 800, (at + 1) * 800).some((sample) => Math.abs(sample) > 1000),
    );
    const [first, last] = [loud.indexOf(true), loud.lastIndexOf(true)];
    const longestSilence = Math.max(
      ...loud
        .slice(first, last)
        .join('')
        .split('true')
        .map((run) => run.length / 5),
    );
    expect(longestSilence).toBeGreaterThanOrEqual(18); // tenths of a second
    expect(longestSilence).toBeLessThan(40);
    expect(await warningsOf(number)).toEqual([
      'line 1: <Say>: <prosody> in line 1 has no effect; its words are spoken as they are',
    ]);
  });
});
