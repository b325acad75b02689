import type { AddressInfo } from 'node:net';
import twilio from 'twilio';
import { describe, expect, test } from 'vitest';
import { WebSocketServer } from 'ws';
import { type CalleeHeard, openSimulatedCarrier, type SimulatedCarrier } from '../../src/simulator/carrier.js';
import { addTrunk } from '../support/outbound.js';
import { toneFrame, tonesHz } from '../support/tone-caller.js';
import { probeTone } from '../support/tone-probe.js';
import { soon } from '../support/webhook-app.js';
import { webhookScene } from '../support/webhook-scene.js';

/** A bot hands its caller to a person: what an application for Twilio does, with Twilio's own client. */
let carrier: SimulatedCarrier;
let bots: WebSocketServer;
let client: ReturnType<typeof twilio>;
const heard: CalleeHeard[] = [];
/** What the person on the trunk says. */
const personHz = 440;

const scene = webhookScene({ TRUNKLINE_MEDIA_THREADS: '2' }, async (app) => {
  carrier = await openSimulatedCarrier({ ringMs: 100, timersMs: { t1: 100 }, onHeard: (what) => heard.push(what) });
  await addTrunk(app, [carrier.uri]);
  client = twilio(`AC${app.first?.organizationId.replaceAll('-', '')}`, app.key);
  client.api.baseUrl = app.httpUrl;
  bots = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  const payload = Buffer.concat(Array.from({ length: 500 }, () => toneFrame(tonesHz[1]))).toString('base64');
  bots.on('connection', (socket) => {
    socket.on('message', (data) => {
      const { event, streamSid } = JSON.parse(String(data)) as { event: string; streamSid: string };
      if (event === 'start') socket.send(JSON.stringify({ event: 'media', streamSid, media: { payload } }));
    });
  });
  await new Promise((resolve) => bots.once('listening', resolve));
  return () => {
    bots.close();
    return carrier.close();
  };
});

const { application, caller } = scene;

describe('a warm transfer', () => {
  test('takes the caller from the bot into a conference, calls a person into it, and ends with the person', async () => {
    heard.length = 0;
    const bot = `ws://127.0.0.1:${(bots.address() as AddressInfo).port}/bot`;
    const { number, form } = await application({
      '/start': `<Response><Connect><Stream url="${bot}"/></Connect></Response>`,
      '/steps': 204,
    });
    const a = await caller(number, tonesHz[0]);
    await a.untilHears([0, 1, 0], 'the bot');
    const join = (attributes: string) =>
      `<Response><Dial><Conference beep="false" ${attributes}>Transfer</Conference></Dial></Response>`;
    const sid = form('/start').CallSid as string;
    await client.calls(sid).update({ twiml: join('startConferenceOnEnter="true"') });
    await a.untilHears([0, 0, 0], 'no bot any more');
    const [waiting] = await client.conferences.list({ friendlyName: 'Transfer' });
    expect(waiting).toMatchObject({ friendlyName: 'Transfer', status: 'init' });
    await client.calls.create({ to: '+12025550777', from: number, twiml: join('endConferenceOnExit="true"') });
    await a.untilHearsTone(personHz, 'the person', 0.5);
    const conference = await client.conferences(waiting?.sid ?? '').fetch();
    expect(conference.status).toBe('in-progress');
    const [person, first] = await client.conferences(conference.sid).participants.list();
    expect([person?.callSid, first?.callSid]).toContain(sid);
    const ofPerson = [person, first].find((each) => each?.callSid !== sid)?.callSid ?? '';
    await client.calls(ofPerson).update({ status: 'completed' });
    await a.untilLet();
    await soon(() => expect(heard).toHaveLength(1));
    const samples = heard[0]?.samples ?? new Int16Array();
    const parts = Array.from({ length: Math.floor(samples.length / 160) }, (_, i) =>
      samples.subarray(i * 160, i * 160 + 160),
    );
    expect(parts.some((part) => probeTone(part, tonesHz[0]).purityDb > 20)).toBe(true);
    expect(parts.some((part) => probeTone(part, tonesHz[1]).amplitude > 500)).toBe(false); // no bot
    expect(await scene.app.finishedCall(number)).toMatchObject({ status: 'completed' });
    expect(await client.conferences.list()).toEqual([]);
  });
});

describe("Twilio's client", () => {
  test('mutes, holds, calls in and removes participants, and ends a conference', async () => {
    const { server, number, form, forms } = await application({
      '/start': `<Response><Dial action="/after"><Conference beep="false" waitUrl="" participantLabel="me" statusCallback="/steps" statusCallbackEvent="join leave mute hold modify end">Desk</Conference></Dial></Response>`,
      '/after': '<Response><Hangup/></Response>',
      '/hold': '<Response><Pause length="30"/></Response>',
    });
    const a = await caller(number, tonesHz[0]);
    const sid = form('/start').CallSid as string;
    await soon(async () => expect(await client.conferences.list({ friendlyName: 'Desk' })).toHaveLength(1));
    const called = await client.conferences('Desk').participants.create({
      ...{ from: number, to: '+12025550778', label: 'person', beep: 'false', earlyMedia: false },
    });
    expect(called).toMatchObject({ status: 'queued', label: 'person' });
    await a.untilHearsTone(personHz, 'the person', 0.5);
    const desk = client.conferences(called.conferenceSid);
    const person = desk.participants('person');
    expect(await person.update({ muted: true })).toMatchObject({ muted: true, callSid: called.callSid });
    await a.phone.rtp.until(() => a.level(personHz) < 0.05, 'silence of the person');
    expect((await desk.participants.list({ muted: true })).map((each) => each.label)).toEqual(['person']);
    await person.update({ muted: false });
    await a.untilHearsTone(personHz, 'the person again', 0.5);
    const held = await desk.participants(sid).update({ hold: true, holdUrl: `${server.url}/hold` });
    expect(held).toMatchObject({ hold: true, label: 'me' });
    await a.phone.rtp.until(() => a.level(personHz) < 0.05, 'silence on hold');
    await soon(() => expect(forms('/hold').length).toBeGreaterThan(0));
    await desk.participants(sid).update({ hold: false, endConferenceOnExit: true });
    await a.untilHearsTone(personHz, 'the person after the hold', 0.5);
    await person.remove();
    await soon(async () => expect((await client.calls(called.callSid).fetch()).status).toBe('completed'));
    await desk.update({ status: 'completed' });
    await a.untilLet();
    expect(form('/after')).toMatchObject({ DialCallStatus: 'answered' });
    await soon(() =>
      expect(forms('/steps').map((step) => step.StatusCallbackEvent?.replace(/^\w+-/, ''))).toEqual([
        'join',
        'join',
        'mute',
        'unmute',
        'hold',
        'modify',
        'unhold',
        'leave',
        'leave',
        'end',
      ]),
    );
    expect(form('/steps')).toMatchObject({ ReasonConferenceEnded: 'conference-ended-via-api' });
    const gone = { status: 404, code: 20404 };
    await expect(desk.fetch()).rejects.toMatchObject(gone);
    await expect(client.conferences('CFx').participants.list()).rejects.toMatchObject(gone);
  });
});
