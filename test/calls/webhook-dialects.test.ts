/** Calls that follow applications of other platforms: their requests, signatures and documents. */
import { createHash, createHmac, createPublicKey, verify } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { afterAll, describe, expect, test } from 'vitest';
import { WebSocketServer } from 'ws';
import { openSimulatedCarrier } from '../../src/simulator/carrier.js';
import { plivoHeaders } from '../../src/webhook/signature.js';
import { addTrunk } from '../support/outbound.js';
import type { ReceivedRequest } from '../support/receiver.js';
import { soon, type WebhookApp } from '../support/webhook-app.js';
import { webhookScene } from '../support/webhook-scene.js';

interface Visit {
  /** Of the upgrade request. */
  headers: { [name: string]: string | string[] | undefined };
  first: { [name: string]: unknown };
  binaryBytes: number;
}

const bots = new WebSocketServer({ port: 0, host: '127.0.0.1' });
const visits = new Map<string, Visit>();
bots.on('connection', (socket, { url = '', headers }) => {
  const visit: Visit = { headers, first: {}, binaryBytes: 0 };
  visits.set(url, visit);
  socket.on('message', (data: Buffer, isBinary) => {
    if (isBinary) visit.binaryBytes += data.length;
    else if (visit.first.event === undefined || visit.first.event === 'connected')
      visit.first = JSON.parse(String(data));
  });
});
const botUrl = () => `ws://127.0.0.1:${(bots.address() as AddressInfo).port}`;
const scene = webhookScene({}, async (app) => {
  const carrier = await openSimulatedCarrier({ ringMs: 100, timersMs: { t1: 100 } });
  await addTrunk(app, [carrier.uri]);
  return () => carrier.close();
});
afterAll(() => {
  for (const client of bots.clients) client.terminate();
  bots.close();
});

let nextPath = 0;
/** A path of this try alone. */
const ownPath = () => `/bot-${nextPath++}`;

/** Presses the key until the application is asked at this path: it counts only while the call waits for it. */
async function press(
  caller: Awaited<ReturnType<typeof scene.caller>>,
  { server }: WebhookApp,
  key: number,
  path: string,
) {
  await soon(() => {
    caller.press(key);
    expect(server.requests.map((request) => request.path.split('?')[0])).toContain(path);
  }, 30_000);
}

function requestTo({ server }: WebhookApp, path: string): ReceivedRequest {
  const request = server.requests.find((each) => each.path.split('?')[0] === path);
  if (request === undefined) throw new Error(`Nothing was sent to ${path}.`);
  return request;
}

const callOf = async (number: string) => {
  const { data } = await scene.app.api<{ data: { id: string; to_number: string }[] }>('GET', '/v1/calls?limit=100');
  return data.find((call) => call.to_number === number)?.id ?? '';
};

describe('TeXML', () => {
  test("has Twilio's fields, Telnyx' signature and streams, and a report of the end", async () => {
    const path = ownPath();
    const application = await scene.application(
      {
        '/start':
          '<Response><Gather action="/menu" maxDigits="1" timeout="60"><Pause length="60"/></Gather></Response>',
        '/menu': `<Response><Connect><Stream url="${botUrl()}${path}" bidirectionalMode="rtp" bidirectionalCodec="PCMA"><Parameter name="a" value="1"/></Stream></Connect></Response>`,
      },
      { format: 'texml' },
    );
    await scene.app.api('PATCH', `/v1/endpoints/${application.endpointId}`, {
      provider_config: { status_callback_url: `${application.server.url}/ended` },
    });
    const { webhook_public_key: publicKey } = await scene.app.api<{ webhook_public_key: string }>(
      'GET',
      `/v1/endpoints/${application.endpointId}`,
    );
    const caller = await scene.caller(application.number, 500);
    await press(caller, application, 1, '/menu');
    const sid = `CA${(await callOf(application.number)).replaceAll('-', '')}`;
    expect(application.form('/menu')).toMatchObject({
      CallSid: sid,
      CallSidLegacy: sid,
      Digits: '1',
      To: application.number,
    });
    const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: publicKey }, format: 'jwk' });
    for (const name of ['/start', '/menu']) {
      const { headers, body } = requestTo(application, name);
      const signature = Buffer.from(String(headers['telnyx-signature-ed25519']), 'base64');
      expect(verify(null, Buffer.from(`${headers['telnyx-timestamp']}|${body}`), key, signature)).toBe(true);
    }
    await soon(() => expect(visits.get(path)?.first.event).toBe('start'));
    expect(visits.get(path)?.first).toMatchObject({
      start: { media_format: { encoding: 'PCMA', sample_rate: 8000 }, custom_parameters: { a: '1' } },
    });
    await caller.leave();
    await soon(() => expect(application.form('/ended')).toMatchObject({ CallStatus: 'completed', CallSid: sid }));
  });
});

describe('Plivo XML', () => {
  test("has Plivo's fields and signature, a result without redirect, and a bidirectional stream", async () => {
    const path = ownPath();
    const application = await scene.application(
      {
        '/start':
          '<Response><GetInput action="/menu" inputType="dtmf" numDigits="1" executionTimeout="60"><Speak>Press one.</Speak></GetInput></Response>',
        '/menu': `<Response><Record maxLength="1" playBeep="false" redirect="false" action="/recorded"/><Stream bidirectional="true" keepCallAlive="true" contentType="audio/x-l16;rate=16000" extraHeaders="a=1">${botUrl()}${path}</Stream></Response>`,
        // Not followed, because the document says so.
        '/recorded': '<Response><Hangup/></Response>',
      },
      { format: 'plivo' },
    );
    const caller = await scene.caller(application.number, 500);
    await press(caller, application, 1, '/menu');
    const id = await callOf(application.number);
    expect(application.form('/start')).toMatchObject({
      CallUUID: id,
      To: application.number.slice(1),
      CallStatus: 'ringing',
      Direction: 'inbound',
      Event: 'StartApp',
    });
    expect(application.form('/menu')).toMatchObject({ CallUUID: id, Digits: '1', InputType: 'dtmf' });
    await soon(() => expect(visits.get(path)?.first.event).toBe('start'), 20_000);
    expect(application.form('/recorded')).toMatchObject({ CallUUID: id, RecordUrl: expect.stringMatching(/^http/) });
    for (const name of ['/start', '/menu', '/recorded']) {
      const { headers } = requestTo(application, name);
      const nonce = String(headers['x-plivo-signature-v3-nonce']);
      const wanted = plivoHeaders(application.secret, application.server.url + name, application.form(name), nonce);
      expect(headers).toMatchObject(wanted);
    }
    const { first, headers } = visits.get(path) as Visit;
    expect(first).toMatchObject({ start: { callId: id, mediaFormat: { encoding: 'audio/x-l16', sampleRate: 16000 } } });
    expect(JSON.parse(String(first.extra_headers))).toEqual({ a: '1' });
    const nonce = String(headers['x-plivo-signature-v3-nonce']);
    expect(headers).toMatchObject(plivoHeaders(application.secret, `${botUrl()}${path}`, null, nonce));
    await caller.leave();
  });

  test('a callee that does not press the confirmKey in time is not connected', async () => {
    const callee = '+12025550888';
    const application = await scene.application(
      {
        '/start': `<Response><Dial callbackUrl="/leg" action="/dialled" confirmSound="/confirm" confirmKey="5" confirmTimeout="1"><Number>${callee.slice(1)}</Number></Dial></Response>`,
        '/confirm': '<Response><Wait length="0"/></Response>',
        '/dialled': '<Response><Wait length="60"/></Response>',
      },
      { format: 'plivo' },
    );
    const caller = await scene.caller(application.number, 500);
    await soon(() => application.form('/dialled'), 30_000);
    const id = await callOf(application.number);
    expect(application.form('/dialled')).toMatchObject({
      CallUUID: id,
      DialALegUUID: id,
      DialBLegUUID: expect.stringMatching(/^[0-9a-f-]{36}$/),
      DialStatus: 'no-answer',
    });
    await soon(() => expect(application.forms('/leg')).toHaveLength(2));
    expect(application.forms('/leg')[0]).toMatchObject({
      DialAction: 'answer',
      DialBLegTo: callee.slice(1),
      CallUUID: id,
    });
    expect(application.forms('/leg')[1]).toMatchObject({ DialAction: 'hangup', Event: 'DialHangup' });
    await caller.leave();
  });
});

describe('NCCO', () => {
  test('is asked with GET, gets input and notifications as JSON with a JWT, and goes on when there is no answer', async () => {
    const path = ownPath();
    const application = await scene.application(
      {
        '/start': [
          { action: 'talk', text: 'Press one.', bargeIn: true },
          { action: 'input', type: ['dtmf'], dtmf: { maxDigits: 1, timeOut: 10 }, eventUrl: ['/menu'] },
          { action: 'notify', payload: { step: 2 }, eventUrl: ['/passed'] },
          { action: 'talk', text: 'never reached' },
        ],
        '/menu': 204,
        '/passed': [
          {
            action: 'connect',
            endpoint: [
              {
                type: 'websocket',
                uri: `${botUrl()}${path}`,
                'content-type': 'audio/l16;rate=8000',
                headers: { a: '1' },
              },
            ],
          },
        ],
      },
      { format: 'ncco' },
    );
    const caller = await scene.caller(application.number, 500);
    await press(caller, application, 1, '/menu');
    const id = await callOf(application.number);
    const start = requestTo(application, '/start');
    expect(start.method).toBe('GET');
    expect(Object.fromEntries(new URLSearchParams(start.path.split('?')[1]))).toMatchObject({
      uuid: id,
      conversation_uuid: `CON-${id}`,
      to: application.number.slice(1),
    });
    await soon(() => expect(visits.get(path)?.first.event).toBe('websocket:connected'), 20_000);
    const [menu, passed] = [requestTo(application, '/menu'), requestTo(application, '/passed')];
    expect(JSON.parse(menu.body)).toMatchObject({ uuid: id, dtmf: { digits: '1', timed_out: false } });
    expect(JSON.parse(passed.body)).toMatchObject({ conversation_uuid: `CON-${id}`, payload: { step: 2 } });
    for (const { headers, body } of [start, menu, passed]) {
      const [header, claims, signature] = String(headers.authorization).replace('Bearer ', '').split('.');
      const wanted = createHmac('sha256', application.secret).update(`${header}.${claims}`).digest('base64url');
      expect(signature).toBe(wanted);
      const { iss, payload_hash: digest } = JSON.parse(Buffer.from(claims ?? '', 'base64url').toString());
      expect(iss).toBe('Vonage');
      expect(digest).toBe(body === '' ? undefined : createHash('sha256').update(body).digest('hex'));
    }
    expect(visits.get(path)?.first).toMatchObject({ 'content-type': 'audio/l16;rate=8000', a: '1' });
    await soon(() => expect(visits.get(path)?.binaryBytes).toBeGreaterThan(3200));
    await caller.leave();
    // An application that knows GET alone passes the test of its endpoint.
    await scene.app.api('POST', `/v1/endpoints/${application.endpointId}/test`);
    expect(application.server.requests.at(-1)).toMatchObject({ method: 'GET', path: '/start' });
  });
});
