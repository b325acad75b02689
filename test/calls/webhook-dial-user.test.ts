import { describe, expect, test } from 'vitest';
import { openSimulatedCarrier, type SimulatedCarrier } from '../../src/simulator/carrier.js';
import { HandPhone } from '../support/joined-call.js';
import { addTrunk } from '../support/outbound.js';
import { tonesHz } from '../support/tone-caller.js';
import { soon } from '../support/webhook-app.js';
import { webhookScene } from '../support/webhook-scene.js';

let carrier: SimulatedCarrier;
let desk: HandPhone;

const scene = webhookScene({}, async (app) => {
  carrier = await openSimulatedCarrier({ ringMs: 100, timersMs: { t1: 100 } });
  await addTrunk(app, [carrier.uri]);
  for (const username of ['desk1', 'desk2'])
    await app.api('POST', '/v1/trunks', {
      ...{ name: username, direction: 'inbound', username, password: `secret-of-${username}` },
    });
  desk = await HandPhone.open(app.sip.addresses[0]?.port ?? 0);
  await desk.register({ username: 'desk1', password: 'secret-of-desk1' });
  return async () => {
    await desk.close();
    await carrier.close();
  };
});
const { application } = scene;

describe('<Client>', () => {
  test('rings the phone of our registrar, which may send the caller elsewhere by REFER', async () => {
    const { number, form } = await application({
      '/start':
        '<Response><Dial referUrl="/refer" trim="trim-silence" ringTone="de"><Client>desk1</Client></Dial></Response>',
      '/refer': '<Response><Pause length="1"/><Hangup/></Response>',
    });
    const calling = scene.caller(number, tonesHz[0]);
    const invite = await desk.sip.next('INVITE');
    expect(invite.startLine).toContain('sip:desk1@127.0.0.1');
    desk.answer(invite);
    await desk.sip.next('ACK');
    const caller = await calling;
    await desk.rtp.until(() => desk.rtp.heard.some((packet) => packet.payload[5] !== 0xff), 'the caller at the desk');
    desk.ask('REFER', ['Refer-To: <sip:+12025550123@elsewhere.example>']);
    expect((await desk.sip.next(202)).status).toBe(202);
    const untilBye = async () => {
      for (;;) {
        const request = await desk.sip.next(['NOTIFY', 'BYE']);
        desk.sip.respond(request, 200);
        if (request.method === 'BYE') return;
      }
    };
    await untilBye();
    await soon(() => expect(form('/refer').ReferTransferTarget).toContain('+12025550123@elsewhere.example'));
    await caller.untilLet();
    const call = await scene.app.finishedCall(number);
    const warnings = call.events.filter((event) => event.event_type === 'webhook.warning');
    expect(warnings.map((event) => event.event_data.message)).toEqual(['line 1: trim of <Dial> has no effect']);
  });

  test.each([
    ['desk2', 'no-answer'],
    ['nobody', 'failed'],
  ])('%s ends as %s', async (name, status) => {
    const { number, form } = await application({
      '/start': `<Response><Dial action="/after"><Client><Identity>${name}</Identity></Client></Dial></Response>`,
      '/after': '<Response><Hangup/></Response>',
    });
    const caller = await scene.caller(number, tonesHz[0]);
    await caller.untilLet();
    expect(form('/after')).toMatchObject({ DialCallStatus: status });
  });

  test('in JSON', async () => {
    const { number, server } = await application(
      { '/start': [{ action: 'dial', to: 'client:desk2', url: '/after' }], '/after': [] },
      {},
    );
    const caller = await scene.caller(number, tonesHz[0]);
    await caller.untilLet();
    const asked = server.requests.map(({ body }) => JSON.parse(body) as { type: string; data: object }).at(-1);
    expect(asked).toMatchObject({ type: 'call.dialed', data: { status: 'no-answer', to: ['client:desk2'] } });
  });
});

test('sequential numbers are called one after the other', async () => {
  const { number, form } = await application({
    '/start':
      '<Response><Dial sequential="true" action="/after"><Number statusCallback="/first">+15005550486</Number><Number>+15005550201</Number><Number statusCallback="/third">+15005550486</Number></Dial></Response>',
    '/after': '<Response><Hangup/></Response>',
  });
  const caller = await scene.caller(number, tonesHz[0]);
  await caller.untilLet();
  expect(form('/after')).toMatchObject({ DialCallStatus: 'completed' });
  await soon(() => expect(form('/first')).toMatchObject({ CallStatus: 'busy' }));
  expect(() => form('/third')).toThrow();
});
