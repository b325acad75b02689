/** What a dialled phone hears before it is connected, and how it declines. */
import { afterEach, describe, expect, test } from 'vitest';
import { ulawToLinear } from '../../media/audio/codec/g711.js';
import { answerChallenge } from '../../sip/auth/digest.js';
import type { CallRecord } from '../support/app.js';
import type { PeerMessage } from '../support/bare-sip-peer.js';
import { HandPhone } from '../support/joined-call.js';
import { toneFrame, tonesHz } from '../support/tone-caller.js';
import { probeTone } from '../support/tone-probe.js';
import { soon } from '../support/webhook-app.js';
import { webhookScene } from '../support/webhook-scene.js';

const scene = webhookScene({});
const { application } = scene;
const phones: HandPhone[] = [];
afterEach(async () => {
  for (const each of phones.splice(0)) await each.close();
});

let nextDesk = 1;

/** A phone that registers with a user name of its own. */
async function desk(): Promise<{ name: string; phone: HandPhone }> {
  const { app } = scene;
  const name = `screened${nextDesk++}`;
  const user = { username: name, password: `secret-of-${name}` };
  await app.api('POST', '/v1/trunks', { name, direction: 'inbound', ...user });
  const phone = await HandPhone.open(app.sip.addresses[0]?.port ?? 0);
  phones.push(phone);
  const { sip } = phone;
  const identity = {
    ...{ callId: `reg-${name}`, branch: '', from: `<sip:${name}@127.0.0.1>;tag=r`, to: `<sip:${name}@127.0.0.1>` },
    ...{ uri: `sip:127.0.0.1:${app.sip.addresses[0]?.port}`, cseq: 0 },
  };
  const lines = [`Contact: <sip:${name}@127.0.0.1:${sip.port}>`, 'Expires: 600'];
  sip.request('REGISTER', identity, lines, '', undefined, 1);
  const challenges = (await sip.next(401)).all('www-authenticate');
  const answer = answerChallenge({ status: 401, challenges }, { method: 'REGISTER', uri: identity.uri }, user);
  sip.request('REGISTER', identity, [...lines, `Authorization: ${answer?.value}`], '', undefined, 2);
  await sip.next(200);
  return { name, phone };
}

async function takes(phone: HandPhone): Promise<PeerMessage> {
  const invite = await phone.sip.next('INVITE');
  phone.answer(invite);
  await phone.sip.next('ACK');
  return invite;
}

function press(phone: HandPhone, event: number): void {
  for (let i = 0; i < 3; i++)
    phone.rtp.send(Uint8Array.of(event, 0x8a, 3, 0x20), { payloadType: 101, marker: i === 0, samples: 0 });
}

const untilHears = (phone: HandPhone, hz: number, what: string) =>
  phone.rtp.until(
    () => {
      const bytes = phone.rtp.heard.slice(-6).flatMap((packet) => [...packet.payload]);
      return (
        probeTone(
          Int16Array.from(bytes, (byte) => ulawToLinear[byte] ?? 0),
          hz,
        ).amplitude > 1500
      );
    },
    what,
    15_000,
  );

/** It hears the prompt of a gather, which takes keys from then on. */
const untilSpokenTo = (phone: HandPhone) =>
  phone.rtp.until(() => phone.rtp.heard.some(({ payload }) => payload[5] !== 0xff), 'the words at the desk', 15_000);

async function letGo(phone: HandPhone): Promise<void> {
  phone.sip.respond(await phone.sip.next('BYE'), 200);
}

const recordsTo = async (to: string) => {
  const { data } = await scene.app.api<{ data: { id: string; to_number: string }[] }>('GET', '/v1/calls?limit=100');
  return Promise.all(
    data.filter((call) => call.to_number === to).map(({ id }) => scene.app.api<CallRecord>('GET', `/v1/calls/${id}`)),
  );
};

const accepting = {
  '/screen':
    '<Response><Gather numDigits="1" timeout="30" action="/key"><Say>You have a call.</Say></Gather><Hangup/></Response>',
  '/key': '<Response/>',
  '/after': '<Response><Hangup/></Response>',
};

describe('a dialled phone', () => {
  test('hears the document and takes the call by a key; the caller hears ringback until then', async () => {
    const { name, phone } = await desk();
    const { number, form, forms } = await application({
      ...accepting,
      '/start': `<Response><Dial action="/after"><Client url="/screen">${name}</Client></Dial></Response>`,
    });
    const caller = await scene.caller(number, tonesHz[0]);
    await takes(phone);
    await untilSpokenTo(phone);
    const start = form('/start');
    expect(form('/screen')).toMatchObject({
      ...{ ParentCallSid: start.CallSid, Direction: 'outbound-dial', CallStatus: 'in-progress', From: start.From },
      To: `client:${name}`,
    });
    expect(form('/screen').CallSid).not.toBe(start.CallSid);
    await caller.phone.rtp.until(() => caller.level(440, 4) > 0.05, 'ringback at the caller', 15_000);
    press(phone, 1);
    await soon(() => expect(form('/key')).toMatchObject({ Digits: '1', CallSid: form('/screen').CallSid }));
    await untilHears(phone, tonesHz[0], 'the caller at the desk');
    const timer = setInterval(() => phone.rtp.send(toneFrame(tonesHz[1])), 20);
    await caller.untilHearsTone(tonesHz[1], 'the desk at the caller').finally(() => clearInterval(timer));
    await phone.hangUp();
    await caller.untilLet();
    expect(form('/after')).toMatchObject({ DialCallStatus: 'completed', DialBridged: 'true' });
    expect(forms('/screen')).toHaveLength(1);
  });

  test.each(['by a key', 'by hanging up'])('declines %s, and the next one is called', async (how) => {
    const [first, second] = [await desk(), await desk()];
    const { number, form, forms } = await application({
      ...accepting,
      '/start': `<Response><Dial sequential="true" action="/after"><Client url="/screen">${first.name}</Client><Client>${second.name}</Client></Dial></Response>`,
      '/key': '<Response><Hangup/></Response>',
    });
    const caller = await scene.caller(number, tonesHz[0]);
    await takes(first.phone);
    await untilSpokenTo(first.phone);
    if (how === 'by a key') {
      press(first.phone, 9);
      await letGo(first.phone);
      expect(forms('/key')).toMatchObject([{ Digits: '9' }]);
    } else await first.phone.hangUp();
    await takes(second.phone);
    await untilHears(second.phone, tonesHz[0], 'the caller at the second desk');
    await second.phone.hangUp();
    await caller.untilLet();
    expect(form('/after')).toMatchObject({ DialCallStatus: 'completed' });
  });

  test('that declines makes the result "no-answer"; a document that cannot be had does too', async () => {
    const { name, phone } = await desk();
    const { number, form } = await application({
      '/start': `<Response><Dial action="/after"><Client url="/screen">${name}</Client></Dial></Response>`,
      '/screen': 500,
      '/after': '<Response><Hangup/></Response>',
    });
    const caller = await scene.caller(number, tonesHz[0]);
    await takes(phone);
    await letGo(phone);
    await caller.untilLet();
    expect(form('/after')).toMatchObject({ DialCallStatus: 'no-answer', DialBridged: 'false' });
    const [child] = await recordsTo(`client:${name}`);
    expect(child).toMatchObject({ hangup_cause: 'webhook_error' });
    expect(child?.events.map(({ event_type: type }) => type)).toContain('webhook.failed');
  });

  test('is let go at once when the caller hangs up meanwhile', async () => {
    const { name, phone } = await desk();
    const { number, form, forms } = await application({
      ...accepting,
      '/start': `<Response><Dial action="/after"><Client url="/screen">${name}</Client></Dial></Response>`,
    });
    const caller = await scene.caller(number, tonesHz[0]);
    await takes(phone);
    await soon(() => expect(forms('/screen')).toHaveLength(1));
    await caller.leave();
    await letGo(phone);
    await soon(() => expect(form('/after')).toMatchObject({ DialCallStatus: 'canceled' }));
  });

  test('of several, the first that accepts has the call', async () => {
    const [first, second] = [await desk(), await desk()];
    const { number, form, forms } = await application({
      ...accepting,
      '/start': `<Response><Dial action="/after"><Client url="/screen">${first.name}</Client><Client url="/screen">${second.name}</Client></Dial></Response>`,
    });
    const caller = await scene.caller(number, tonesHz[0]);
    await Promise.all([takes(first.phone), takes(second.phone)]);
    await soon(() => expect(forms('/screen')).toHaveLength(2));
    await untilSpokenTo(second.phone);
    press(second.phone, 1);
    await letGo(first.phone);
    await untilHears(second.phone, tonesHz[0], 'the caller at the second desk');
    await caller.leave();
    await letGo(second.phone);
    await soon(() => expect(form('/after')).toMatchObject({ DialCallStatus: 'completed' }));
  });

  test('in JSON: screen_url', async () => {
    const { name, phone } = await desk();
    const { number, server } = await application(
      {
        '/start': [{ action: 'dial', to: `client:${name}`, screen_url: '/screen', url: '/after' }],
        '/screen': [{ action: 'dial', to: '+12025550123' }, { action: 'hangup' }],
        '/after': [],
      },
      {},
    );
    const caller = await scene.caller(number, tonesHz[0]);
    await takes(phone);
    await letGo(phone);
    await caller.untilLet();
    const asked = server.requests.map(({ body }) => JSON.parse(body) as { type: string; data: object });
    expect(asked.map(({ type }) => type)).toEqual(['call.incoming', 'call.screening', 'call.dialed']);
    expect(asked[1]?.data).toMatchObject({ to_number: `client:${name}` });
    expect(asked[2]?.data).toMatchObject({ status: 'no-answer' });
    const [child] = await recordsTo(`client:${name}`);
    expect(child?.events.filter(({ event_type: type }) => type === 'webhook.warning')).toMatchObject([
      { event_data: { message: '"dial" has no effect before the connection.' } },
    ]);
  });
});
