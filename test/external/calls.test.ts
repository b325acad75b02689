/** Whole calls over each pair of engines: the embedded ones, drachtio-server and FreeSWITCH, as far as they run. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { startTestApp, type TestApp } from '../support/app.js';
import { combinations, sayWhatIsSkipped } from '../support/external-servers.js';
import { HandPhone, numberOfAgent } from '../support/joined-call.js';
import { eventually } from '../support/media-engine.js';
import { addTrunk, placeOutbound } from '../support/outbound.js';
import { RawAgent } from '../support/raw-agent.js';

sayWhatIsSkipped();

const tone = Uint8Array.from({ length: 160 }, (_, i) => [0xff, 0x92, 0x86, 0x92, 0xff, 0x12, 0x06, 0x12][i % 8]!);
let nextNumber = 12025558000;

/** The INVITE to a phone; from then on the phone answers the server that sent it. */
async function invited(callee: HandPhone) {
  const invite = await callee.sip.next('INVITE');
  callee.sip.serverPort = Number(/127\.0\.0\.1:(\d+)/.exec(invite.header('via'))?.[1]);
  return invite;
}

describe.each(combinations())('calls over $name', ({ settings }) => {
  let app: TestApp;
  let agent: RawAgent;
  const phones: HandPhone[] = [];

  beforeAll(async () => {
    app = await startTestApp(settings);
    agent = await RawAgent.open();
  });

  afterEach(async () => {
    for (const each of phones.splice(0)) await each.close();
    await eventually(() => app.live.count === 0, 'calls to end', 10_000);
    await eventually(() => app.media.load().sessions === 0, 'media sessions to end', 10_000);
    await eventually(() => (app.media.load().servers ?? []).every(({ channels }) => channels === 0), 'channels to end');
  });

  afterAll(async () => {
    await app.stop(0);
    await agent.close();
  });

  async function phone(): Promise<HandPhone> {
    const made = await HandPhone.open(app.sip.addresses.find(({ transport }) => transport === 'udp')?.port ?? 0);
    phones.push(made);
    return made;
  }

  async function number(config: Record<string, unknown> = { protocol: 'raw', encoding: 'ulaw' }) {
    const dialled = `+${nextNumber++}`;
    return { dialled, ...(await app.connectNumber(dialled, agent.url, config)) };
  }

  async function called(config?: Record<string, unknown>): Promise<{ caller: HandPhone; dialled: string }> {
    const { dialled } = await number(config);
    const caller = await phone();
    caller.confirm(caller.invite(dialled), await caller.sip.next(200));
    return { caller, dialled };
  }

  it('an inbound call: audio both ways, keys, BYE of the caller, and the record', async () => {
    agent.heard.length = 0;
    const { caller, dialled } = await called();
    agent.onAudio = (bytes) => agent.say(bytes);
    const back = () => caller.rtp.heard.filter(({ payload }) => payload.includes(0x92) && payload.includes(0x12));
    for (let round = 0; round < 5 && back().length <= 50; round++) await caller.rtp.talk(100, () => tone);
    expect(back().length).toBeGreaterThan(50);
    agent.onAudio = () => {};
    await caller.hangUp();
    const record = await app.finishedCall(dialled);
    expect(record).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing', hangup_source: 'caller' });
    expect(record.quality_metrics).toMatchObject({ codec: 'PCMU' });
    expect((record.quality_metrics.received as { packets: number }).packets).toBeGreaterThan(90);
  });

  it('an outbound call, hung up by the callee', async () => {
    const callee = await phone();
    await addTrunk(app, [`sip:127.0.0.1:${callee.sip.port}`]);
    const { endpointId, numberId } = await number();
    const to = `+${nextNumber++}`;
    placeOutbound(app, { to, numberId, endpointId });
    const invite = await invited(callee);
    callee.sip.respond(invite, 180, callee.contactLine);
    callee.answer(invite);
    await callee.sip.next('ACK');
    agent.onAudio = (bytes) => agent.say(bytes);
    await callee.rtp.talk(60, () => tone);
    agent.onAudio = () => {};
    expect(callee.rtp.heard.some(({ payload }) => payload.includes(0x92))).toBe(true);
    callee.ask('BYE');
    await callee.sip.next(200);
    expect(await app.finishedCall(to)).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing' });
  });

  it('a caller that cancels while the agent rings', async () => {
    const [caller, callee] = [await phone(), await phone()];
    const dialled = await numberOfAgent(app, callee);
    const invite = caller.invite(dialled);
    const ringing = await invited(callee);
    callee.sip.respond(ringing, 180, callee.contactLine);
    await caller.sip.next(180);
    caller.sip.request('CANCEL', invite);
    await caller.sip.next(487);
    await callee.sip.next('CANCEL');
    callee.sip.respond(ringing, 487);
    expect(await app.finishedCall(dialled)).toMatchObject({ hangup_cause: 'originator_cancel', answered_at: null });
  });

  it('hold and resume by the caller', async () => {
    const { caller, dialled } = await called();
    await caller.rtp.talk(10, () => tone);
    expect((await caller.reoffer({ direction: 'sendonly' })).body).toMatch(/^a=recvonly\r$/m);
    expect((await caller.reoffer({})).body).toMatch(/^a=sendrecv\r$/m);
    await caller.rtp.talk(10, () => tone);
    await caller.hangUp();
    const { events } = await app.finishedCall(dialled);
    const kinds = events.map(({ event_type }) => event_type);
    expect(kinds).toContain('call.held');
    expect(kinds).toContain('call.resumed');
  });

  it('an agent behind SIP: two phones joined', async () => {
    const [caller, callee] = [await phone(), await phone()];
    const dialled = await numberOfAgent(app, callee);
    const invite = caller.invite(dialled);
    callee.answer(await invited(callee));
    caller.confirm(invite, await caller.sip.next(200));
    await callee.sip.next('ACK');
    await callee.rtp.talk(2, () => tone);
    await caller.rtp.talk(60, () => tone);
    await callee.rtp.until(() => callee.rtp.heard.some(({ payload }) => payload.includes(0x92)), 'the tone');
    await caller.hangUp();
    callee.sip.respond(await callee.sip.next('BYE'), 200);
    expect(await app.finishedCall(dialled)).toMatchObject({ status: 'completed' });
  });

  it('an offer that the media cannot meet is refused with 488', async () => {
    const { dialled } = await number();
    const odd = await phone();
    const sdp = odd.rtp.sdp().replace('RTP/AVP 0 101', 'RTP/AVP 77').replace('rtpmap:0 PCMU', 'rtpmap:77 none');
    odd.sip.invite({ user: dialled, sdp });
    expect((await odd.sip.next([488, 503])).status).toBe(488);
  });
});
