/** INVITE with `Replaces` (RFC 3891): another phone takes the place of one in a call that runs. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { type CallRecord, startTestApp, type TestApp } from '../support/app.js';
import type { OutgoingInvite, PeerMessage } from '../support/bare-sip-peer.js';
import { endJoined, HandPhone, joinTwo } from '../support/joined-call.js';
import { eventually } from '../support/media-engine.js';
import { addTrunk, placeOutbound } from '../support/outbound.js';
import type { SdpChange } from '../support/rtp-phone.js';

let app: TestApp;
const open: HandPhone[] = [];
beforeAll(async () => {
  app = await startTestApp({}, { t1: 100, t2: 400, t4: 500 });
});
afterEach(async () => {
  for (const phone of open.splice(0)) await phone.close();
});
afterAll(() => app.end());

const events = (record: CallRecord, type: string) =>
  record.events.filter((event) => event.event_type === type).map((event) => event.event_data);
const tagOf = (value: string) => /;tag=([^;>\s]+)/.exec(value)?.[1] ?? '';
/** The dialog of a phone as Trunkline sees it. */
const replacing = ({ dialog }: HandPhone, more = '') => {
  const { invite, answer } = dialog as { invite: OutgoingInvite; answer: PeerMessage };
  return `Replaces: ${invite.callId};to-tag=${tagOf(answer.header('to'))};from-tag=${tagOf(invite.from)}${more}`;
};

async function colleague(lines: string[], sdp: SdpChange = {}): Promise<{ phone: HandPhone; invited: OutgoingInvite }> {
  const phone = await HandPhone.open(app.sip.addresses[0]?.port ?? 0);
  open.push(phone);
  return { phone, invited: phone.invite('whoever', sdp, lines) };
}

async function hears(phone: HandPhone, from: HandPhone, fill: number): Promise<void> {
  await eventually(async () => {
    await from.rtp.talk(5, () => new Uint8Array(160).fill(fill));
    return phone.rtp.heard.some((packet) => packet.payload[0] === fill);
  }, `audio of ${fill}`);
}

it.each(['caller', 'agent'] as const)(
  'takes the place of the %s: that phone gets BYE, the other one continues',
  async (side) => {
    const joined = await joinTwo(app);
    const left = joined[side];
    const stays = joined[side === 'caller' ? 'agent' : 'caller'];
    const { phone, invited } = await colleague(['Require: replaces', replacing(left)]);
    phone.confirm(invited, await phone.sip.next(200));
    const bye = await left.sip.next('BYE');
    left.sip.respond(bye, 200);
    await hears(stays, phone, 40);
    await hears(phone, stays, 41);
    // The new dialog is a whole one: a hold of it is passed on, and whoever hangs up ends the call.
    const held = stays.takeReoffer({});
    expect((await phone.reoffer({ direction: 'sendonly' })).status).toBe(200);
    expect((await held).body).toContain('a=sendonly');
    await phone.hangUp();
    stays.sip.respond(await stays.sip.next('BYE'), 200);
    const record = await app.finishedCall(joined.number);
    expect(record.status).toBe('completed');
    expect(events(record, 'transfer.completed')).toEqual([{ to: '+15550001111', method: 'replaces' }]);
    const trace = JSON.stringify(await app.api('GET', `/v1/calls/${record.id}/trace`));
    expect(trace).toContain('Replaces: ');
    await Promise.all([joined.caller.close(), joined.agent.close()]);
  },
);

it('two want the same place at once: one gets it, the other 481, or 603 once it is taken', async () => {
  const joined = await joinTwo(app);
  let left = joined.caller;
  const phones: HandPhone[] = [];
  const refusals: number[] = [];
  for (let step = 0; step < 6; step++) {
    const lines = [replacing(left)];
    const both = [await HandPhone.open(app.sip.addresses[0]?.port), await HandPhone.open(app.sip.addresses[0]?.port)];
    phones.push(...both);
    const answers = both.map(async (phone, i) => {
      if (i > 0) await sleep(step);
      const invited = phone.invite('whoever', {}, lines);
      const answer = await phone.sip.next([200, 481, 603]);
      if (answer.status === 200) phone.confirm(invited, answer);
      else phone.sip.ackFailure(invited, answer);
      return answer.status;
    });
    const statuses = await Promise.all(answers);
    expect(statuses.filter((status) => status === 200)).toHaveLength(1);
    refusals.push(...statuses.filter((status) => status !== 200));
    left.sip.respond(await left.sip.next('BYE'), 200);
    left = both[statuses.indexOf(200)] as HandPhone;
    await hears(joined.agent, left, 60 + step);
  }
  expect(refusals[0], 'in one burst').toBe(481);
  const record = await endJoined(app, { ...joined, caller: left });
  expect(events(record, 'transfer.completed')).toHaveLength(6);
  expect(events(record, 'transfer.failed')).toEqual([]);
  for (const phone of [joined.caller, ...phones.filter((each) => each !== left)]) {
    expect(phone.sip.received.filter((message) => message.method === 'BYE')).toEqual([]);
    await phone.close();
  }
});

it('what cannot be done is refused, and the call goes on as it was', async () => {
  const joined = await joinTwo(app);
  const right = replacing(joined.caller);
  const refusals: [string[], SdpChange, number][] = [
    [[right, right], {}, 400],
    [[right, 'Join: 1;to-tag=2;from-tag=3'], {}, 400],
    [['Replaces: 1234;to-tag=5'], {}, 400],
    [['Replaces: 1234@nowhere;to-tag=5;from-tag=6'], {}, 481],
    [[right.replace(/to-tag=[^;]*/, 'to-tag=guessed')], {}, 481],
    [[replacing(joined.caller, ';early-only')], {}, 486],
    [[right], { codecs: '18' }, 488],
  ];
  for (const [lines, sdp, status] of refusals) {
    const { phone, invited } = await colleague(lines, sdp);
    const refused = await phone.sip.next([200, 400, 403, 481, 486, 488, 603]);
    expect([lines, refused.status]).toEqual([lines, status]);
    phone.sip.ackFailure(invited, refused);
  }
  await hears(joined.agent, joined.caller, 50);
  const record = await endJoined(app, joined);
  expect(record).toMatchObject({ status: 'completed', hangup_source: 'caller' });
  expect(events(record, 'transfer.failed')).toEqual([
    expect.objectContaining({ method: 'replaces', reason: 'incompatible_media', sip_status: 488 }),
  ]);
  const { phone, invited } = await colleague([right]);
  const late = await phone.sip.next([200, 481, 603]);
  expect(late.status).toBe(603);
  phone.sip.ackFailure(invited, late);
});

it('a call over another trunk cannot be replaced by a stranger who knows its dialog', async () => {
  const phone = await HandPhone.open(app.sip.addresses[0]?.port ?? 0);
  open.push(phone);
  const trunk = await addTrunk(app, [`sip:carrier@127.0.0.1:${phone.sip.port}`]);
  const { data } = await app.api<{ data: { id: string; endpoint_id: string }[] }>('GET', '/v1/phone-numbers');
  const echo = data.at(-1) as { id: string; endpoint_id: string };
  placeOutbound(app, { to: '+12025550177', numberId: echo.id, endpointId: echo.endpoint_id });
  phone.answer(await phone.sip.next('INVITE'));
  await phone.sip.next('ACK');
  // the ACK is the server's; who places the call hears of the answer a moment later
  const answered = async () =>
    (await app.api<{ data: { answered_at: string | null }[] }>('GET', '/v1/calls?status=in_progress')).data.some(
      (call) => call.answered_at !== null,
    );
  await expect.poll(answered).toBe(true);
  const stranger = await colleague([replacing(phone)]);
  const refused = await stranger.phone.sip.next([200, 403, 481]);
  expect(refused.status).toBe(403);
  stranger.phone.sip.ackFailure(stranger.invited, refused);
  await phone.hangUp();
  const record = await app.finishedCall('+12025550177');
  expect(record).toMatchObject({ status: 'completed', hangup_source: 'callee' });
  expect(events(record, 'transfer.failed')).toEqual([expect.objectContaining({ reason: 'not_allowed' })]);
  await app.api('DELETE', `/v1/trunks/${trunk}`);
});

it('a hangup by the API reaches the phone that took the place, and the phone that left gets one BYE', async () => {
  const joined = await joinTwo(app);
  const { phone, invited } = await colleague([replacing(joined.caller)]);
  phone.confirm(invited, await phone.sip.next(200));
  joined.caller.sip.respond(await joined.caller.sip.next('BYE'), 200);
  const calls = async () =>
    (await app.api<{ data: { id: string; to_number: string }[] }>('GET', '/v1/calls?status=in_progress')).data;
  const id = (await calls()).find((call) => call.to_number === joined.number)?.id;
  const hungUp = app.api('POST', `/v1/calls/${id}/hangup`);
  for (const each of [phone, joined.agent]) each.sip.respond(await each.sip.next('BYE'), 200);
  await hungUp;
  expect(await app.finishedCall(joined.number)).toMatchObject({ status: 'completed', hangup_source: 'api' });
  expect(joined.caller.sip.received.filter((message) => message.method === 'BYE')).toEqual([]);
  await Promise.all([joined.caller.close(), joined.agent.close()]);
});

it('a new phone that sends no ACK ends the call: the phone before it has left', async () => {
  const joined = await joinTwo(app);
  const { phone } = await colleague([replacing(joined.caller)]);
  await phone.sip.next(200);
  joined.caller.sip.respond(await joined.caller.sip.next('BYE'), 200);
  for (const each of [phone, joined.agent]) each.sip.respond(await each.sip.next('BYE', 10_000), 200);
  expect(await app.finishedCall(joined.number)).toMatchObject({ status: 'failed', hangup_cause: 'no_ack' });
  await Promise.all([joined.caller.close(), joined.agent.close()]);
});
