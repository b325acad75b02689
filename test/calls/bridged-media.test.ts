import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ulawToAlaw } from '../../media/audio/codec/g711.js';
import { DtmfListener, writeKeyTone } from '../../media/audio/detect/dtmf-tones.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { endJoined, HandPhone, joinTwo, numberOfAgent } from '../support/joined-call.js';
import { eventually } from '../support/media-engine.js';

let app: TestApp;

beforeAll(async () => {
  app = await startTestApp({}, { t1: 100, t2: 400, t4: 500 });
});
afterAll(() => app.end());

const pattern = (value: number) => new Uint8Array(160).map((_, i) => (value + i) & 0x7f);
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');
const heardBy = (phone: HandPhone) => phone.rtp.heard.map((packet) => hex(packet.payload));
const eventsOf = (record: { events: { event_type: string; event_data: Record<string, unknown> }[] }, type: string) =>
  record.events.filter((event) => event.event_type === type).map((event) => event.event_data);
const directionOf = (message: { body: string }) => /a=(sendrecv|sendonly|recvonly|inactive)/.exec(message.body)?.[1];

/** Presses one key as RTP events. */
function press(phone: HandPhone, code: number): void {
  for (let i = 0; i < 3; i++)
    phone.rtp.send(Uint8Array.of(code, 0x8a, 3, 0x20), { payloadType: 101, marker: i === 0, samples: 0 });
  phone.rtp.timestamp += 1600;
}

function tonesHeard(phone: HandPhone): string {
  const listener = new DtmfListener();
  const audio = phone.rtp.heard.filter((packet) => packet.payloadType === 0);
  const keys = [...audio.map((packet) => listener.hear(packet.payload, 'PCMU')), listener.quiet()];
  return keys.flatMap((key) => key?.digit ?? []).join('');
}

function eventsHeard(phone: HandPhone): string {
  const starts = phone.rtp.heard.filter((packet) => packet.payloadType === 101 && packet.marker);
  return starts.map((packet) => '0123456789*#ABCD'[packet.payload[0] ?? 0]).join('');
}

describe('two legs of a call', () => {
  it('carry audio byte for byte both ways, and both are measured, recorded and followed turn by turn', async () => {
    const joined = await joinTwo(app, { endpoint: { record: true } });
    const { caller, agent } = joined;
    // One after the other: at the same time the caller's pattern would be an echo of the agent's.
    await caller.rtp.talk(30, (i) => pattern(i));
    await agent.rtp.talk(30, (i) => pattern(100 + i));
    await agent.rtp.until(() => heardBy(agent).includes(hex(pattern(29))), 'the caller');
    await caller.rtp.until(() => heardBy(caller).includes(hex(pattern(129))), 'the agent');
    for (let i = 0; i < 30; i++) expect(heardBy(agent)).toContain(hex(pattern(i)));
    for (let i = 0; i < 30; i++) expect(heardBy(caller)).toContain(hex(pattern(100 + i)));
    const record = await endJoined(app, joined);
    expect(record.quality_metrics).toMatchObject({
      codec: 'PCMU',
      received: { packets: 30 },
      agent_leg: { codec: 'PCMU', received: { packets: 30 } },
    });
    expect(
      eventsOf(record, 'turn.completed')
        .map((turn) => turn.speaker)
        .sort(),
    ).toEqual(['agent', 'caller']);
    await eventually(async () => {
      const { events } = await app.api<typeof record>('GET', `/v1/calls/${record.id}`);
      return events.some((event) => event.event_type === 'recording.completed');
    }, 'the recording');
  });

  it('with codecs that differ: each law becomes the other, sample by sample', async () => {
    const joined = await joinTwo(app, { caller: { codecs: '0' }, agent: { codecs: '8' } });
    const { caller, agent } = joined;
    await caller.rtp.talk(10, (i) => pattern(i));
    const expected = hex(pattern(9).map((byte) => ulawToAlaw[byte] ?? 0));
    await agent.rtp.until(() => heardBy(agent).includes(expected), 'the caller in A-law');
    expect(agent.rtp.heard.every((packet) => packet.payloadType === 8)).toBe(true);
    expect((await endJoined(app, joined)).quality_metrics).toMatchObject({
      codec: 'PCMU',
      agent_leg: { codec: 'PCMA' },
    });
  });

  it('the first codec of the second leg is that of the first', async () => {
    const joined = await joinTwo(app, { caller: { codecs: '8' }, agent: { codecs: '8' } });
    expect(joined.invite.body).toContain('RTP/AVP 8 0 101');
    await endJoined(app, joined);
  });

  it('X- headers of the settings and of the call reach the agent, others do not', async () => {
    const config = { headers: { 'X-Plan': 'gold', 'Not-Ours': '1' } };
    const joined = await joinTwo(app, { config, lines: ['X-Campaign: 7', 'Subject: secret'] });
    const { invite } = joined;
    expect(invite.header('x-plan')).toBe('gold');
    expect(invite.header('x-campaign')).toBe('7');
    expect(invite.header('x-trunkline-to')).toBe(joined.number);
    expect(invite.header('not-ours')).toBe('');
    expect(invite.header('subject')).toBe('');
    await endJoined(app, joined);
  });
});

describe('before the answer', () => {
  it('the caller hears what the agent plays', async () => {
    const caller = await HandPhone.open(app.sip.addresses[0]?.port ?? 0);
    const agent = await HandPhone.open(app.sip.addresses[0]?.port ?? 0);
    const number = await numberOfAgent(app, agent);
    const invited = caller.invite(number);
    const invite = await agent.sip.next('INVITE');
    agent.rtp.dial(invite.body);
    agent.sip.respond(invite, 183, agent.contactLine, agent.rtp.sdp());
    const early = await caller.sip.next(183);
    caller.rtp.dial(early.body);
    await agent.rtp.talk(15, (i) => pattern(i));
    await caller.rtp.until(() => heardBy(caller).includes(hex(pattern(14))), 'early media');
    agent.answer(invite);
    const answer = await caller.sip.next(200);
    expect(answer.body).toBe(early.body);
    caller.confirm(invited, answer);
    await agent.sip.next('ACK');
    await agent.rtp.talk(10, (i) => pattern(50 + i));
    await caller.rtp.until(() => heardBy(caller).includes(hex(pattern(59))), 'the agent');
    const types = (await endJoined(app, { number, caller, agent })).events.map((event) => event.event_type);
    expect(types.indexOf('call.early_media')).toBeGreaterThan(0);
    expect(types.indexOf('call.early_media')).toBeLessThan(types.indexOf('call.answered'));
  });
});

describe('hold', () => {
  it('of the first offer is passed on, and taken back', async () => {
    const agent = await HandPhone.open(app.sip.addresses[0]?.port ?? 0);
    const caller = await HandPhone.open(app.sip.addresses[0]?.port ?? 0);
    const number = await numberOfAgent(app, agent);
    const invited = caller.invite(number, { direction: 'sendonly' });
    agent.answer(await agent.sip.next('INVITE'));
    const answer = await caller.sip.next(200);
    caller.confirm(invited, answer);
    expect(directionOf(answer)).toBe('recvonly');
    await agent.sip.next('ACK');
    expect(directionOf(await agent.takeReoffer({ direction: 'recvonly' }))).toBe('sendonly');
    const resumed = agent.takeReoffer({});
    await caller.reoffer({});
    expect(directionOf(await resumed)).toBe('sendrecv');
    const record = await endJoined(app, { number, caller, agent });
    expect(eventsOf(record, 'call.held')).toEqual([{ by: 'caller' }]);
    expect(eventsOf(record, 'call.resumed')).toEqual([{ by: 'caller' }]);
  });

  it("of the agent's first answer is passed on to the caller", async () => {
    const agent = await HandPhone.open(app.sip.addresses[0]?.port ?? 0);
    const caller = await HandPhone.open(app.sip.addresses[0]?.port ?? 0);
    const number = await numberOfAgent(app, agent);
    const invited = caller.invite(number);
    agent.answer(await agent.sip.next('INVITE'), { direction: 'sendonly' });
    const answer = await caller.sip.next(200);
    caller.confirm(invited, answer);
    expect(directionOf(await caller.takeReoffer({ direction: 'recvonly' }))).toBe('sendonly');
    await agent.sip.next('ACK');
    expect(eventsOf(await endJoined(app, { number, caller, agent }), 'call.held')).toEqual([{ by: 'agent' }]);
  });

  it('of the caller is passed on with its music, and taken back', async () => {
    const joined = await joinTwo(app);
    const { caller, agent } = joined;
    const held = agent.takeReoffer({ direction: 'recvonly' });
    expect(directionOf(await caller.reoffer({ direction: 'sendonly' }))).toBe('recvonly');
    expect(directionOf(await held)).toBe('sendonly');
    await caller.rtp.talk(10, (i) => pattern(i));
    await agent.rtp.until(() => heardBy(agent).includes(hex(pattern(9))), 'the music');
    const resumed = agent.takeReoffer({});
    await caller.reoffer({});
    expect(directionOf(await resumed)).toBe('sendrecv');
    await agent.rtp.talk(10, (i) => pattern(60 + i));
    await caller.rtp.until(() => heardBy(caller).includes(hex(pattern(69))), 'the agent again');
    const record = await endJoined(app, joined);
    expect(eventsOf(record, 'call.held')).toEqual([{ by: 'caller' }]);
    expect(eventsOf(record, 'call.resumed')).toEqual([{ by: 'caller' }]);
  });

  it('of the agent is passed on to the caller', async () => {
    const joined = await joinTwo(app);
    const { caller, agent } = joined;
    const held = caller.takeReoffer({ direction: 'inactive' });
    expect(directionOf(await agent.reoffer({ direction: 'inactive' }))).toBe('inactive');
    expect(directionOf(await held)).toBe('inactive');
    expect(eventsOf(await endJoined(app, joined), 'call.held')).toEqual([{ by: 'agent' }]);
  });

  it('that meets an offer of the other side (491) is asked again', async () => {
    const joined = await joinTwo(app);
    const { caller, agent } = joined;
    await caller.reoffer({ direction: 'sendonly' });
    const ours = await agent.sip.next('INVITE');
    const theirs = agent.reoffer({ port: agent.rtp.port }); // crosses ours: refused for now
    expect((await theirs).status).toBe(491);
    agent.sip.respond(ours, 491);
    await agent.sip.next('ACK');
    // We made the Call-ID of this leg: 2.1 to 4 s (RFC 3261 14.1).
    const startMs = performance.now();
    expect(directionOf(await agent.takeReoffer({ direction: 'recvonly' }))).toBe('sendonly');
    expect(performance.now() - startMs).toBeGreaterThan(2000);
    await endJoined(app, joined);
  }, 15_000);

  it('an offer that cannot be met is refused with 488, and the call goes on', async () => {
    const joined = await joinTwo(app);
    const { caller, agent } = joined;
    expect((await agent.reoffer({ codecs: '18' })).status).toBe(488);
    expect((await caller.reoffer({ codecs: '18' })).status).toBe(488);
    await caller.rtp.talk(5, (i) => pattern(i));
    await agent.rtp.until(() => heardBy(agent).includes(hex(pattern(4))), 'the caller');
    await endJoined(app, joined);
  });

  it('a new port and another codec of one side concern nobody else', async () => {
    const joined = await joinTwo(app);
    const { caller, agent } = joined;
    const elsewhere = await HandPhone.open();
    await agent.reoffer({ codecs: '8', port: elsewhere.rtp.port });
    await caller.rtp.talk(10, (i) => pattern(i));
    const expected = hex(pattern(9).map((byte) => ulawToAlaw[byte] ?? 0));
    await elsewhere.rtp.until(() => heardBy(elsewhere).includes(expected), 'A-law at the new port');
    expect(caller.sip.received.filter((message) => message.method === 'INVITE')).toEqual([]);
    await elsewhere.close();
    await endJoined(app, joined);
  });
});

describe('keys', () => {
  it('as events pass as events, each once', async () => {
    const joined = await joinTwo(app);
    const { caller, agent } = joined;
    for (const code of [1, 5, 9, 10, 11]) press(caller, code);
    await agent.rtp.until(() => eventsHeard(agent) === '159*#', 'the keys');
    const record = await endJoined(app, joined);
    expect(eventsOf(record, 'dtmf.received').map((event) => [event.digit, event.method])).toEqual(
      [...'159*#'].map((digit) => [digit, 'rfc4733']),
    );
  });

  it('reach an agent without events as INFO, and one that wants no INFO as tones', async () => {
    const joined = await joinTwo(app, { agent: { telephoneEvent: false } });
    const { caller, agent } = joined;
    press(caller, 7);
    const info = await agent.sip.next('INFO');
    expect(info.header('content-type')).toBe('application/dtmf-relay');
    expect(info.body).toMatch(/^Signal=7\r\nDuration=\d+\r\n$/);
    agent.sip.respond(info, 200);
    press(caller, 8);
    agent.sip.respond(await agent.sip.next('INFO'), 415);
    await agent.rtp.until(() => tonesHeard(agent) === '8', 'the tones of 8');
    expect(eventsHeard(agent)).toBe('');
    await endJoined(app, joined);
  });

  it('of a caller without events: tones become events, INFO becomes events', async () => {
    const joined = await joinTwo(app, { caller: { telephoneEvent: false } });
    const { caller, agent } = joined;
    const tone = new Uint8Array(800);
    for (const digit of '40D') {
      writeKeyTone(digit, 'PCMU', 0, tone, 0, tone.length);
      await caller.rtp.talk(15, (i) => (i < 5 ? tone.slice(i * 160, i * 160 + 160) : new Uint8Array(160).fill(0xff)));
    }
    await agent.rtp.until(() => eventsHeard(agent) === '40D', 'the events');
    caller.ask('INFO', [], 'Signal=3\r\nDuration=100\r\n', 'application/dtmf-relay');
    await caller.sip.next(200);
    await agent.rtp.until(() => eventsHeard(agent) === '40D3', 'the event of the INFO');
    const record = await endJoined(app, joined);
    expect(eventsOf(record, 'dtmf.received').map((event) => [event.digit, event.method])).toEqual([
      ['4', 'inband'],
      ['0', 'inband'],
      ['D', 'inband'],
      ['3', 'info'],
    ]);
  });

  it('of the agent reach the caller: events, and INFO as events', async () => {
    const joined = await joinTwo(app);
    const { caller, agent } = joined;
    press(agent, 2);
    agent.ask('INFO', [], 'Signal=6\r\nDuration=100\r\n', 'application/dtmf-relay');
    await agent.sip.next(200);
    await caller.rtp.until(() => [...eventsHeard(caller)].sort().join('') === '26', 'both keys');
    const sent = eventsOf(await endJoined(app, joined), 'dtmf.sent');
    expect(sent.map(({ digits, source }) => `${digits} ${source}`).sort()).toEqual(['2 agent', '6 agent']);
  });
});

describe('keys of SRTP towards an agent', () => {
  const key = (bytes: number) => Buffer.alloc(bytes, 7).toString('base64');

  it.each<[string, Record<string, unknown>, string, RegExp | null]>([
    ['are not offered where nobody asked', {}, 'RTP/AVP', null],
    ['are offered beside plain audio', { srtp: 'allow' }, 'RTP/AVP', /a=crypto:4 AEAD_AES_256_GCM inline:/],
    ['are asked for', { srtp: 'require' }, 'RTP/SAVP', /a=crypto:3 AEAD_AES_128_GCM inline:/],
  ])('%s', async (_what, config, protocol, line) => {
    const joined = await joinTwo(app, {
      config,
      agent:
        config.srtp === 'require' ? { secure: true, extra: [`a=crypto:3 AEAD_AES_128_GCM inline:${key(28)}`] } : {},
    });
    expect(joined.invite.body).toContain(` ${protocol} `);
    if (line === null) expect(joined.invite.body).not.toContain('a=crypto');
    else expect(joined.invite.body).toMatch(line);
    await endJoined(app, joined);
  });

  it('that the agent does not take: it is not spoken to in clear, and the record says why', async () => {
    const caller = await HandPhone.open(app.sip.addresses[0]?.port ?? 0);
    const agent = await HandPhone.open(app.sip.addresses[0]?.port ?? 0);
    const number = await numberOfAgent(app, agent, { config: { srtp: 'require' } });
    const invited = caller.invite(number);
    agent.answer(await agent.sip.next('INVITE'));
    agent.sip.respond(await agent.sip.next('BYE'), 200);
    caller.sip.ackFailure(invited, await caller.sip.next(480));
    const record = await app.finishedCall(number);
    expect(record).toMatchObject({ status: 'failed', hangup_cause: 'agent_unreachable' });
    expect(JSON.stringify(record.events)).toContain('without a key that we can use');
    await Promise.all([caller.close(), agent.close()]);
  });
});
