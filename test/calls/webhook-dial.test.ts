import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readWav } from '../../media/audio/wav.js';
import { callIdOf } from '../../src/api/twilio/resources.js';
import { type CalleeHeard, openSimulatedCarrier, type SimulatedCarrier } from '../../src/simulator/carrier.js';
import { type CallRecord, startTestApp, type TestApp } from '../support/app.js';
import { phoneCalls } from '../support/caller.js';
import { HandPhone } from '../support/joined-call.js';
import { addTrunk } from '../support/outbound.js';
import { type Receiver, startReceiver } from '../support/receiver.js';
import { millisecondsOfTone } from '../support/tone-probe.js';
import { soon } from '../support/webhook-app.js';

let app: TestApp;
let carrier: SimulatedCarrier;
const heard: CalleeHeard[] = [];
const closing: Receiver[] = [];
let nextNumber = 12025550500;

beforeAll(async () => {
  app = await startTestApp({}, { t1: 100, t2: 400, t4: 500 });
  carrier = await openSimulatedCarrier({ ringMs: 200, timersMs: { t1: 100 }, onHeard: (what) => heard.push(what) });
  await addTrunk(app, [carrier.uri]);
});
afterAll(async () => {
  for (const each of closing) await each.close();
  await carrier.close();
  await app.end();
});

async function numberThatAnswers(start: string) {
  const server = await startReceiver((request, response) => {
    response.writeHead(200, { 'content-type': 'text/xml' });
    response.end(request.path === '/start' ? start : '<Response><Hangup/></Response>');
  });
  closing.push(server);
  const number = `+${nextNumber++}`;
  const { id } = await app.api<{ id: string }>('POST', '/v1/endpoints', {
    name: number,
    type: 'webhook',
    target: `${server.url}/start`,
    provider_config: { format: 'twiml' },
  });
  await app.api('POST', '/v1/phone-numbers', { number, endpoint_id: id });
  return { number, server };
}

const forms = (server: Receiver, path: string): Record<string, string>[] =>
  server.requests
    .filter((request) => request.path === path)
    .map((request) => Object.fromEntries(new URLSearchParams(request.body)));
const dialResult = (server: Receiver) => Object.fromEntries(new URLSearchParams(server.requests.at(-1)?.body));

/** The duration in the record of a dialled call that was to last so long; it is the time that passed, also on a machine that was late. */
async function lasted(sid: string | undefined, leastSec: number): Promise<number> {
  const {
    duration,
    answered_at: from,
    completed_at: to,
  } = await app.api<CallRecord>('GET', `/v1/calls/${callIdOf(sid ?? '')}`);
  expect(Math.abs(duration - (Date.parse(to ?? '') - Date.parse(from ?? '')) / 1000)).toBeLessThan(1);
  expect(duration).toBeGreaterThanOrEqual(leastSec);
  return duration;
}

describe('Dial', () => {
  // Calls mostly wait, and each has a number of its own.
  test.concurrent('joins caller and callee until the callee hangs up, and reports the result', async () => {
    const { number, server } = await numberThatAnswers(
      '<Response><Dial action="/after">+15005550204</Dial></Response>',
    );
    const caller = await phoneCalls(app, number, { durationMs: 20_000 });
    expect(caller.report()).toMatchObject({ answered: true, endedBy: 'far side' });
    expect(dialResult(server)).toMatchObject({
      DialCallStatus: 'completed',
      DialCallDuration: String(await lasted(dialResult(server)?.DialCallSid, 4)),
      DialBridged: 'true',
    });
    expect(await app.finishedCall(number)).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing' });
    // Each hears the tone of the other: the caller's and the callee's are both 440 Hz.
    const callees = () => heard.filter(({ to }) => to === '+15005550204');
    await soon(() => expect(callees()).not.toHaveLength(0));
    expect(millisecondsOfTone(callees().at(-1)!.samples, 440)).toBeGreaterThan(500);
    expect(millisecondsOfTone(caller.samples(), 440)).toBeGreaterThan(500);
  });

  test.concurrent.each([
    ['+15005550486', 'busy'],
    ['+15005550404', 'failed'],
    ['+15005550480', 'no-answer'],
  ])('of %s ends as %s, without the caller being answered when the document says so', async (to, status) => {
    const { number, server } = await numberThatAnswers(
      `<Response><Dial action="/after" answerOnBridge="true">${to}</Dial></Response>`,
    );
    const caller = await phoneCalls(app, number, { durationMs: 10_000 });
    expect(caller.report()).toMatchObject({ answered: false });
    expect(dialResult(server)).toMatchObject({ DialCallStatus: status });
  });

  test.concurrent('of several numbers takes the first that answers, and hangs up on the others', async () => {
    const { number, server } = await numberThatAnswers(
      '<Response><Dial action="/after"><Number>+15005550100</Number><Number>+15005550201</Number></Dial></Response>',
    );
    await phoneCalls(app, number, { durationMs: 20_000 });
    expect(dialResult(server)).toMatchObject({ DialCallStatus: 'completed' });
  });

  test.concurrent('ends for the callee when the caller hangs up', async () => {
    const { number, server } = await numberThatAnswers(
      '<Response><Dial action="/after">+12025550901</Dial></Response>',
    );
    const callees = () => heard.filter(({ to }) => to === '+12025550901').length;
    const before = callees();
    await phoneCalls(app, number, { durationMs: 1500 });
    expect(await app.finishedCall(number)).toMatchObject({ status: 'completed', hangup_source: 'caller' });
    await soon(() => expect(callees()).toBe(before + 1));
    await soon(() => expect(dialResult(server)).toMatchObject({ DialCallStatus: 'completed' }));
  });

  test.concurrent('of a SIP address calls it as it is, with its headers, and tells every step', async () => {
    const host = carrier.uri.replace('sip:', '');
    const events = 'initiated ringing answered completed';
    const { number, server } = await numberThatAnswers(
      `<Response><Dial action="/after" callerId="front.desk"><Sip statusCallback="/steps" statusCallbackEvent="${events}">sip:+15005550202@${host}?X-Room=7</Sip></Dial></Response>`,
    );
    await phoneCalls(app, number, { durationMs: 20_000 });
    await soon(() => expect(forms(server, '/steps')).toHaveLength(4));
    const steps = forms(server, '/steps');
    expect(steps.map((step) => step.CallStatus)).toEqual(['initiated', 'ringing', 'in-progress', 'completed']);
    expect(steps.map((step) => step.SequenceNumber)).toEqual(['0', '1', '2', '3']);
    const result = forms(server, '/after')[0];
    expect(result).toMatchObject({ DialCallStatus: 'completed', DialCallSid: steps[0]?.CallSid });
    expect(steps[3]).toMatchObject({
      ParentCallSid: result?.CallSid,
      Direction: 'outbound-dial',
      From: 'front.desk',
      To: `sip:+15005550202@${host}?X-Room=7`,
      CallDuration: String(await lasted(result?.DialCallSid, 2)),
    });
    expect(result?.CallSid).not.toBe(result?.DialCallSid);
  });

  test.concurrent('is a call of its own: with a record, a price, and a recording of both sides', async () => {
    await app.api('PUT', `/v1/organizations/${app.first?.organizationId}/rates`, {
      rates: [
        { direction: 'outbound', prefix: '1500', rate_cents_per_minute: 60, initial_increment_s: 1, increment_s: 1 },
      ],
    });
    const { number, server } = await numberThatAnswers(
      '<Response><Dial action="/after" record="record-from-answer-dual" recordingStatusCallback="/recorded">+15005550203</Dial></Response>',
    );
    await phoneCalls(app, number, { durationMs: 20_000 });
    const result = forms(server, '/after')[0];
    const parent = await app.finishedCall(number);
    const { data } = await app.api<{ data: { id: string; from_number: string; to_number: string; cost: number }[] }>(
      'GET',
      '/v1/calls?direction=outbound&limit=100',
    );
    const { id } = data.find((call) => call.to_number === '+15005550203') ?? {};
    const child = await app.api<CallRecord & { metadata: unknown; cost: number }>('GET', `/v1/calls/${id}`);
    expect(`CA${child.id.replaceAll('-', '')}`).toBe(result?.DialCallSid);
    expect(child).toMatchObject({
      status: 'completed',
      hangup_cause: 'normal_clearing',
      cost: child.duration,
      metadata: { parent_call_id: parent.id },
    });
    expect(await lasted(result?.DialCallSid, 3)).toBe(child.duration);
    expect(parent.cost).toBe(0);
    expect(child.quality_metrics.mos).toBeGreaterThan(3);
    await soon(() => expect(forms(server, '/recorded')).toHaveLength(1));
    expect(forms(server, '/recorded')[0]).toMatchObject({
      RecordingStatus: 'completed',
      RecordingSource: 'DialVerb',
      RecordingChannels: '2',
      RecordingUrl: result?.RecordingUrl,
    });
    const wav = readWav(new Uint8Array(await (await fetch(result?.RecordingUrl as string)).arrayBuffer()));
    expect(wav.channels).toHaveLength(2);
    for (const side of wav.channels) expect(millisecondsOfTone(side, 440)).toBeGreaterThan(500);
  });

  test.concurrent('ends with a star, or at its limit of time, and the document goes on', async () => {
    const star = await numberThatAnswers(
      '<Response><Dial action="/after" hangupOnStar="true">+12025550999</Dial></Response>',
    );
    const limited = await numberThatAnswers(
      '<Response><Dial action="/after" timeLimit="1">+12025550999</Dial></Response>',
    );
    await Promise.all([
      phoneCalls(app, star.number, { durationMs: 15_000, digits: '*', digitsAfterMs: 1500 }),
      phoneCalls(app, limited.number, { durationMs: 15_000 }),
    ]);
    expect(dialResult(star.server)).toMatchObject({ DialCallStatus: 'completed' });
    expect(dialResult(limited.server)).toMatchObject({
      DialCallStatus: 'completed',
      DialCallDuration: String(await lasted(dialResult(limited.server)?.DialCallSid, 1)),
    });
  });

  const warningsOf = async (number: string) =>
    (await app.finishedCall(number)).events
      .filter((event) => event.event_type === 'webhook.warning')
      .map((event) => String(event.event_data.message));

  test.concurrent('with the caller id of another organization is not made; the application gets the result, and the call continues', async () => {
    const { number, server } = await numberThatAnswers(
      '<Response><Dial callerId="+19995550000" action="/after">+12025550999</Dial></Response>',
    );
    const caller = await phoneCalls(app, number);
    expect(caller.report()).toMatchObject({ answered: true, endedBy: 'far side' });
    expect(dialResult(server)).toMatchObject({ DialCallStatus: 'failed', DialBridged: 'false' });
    expect(dialResult(server).DialCallSid).toBeUndefined();
    expect(await app.finishedCall(number)).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing' });
    const [warning] = await warningsOf(number);
    expect(warning).toContain('+12025550999 is not dialled: +19995550000 may not be shown as caller id');
    expect(warning).toContain("the organization's own numbers");
  });

  test.concurrent.each<[string, string]>([
    ['415-767-1351', '+14157671351'],
    ['<Number>(415) 767-1352</Number>', '+14157671352'],
    ['0044 20 7183 8750', '+442071838750'],
  ])('calls %s, a number as people write it', async (written, to) => {
    const { number } = await numberThatAnswers(
      `<Response><Dial timeLimit="1" callerId="+15005550001">${written}</Dial></Response>`,
    );
    await phoneCalls(app, number, { durationMs: 15_000 });
    const { data } = await app.api<{ data: { to_number: string; from_number: string }[] }>(
      'GET',
      '/v1/calls?direction=outbound&limit=100',
    );
    const dialled = data.filter((call) => call.to_number === to);
    // The number of the caller himself may be shown.
    expect(dialled[0]).toMatchObject({ from_number: '+15005550001' });
    expect(await warningsOf(number)).toEqual([]);
  });

  test.concurrent('of what is no number, or has no caller id that SIP can carry, fails with a sentence; others of the same verb are called', async () => {
    const { number, server } = await numberThatAnswers(
      '<Response><Dial action="/after" timeLimit="1"><Number>call mum</Number><Number>911</Number><Number>+12025550999</Number></Dial></Response>',
    );
    await phoneCalls(app, number, { durationMs: 15_000 });
    expect(dialResult(server)).toMatchObject({ DialCallStatus: 'completed' });
    const warnings = await warningsOf(number);
    expect(warnings).toHaveLength(2);
    expect(warnings[0]).toContain('call mum is not dialled: it is no telephone number; E.164 such as +14155550100');
    const sip = await numberThatAnswers(
      '<Response><Dial action="/after" callerId="a&gt;;b"><Sip>sip:x@127.0.0.1:1</Sip></Dial></Response>',
    );
    await phoneCalls(app, sip.number);
    expect(dialResult(sip.server)).toMatchObject({ DialCallStatus: 'failed' });
    expect((await warningsOf(sip.number))[0]).toContain('its caller id must be a telephone number');
  });

  test('of a SIP address in a private network is refused where those are off limits', async () => {
    const closed = await startTestApp({ TRUNKLINE_ALLOW_PRIVATE_TARGETS: 'false' }, { t1: 100, t2: 400, t4: 500 });
    try {
      const rules = { organizationId: closed.first?.organizationId ?? '', mode: 'live' as const };
      const leg = closed.sip.dial(
        {
          ...{ to: carrier.uri, from: '+12025550100', gateways: [{ uri: `sip:1@${carrier.uri.slice(4)}` }] },
          ...{ ringTimeoutMs: 1000, publicOnly: true, offerFor: async () => '' },
        },
        new AbortController().signal,
      );
      await expect(leg).rejects.toMatchObject({ hangupCause: 'destination_not_allowed' });
      expect((await closed.store.records.list(rules, {}, { limit: 10, offset: 0 })).total).toBe(0);
    } finally {
      await closed.end();
    }
  });

  test('joins the two as a bridge does: holds are passed on, keys arrive in the form that each side takes', async () => {
    const callee = await HandPhone.open(app.sip.addresses[0]?.port ?? 0);
    const caller = await HandPhone.open(app.sip.addresses[0]?.port ?? 0);
    const { number } = await numberThatAnswers(
      `<Response><Dial><Sip>sip:room@127.0.0.1:${callee.sip.port}</Sip></Dial></Response>`,
    );
    const invited = caller.invite(number);
    caller.confirm(invited, await caller.sip.next(200));
    const invite = await callee.sip.next('INVITE');
    callee.answer(invite, { telephoneEvent: false });
    await callee.sip.next('ACK');
    await callee.rtp.talk(5, () => new Uint8Array(160).fill(30));
    await caller.rtp.until(() => caller.rtp.heard.some(({ payload }) => payload[0] === 30), 'the callee');
    const held = caller.takeReoffer({ direction: 'recvonly' });
    expect((await callee.reoffer({ direction: 'sendonly', telephoneEvent: false })).status).toBe(200);
    expect((await held).body).toContain('a=sendonly');
    const back = caller.takeReoffer({});
    expect((await callee.reoffer({ telephoneEvent: false })).status).toBe(200);
    expect((await back).body).toContain('a=sendrecv');
    // The caller's key comes as INFO, and the callee agreed to no events: INFO again.
    caller.ask('INFO', [], 'Signal=7\r\nDuration=160\r\n', 'application/dtmf-relay');
    await caller.sip.next(200);
    const info = await callee.sip.next('INFO');
    expect(info.body).toContain('Signal=7');
    callee.sip.respond(info, 200);
    // The callee's comes as INFO, and the caller agreed to events.
    callee.ask('INFO', [], 'Signal=9\r\nDuration=160\r\n', 'application/dtmf-relay');
    await callee.sip.next(200);
    await caller.rtp.until(
      () => caller.rtp.heard.some(({ payloadType, payload }) => payloadType === 101 && payload[0] === 9),
      'the key as an event',
    );
    await caller.hangUp();
    callee.sip.respond(await callee.sip.next('BYE'), 200);
    await app.finishedCall(number);
    await Promise.all([caller.close(), callee.close()]);
  });

  test('counts for the trunk: one that carries no more calls in a second says so', async () => {
    const only = await addTrunk(app, [carrier.uri], { name: 'slow', calls_per_second: 1 });
    const trunks = await app.api<{ data: { id: string; direction: string }[] }>('GET', '/v1/trunks');
    const others = trunks.data.filter(({ id, direction }) => id !== only && direction === 'outbound');
    for (const { id } of others) await app.api('PATCH', `/v1/trunks/${id}`, { status: 'inactive' });
    try {
      const { number } = await numberThatAnswers(
        '<Response><Dial><Number>+15005550486</Number><Number>+15005550487</Number></Dial></Response>',
      );
      await phoneCalls(app, number, { durationMs: 3000 });
      await app.finishedCall(number);
      const calls = await app.api<{ data: { id: string }[] }>('GET', '/v1/calls?direction=outbound&limit=2');
      const details = await Promise.all(calls.data.map(({ id }) => app.api<CallRecord>('GET', `/v1/calls/${id}`)));
      const full = details.flatMap(({ events }) => events.filter((event) => event.event_data.reason === 'full'));
      expect(full).toHaveLength(1);
    } finally {
      for (const { id } of others) await app.api('PATCH', `/v1/trunks/${id}`, { status: 'active' });
      await app.api('DELETE', `/v1/trunks/${only}`);
    }
  });
});
