import { describe, expect, test } from 'vitest';
import { readWav } from '../../media/audio/wav.js';
import type { CallRecord } from '../support/app.js';
import { amplitude, tonesHz } from '../support/tone-caller.js';
import { probeTone } from '../support/tone-probe.js';
import { soon, type WebhookApp } from '../support/webhook-app.js';
import { webhookScene } from '../support/webhook-scene.js';

const scene = webhookScene({ TRUNKLINE_MEDIA_THREADS: '2' });
const { application, caller } = scene;

const room = (name: string, attributes = '', dial = '') =>
  `<Response><Dial ${dial}><Conference ${attributes}>${name}</Conference></Dial></Response>`;

describe('Conference', () => {
  test('plays music until a second caller comes, and then lets three hear each other', async () => {
    const steps = 'start end join leave mute hold speaker';
    const { number, forms } = await application({
      '/start': room(
        'Daily',
        `statusCallback="/steps" statusCallbackEvent="${steps}" record="record-from-start" recordingStatusCallback="/recorded"`,
        'action="/after"',
      ),
      '/after': '<Response><Hangup/></Response>',
    });
    const events = () => forms('/steps').map((form) => form.StatusCallbackEvent);
    const a = await caller(number, tonesHz[0]);
    await a.untilHearsTone(440, 'our quiet tone', 0.1);
    const b = await caller(number, tonesHz[1]);
    await Promise.all([a.untilHears([0, 1, 0], 'b at a'), b.untilHears([1, 0, 0], 'a at b')]);
    const c = await caller(number, tonesHz[2]);
    await a.untilHearsTone(620, 'the beep of c');
    await Promise.all([
      a.untilHears([0, 1, 1], 'the others at a'),
      b.untilHears([1, 0, 1], 'the others at b'),
      c.untilHears([1, 1, 0], 'the others at c'),
    ]);
    b.press(5);
    await soon(() => expect(events().filter((event) => event === 'participant-speech-start')).toHaveLength(3));
    await c.leave();
    await a.untilHearsTone(830, 'the beep of c, who leaves');
    await a.untilHears([0, 1, 0], 'only b at a');
    await a.leave();
    await b.untilHears([0, 0, 0], 'nobody at b');
    expect(a.phone.rtp.heard.some((packet) => packet.payloadType === 101)).toBe(false);
    await b.leave();
    await soon(() => expect(events()).toContain('conference-end'));
    expect(events().filter((event) => !/speech/.test(event ?? ''))).toEqual([
      ...['participant-join', 'participant-join', 'conference-start', 'participant-join'],
      ...['participant-leave', 'participant-leave', 'participant-leave', 'conference-end'],
    ]);
    const [joined] = forms('/steps');
    expect(joined).toMatchObject({ FriendlyName: 'Daily', Muted: 'false', Hold: 'false', SequenceNumber: '1' });
    expect(joined?.ConferenceSid).toMatch(/^CF[0-9a-f]{32}$/);
    expect(forms('/steps').at(-1)).toMatchObject({
      ReasonConferenceEnded: 'last-participant-left',
      CallSidEndingConference: forms('/start')[1]?.CallSid,
    });
    await soon(() => expect(forms('/recorded')).toHaveLength(1));
    const [recorded] = forms('/recorded');
    expect(recorded).toMatchObject({ RecordingSource: 'Conference', RecordingChannels: '1', FriendlyName: 'Daily' });
    const wav = readWav(new Uint8Array(await (await fetch(recorded?.RecordingUrl as string)).arrayBuffer()));
    const [mono = new Int16Array()] = wav.channels;
    const all = () => {
      for (let at = 0; at + 1600 <= mono.length; at += 400)
        if (tonesHz.every((hz) => probeTone(mono.subarray(at, at + 1600), hz).amplitude / amplitude > 0.8)) return true;
      return false;
    };
    expect(all()).toBe(true);
    await soon(() => expect(forms('/after')).toHaveLength(3));
    expect(forms('/after')[0]).toMatchObject({ DialCallStatus: 'answered', CallStatus: 'completed' });
    const { data } = await scene.app.api<{ data: CallRecord[] }>('GET', '/v1/calls?limit=3');
    const told = data.flatMap(({ id }) => [id]);
    const call = await scene.app.api<CallRecord>('GET', `/v1/calls/${told[0]}`);
    expect(call.events.map((event) => event.event_type)).toEqual(
      expect.arrayContaining(['conference.joined', 'conference.left']),
    );
  });

  test('starts with a participant that may start it, and ends with one that ends it', async () => {
    const guest = await application({
      '/start': room(
        'Board',
        'startConferenceOnEnter="false" waitUrl="/music" waitMethod="GET" beep="false"',
        'action="/after"',
      ),
      '/music': '<Response><Play>/tone.wav</Play></Response>',
      '/after': '<Response><Hangup/></Response>',
    });
    const chair = await application({
      '/start': room('Board', 'endConferenceOnExit="true" beep="false"', 'hangupOnStar="true" action="/after"'),
      '/after': '<Response><Hangup/></Response>',
    });
    const [a, b] = [await caller(guest.number, tonesHz[0]), await caller(guest.number, tonesHz[1])];
    await soon(() =>
      expect(
        guest.forms('/music').length + guest.paths().filter((p) => p.startsWith('/music?')).length,
      ).toBeGreaterThan(1),
    );
    await a.untilHears([0, 0, 0], 'not b at a, before it starts');
    const c = await caller(chair.number, tonesHz[2]);
    await Promise.all([a.untilHears([0, 1, 1], 'all at a'), b.untilHears([1, 0, 1], 'all at b')]);
    c.press(10);
    await Promise.all([a.untilLet(), b.untilLet(), c.untilLet()]);
    for (const each of [guest, chair])
      await soon(() => expect(each.form('/after')).toMatchObject({ DialCallStatus: 'answered' }));
    expect(guest.form('/after').CallStatus).toBe('in-progress');
  });

  test('in JSON: muted, silent music, full, at its limit of time', async () => {
    const wish = { action: 'conference', name: 'J', wait_url: '', beep: 'none', max_participants: 2 };
    const talking = await application({ '/start': [{ ...wish, url: '/after', time_limit_s: 3 }], '/after': [] }, {});
    const muted = await application({ '/start': [{ ...wish, muted: true, label: 'ear' }] }, {});
    const third = await application({ '/start': [{ ...wish, url: '/after' }], '/after': [] }, {});
    const a = await caller(talking.number, tonesHz[0]);
    const b = await caller(muted.number, tonesHz[1]);
    await b.untilHears([1, 0, 0], 'a at b');
    await a.untilHears([0, 0, 0], 'not b, who is muted, at a');
    const c = await caller(third.number, tonesHz[2]);
    await c.untilLet();
    await a.untilLet();
    await b.leave();
    const dataOf = ({ server }: WebhookApp) =>
      server.requests.map((request) => JSON.parse(request.body) as { type: string; data: object }).at(-1);
    expect(dataOf(talking)).toMatchObject({
      type: 'call.conferenced',
      data: { status: 'completed', name: 'J', duration: 3 },
    });
    expect(dataOf(third)).toMatchObject({ type: 'call.conferenced', data: { status: 'failed' } });
    const call = await scene.app.finishedCall(third.number);
    expect(call.events.find((event) => event.event_type === 'webhook.warning')?.event_data.message).toMatch(/full/);
  });
});
