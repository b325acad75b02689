import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DtmfListener, writeKeyTone } from '../../media/audio/detect/dtmf-tones.js';
import type { MediaEngine, MediaSession } from '../../media/engine.js';
import { collectEvents, eventually, sessionOptions, startTestEngine } from '../support/media-engine.js';
import { RtpPhone } from '../support/rtp-phone.js';

const frame = (value: number) => new Uint8Array(160).fill(value);
const toClose: (() => unknown)[] = [];
let engine: MediaEngine;

beforeEach(async () => {
  engine = await startTestEngine();
  toClose.push(() => engine.close());
});

afterEach(async () => {
  for (const close of toClose.splice(0).reverse()) await close();
});

async function call(
  group: string,
  codecs = '0',
  telephoneEvent = true,
): Promise<{ phone: RtpPhone; session: MediaSession }> {
  const phone = await RtpPhone.open();
  toClose.push(() => phone.close());
  const session = await engine.open(sessionOptions({ group, offer: phone.sdp({ codecs, telephoneEvent }) }));
  phone.dial(session.localSdp);
  session.attach(null);
  return { phone, session };
}

describe('bridge', () => {
  it.each(['0', '8'])('changes no byte of the audio where both phones speak the same (%s)', async (codec) => {
    const a = await call('g', codec);
    const b = await call('g', codec);
    a.session.bridge(b.session, { relay: 'packets', dtmf: 'pass' });
    const sent = Array.from({ length: 256 / 4 }, (_, i) => new Uint8Array(160).map((_, n) => (i * 4 + n) & 0xff));
    await a.phone.talk(sent.length, (i) => sent[i]!, Number(codec));
    await b.phone.until(() => b.phone.heard.length >= sent.length, 'all packets');
    const heard = b.phone.heard.slice(-sent.length);
    expect(heard.map((packet) => Buffer.from(packet.payload).toString('hex'))).toEqual(
      sent.map((payload) => Buffer.from(payload).toString('hex')),
    );
    const steps = heard
      .slice(1)
      .map((packet, i) => [
        (packet.sequence - heard[i]!.sequence) & 0xffff,
        (packet.timestamp - heard[i]!.timestamp) >>> 0,
      ]);
    expect(steps).toEqual(steps.map(() => [1, 160]));
  });

  it('turns the tones of a phone without events into events, and lets none of the tone pass besides', async () => {
    const a = await call('g', '0', false);
    const b = await call('g');
    const events = collectEvents(a.session);
    a.session.bridge(b.session, { relay: 'packets', dtmf: 'pass' });
    const tone = new Uint8Array(8 * 100);
    writeKeyTone('7', 'PCMU', 0, tone, 0, tone.length);
    await a.phone.talk(25, (i) => (i >= 5 && i < 10 ? tone.subarray((i - 5) * 160, (i - 4) * 160) : frame(0xff)));
    await eventually(() => events.some((event) => event.type === 'dtmf'), 'the key');
    expect(events.find((event) => event.type === 'dtmf')).toMatchObject({ digit: '7', form: 'tone', passedOn: true });
    await b.phone.until(() => b.phone.heard.some((packet) => packet.payloadType === 101), 'the event');
    expect(b.phone.heard.find((packet) => packet.payloadType === 101)?.payload[0]).toBe(7);
    const leaked = b.phone.heard.filter(
      ({ payloadType, payload }) => payloadType === 0 && payload.some((byte) => (byte & 0x7f) < 0x70),
    );
    expect(leaked.length).toBeLessThanOrEqual(2); // until it is sure that it is a key
  });

  it('leaves the events of a phone to the listener when the other phone takes none', async () => {
    const a = await call('g');
    const b = await call('g', '0', false);
    const events = collectEvents(a.session);
    a.session.bridge(b.session, { relay: 'packets', dtmf: 'pass' });
    for (let i = 0; i < 3; i++)
      a.phone.send(Uint8Array.of(5, 0x8a, 3, 0x20), { payloadType: 101, marker: i === 0, samples: 0 });
    await eventually(() => events.some((event) => event.type === 'dtmf'), 'the key');
    expect(events.find((event) => event.type === 'dtmf')).toMatchObject({ digit: '5', form: 'event', passedOn: false });
    await b.session.sendDtmf('5', 'tone');
    const listener = new DtmfListener();
    const heard = b.phone.heard.flatMap((packet) => listener.hear(packet.payload, 'PCMU') ?? []);
    expect([...heard, listener.quiet()].find((key) => key)?.digit).toBe('5');
    expect(b.phone.heard.filter((packet) => packet.payloadType !== 0)).toEqual([]);
  });

  it('tells the turns of the two, and passes the music of a phone on hold', async () => {
    const a = await call('g');
    const b = await call('g');
    const events = collectEvents(a.session);
    a.session.bridge(b.session, { relay: 'packets', dtmf: 'pass', turns: true });
    const loud = Uint8Array.from({ length: 160 }, (_, i) => (i % 16 < 8 ? 0x10 : 0x90));
    await b.phone.talk(30, () => loud);
    await b.phone.talk(20, () => frame(0xff));
    await a.phone.talk(30, () => loud);
    await a.phone.talk(20, () => frame(0xff));
    await eventually(() => events.some((event) => event.type === 'turn'), 'a turn');
    expect(events.find((event) => event.type === 'turn')).toMatchObject({ speaker: 'agent', responseMs: null });
    await a.session.answer(a.phone.sdp({ direction: 'sendonly' }));
    await eventually(() => events.some((event) => event.type === 'held'), 'the hold');
    expect(events.find((event) => event.type === 'held')).toEqual({ type: 'held', sends: true });
    const before = b.phone.heard.length;
    await a.phone.talk(10, () => frame(0x2a));
    await b.phone.until(() => b.phone.heard.slice(before).some((packet) => packet.payload[0] === 0x2a), 'the music');
  });
});
