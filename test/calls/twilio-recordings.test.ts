/** Recordings of a running call, by Twilio's own client. */
import twilio from 'twilio';
import { describe, expect, test } from 'vitest';
import { readWav } from '../../media/audio/wav.js';
import { probeTone } from '../support/tone-probe.js';
import { soon } from '../support/webhook-app.js';
import { webhookScene } from '../support/webhook-scene.js';

const scene = webhookScene({});

function client(): ReturnType<typeof twilio> {
  const made = twilio(`AC${scene.app.first?.organizationId.replaceAll('-', '')}`, scene.app.key);
  made.api.baseUrl = scene.app.httpUrl;
  return made;
}

/** A call that waits for the client. */
async function waitingCall() {
  const application = await scene.application({
    '/start': '<Response><Gather timeout="120"/></Response>',
  });
  const caller = await scene.caller(application.number, 500);
  return { application, caller, calls: client().calls(application.form('/start').CallSid ?? '') };
}

/** How loud the caller's tone is, at its loudest and at its quietest fifth of a second. */
async function toneIn(url: string): Promise<{ most: number; least: number; channels: number }> {
  const audio = await fetch(url);
  const { channels, sampleRateHz } = readWav(Buffer.from(await audio.arrayBuffer()));
  const part = sampleRateHz / 5;
  const samples = channels[0] ?? new Int16Array();
  const levels = Array.from(
    { length: Math.floor(samples.length / part) },
    (_, i) => probeTone(samples.subarray(i * part, (i + 1) * part), 500).amplitude,
  );
  return { most: Math.max(...levels), least: Math.min(...levels), channels: channels.length };
}

describe("Twilio's client", () => {
  test('records a running call, pauses it with silence, goes on and stops; the callback has the file', async () => {
    const { application, caller, calls } = await waitingCall();
    const begun = await calls.recordings.create({
      recordingStatusCallback: `${application.server.url}/made`,
      recordingStatusCallbackEvent: ['in-progress', 'completed'],
    });
    expect(begun).toMatchObject({ status: 'in-progress', source: 'StartCallRecordingAPI', duration: null });
    await soon(() => expect(application.form('/made')).toMatchObject({ RecordingStatus: 'in-progress' }));
    // Heard time, not time of this machine, fills the file.
    const heard = () => caller.phone.rtp.heard.length;
    const pass = async (packets: number) => {
      const from = heard();
      await soon(() => expect(heard() - from).toBeGreaterThan(packets), 20_000);
    };
    await pass(60);
    const paused = await calls.recordings('Twilio.CURRENT').update({ status: 'paused' });
    expect(paused).toMatchObject({ sid: begun.sid, status: 'paused' });
    expect(await calls.recordings(begun.sid).fetch()).toMatchObject({ status: 'paused' });
    await pass(60);
    await calls.recordings(begun.sid).update({ status: 'in-progress' });
    expect(await calls.recordings(begun.sid).fetch()).toMatchObject({ status: 'in-progress' });
    await pass(60);
    expect(await calls.recordings(begun.sid).update({ status: 'stopped' })).toMatchObject({ status: 'stopped' });
    await soon(() => expect(application.forms('/made')).toHaveLength(2), 20_000);
    const made = application.form('/made');
    expect(made).toMatchObject({
      RecordingSid: begun.sid,
      RecordingStatus: 'completed',
      RecordingSource: 'StartCallRecordingAPI',
    });
    const { most, least, channels } = await toneIn(made.RecordingUrl ?? '');
    expect(channels).toBe(2);
    expect(most).toBeGreaterThan(2000);
    expect(least).toBeLessThan(100);
    await soon(async () =>
      expect(await calls.recordings.list()).toMatchObject([{ sid: begun.sid, status: 'completed' }]),
    );
    expect(await calls.recordings(begun.sid).fetch()).toMatchObject({ sid: begun.sid, status: 'completed' });
    expect(await calls.recordings(begun.sid).remove()).toBe(true);
    await caller.leave();
  });

  test('of the caller alone it has one channel, and ends with the call', async () => {
    const { application, caller, calls } = await waitingCall();
    await calls.recordings.create({
      recordingTrack: 'inbound',
      recordingStatusCallback: `${application.server.url}/made`,
    });
    await caller.leave();
    await soon(
      () => expect(application.form('/made')).toMatchObject({ RecordingStatus: 'completed', RecordingChannels: '1' }),
      20_000,
    );
  });

  test('what cannot be done is refused with a sentence', async () => {
    const { caller, calls } = await waitingCall();
    await expect(calls.recordings.create({ recordingTrack: 'outbound' })).rejects.toThrow('must be both or inbound');
    await expect(calls.recordings.create({ recordingChannels: 'mono' })).rejects.toThrow(
      'must be dual for both tracks',
    );
    await expect(calls.recordings('Twilio.CURRENT').update({ status: 'paused' })).rejects.toMatchObject({
      status: 404,
    });
    const { sid } = await calls.recordings.create({});
    await expect(calls.recordings(sid).update({ status: 'paused', pauseBehavior: 'skip' })).rejects.toThrow(
      'must be silence',
    );
    await expect(calls.recordings(sid).update({ status: 'completed' as 'stopped' })).rejects.toThrow('must be');
    await caller.leave();
    await soon(async () => expect((await calls.fetch()).status).toBe('completed'));
    await expect(calls.recordings.create({})).rejects.toThrow('The call has ended');
  });
});
