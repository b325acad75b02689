import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { linearToUlaw, ulawToLinear } from '../../media/audio/codec/g711.js';
import { tone } from '../../media/audio/dsp/tone.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { HandPhone } from '../support/joined-call.js';
import { addTrunk, placeOutbound } from '../support/outbound.js';
import { type ScriptedAgent, startScriptedAgent } from '../support/scripted-agent.js';
import { type SippCarrier, startSippCarrier } from '../support/sipp-carrier.js';
import { probeTone } from '../support/tone-probe.js';

let app: TestApp;
let agent: ScriptedAgent;
let ids: { endpointId: string; numberId: string };
let nextNumber = 12025558001;
const carriers: SippCarrier[] = [];
const trunks: string[] = [];

beforeAll(async () => {
  app = await startTestApp({ TRUNKLINE_RTP_FIRST_TIMEOUT_SEC: '0' }, { t1: 100, t2: 400, t4: 500 });
  agent = await startScriptedAgent({});
  ids = await app.connectNumber('+12025550199', agent.url, { protocol: 'raw' });
});
afterEach(async () => {
  for (const id of trunks.splice(0)) await app.api('DELETE', `/v1/trunks/${id}`);
  for (const carrier of carriers.splice(0)) await carrier.close();
});
afterAll(async () => {
  await agent.close();
  await app.end();
});

async function sipp(scenario: string, replace: Record<string, string> = {}, calls = 1): Promise<SippCarrier> {
  const carrier = await startSippCarrier({ scenario, replace, calls });
  carriers.push(carrier);
  return carrier;
}

async function call(uris: string[], change: Record<string, unknown> = {}, wish: { ringTimeoutMs?: number } = {}) {
  trunks.push(await addTrunk(app, uris, change));
  const to = `+${nextNumber++}`;
  return { to, id: placeOutbound(app, { to, ...ids, ...wish }) };
}

const idOf = async (number: string) => {
  const { data } = await app.api<{ data: { id: string; to_number: string }[] }>('GET', '/v1/calls');
  return data.find((each) => each.to_number === number)?.id ?? '';
};
const typesOf = async (id: string) =>
  (await app.api<{ events: { event_type: string }[] }>('GET', `/v1/calls/${id}`)).events.map((e) => e.event_type);
const reached = (id: string, type: string) => expect.poll(() => typesOf(id), { timeout: 10_000 }).toContain(type);

describe('a carrier of sipp', () => {
  it.each([
    ['486', 'busy'],
    ['600', 'busy'],
    ['480', 'no_answer'],
    ['404', 'failed'],
  ])('rings, then %s: %s', async (code, status) => {
    const carrier = await sipp('uas-rings-then-final', { STATUS: code });
    const { to } = await call([carrier.uri]);
    expect(await app.finishedCall(to)).toMatchObject({ status, answered_at: null });
    await carrier.done;
  });

  it('says 503: the next one answers, and hears the BYE', async () => {
    const dead = await sipp('uas-final', { STATUS: '503' });
    const good = await sipp('uas-answer');
    const { to, id } = await call([dead.uri, good.uri]);
    await reached(id, 'call.answered');
    await dead.done;
    await app.api('POST', `/v1/calls/${id}/hangup`);
    await good.done;
    expect(await app.finishedCall(to)).toMatchObject({ status: 'completed', hangup_source: 'api' });
  });

  it('is busy: nobody else is asked', async () => {
    const busy = await sipp('uas-final', { STATUS: '486' });
    const other = await sipp('uas-answer');
    const { to } = await call([busy.uri, other.uri]);
    expect(await app.finishedCall(to)).toMatchObject({ status: 'busy' });
    await busy.done;
  });

  it('asks for credentials', async () => {
    const carrier = await sipp('uas-digest');
    const { to, id } = await call([carrier.uri], { username: 'carrier-user', password: 'carrier-pass' });
    await reached(id, 'call.answered');
    await app.api('POST', `/v1/calls/${id}/hangup`);
    await carrier.done;
    expect(await app.finishedCall(to)).toMatchObject({ status: 'completed' });
  });

  it('does not know our credentials: refused, and no loop', async () => {
    const carrier = await sipp('uas-digest');
    const { to } = await call([carrier.uri], { username: 'carrier-user', password: 'wrong' });
    expect(await app.finishedCall(to)).toMatchObject({ status: 'failed', hangup_cause: 'call_rejected' });
    await carrier.done;
  });
});

describe('a carrier of sipp that does what the RFC allows', () => {
  it('forks, and both phones answer: the first has the call, the second is hung up', async () => {
    const carrier = await sipp('uas-forked');
    const { to, id } = await call([carrier.uri]);
    await reached(id, 'call.answered');
    await app.api('POST', `/v1/calls/${id}/hangup`);
    await carrier.done;
    expect(await app.finishedCall(to)).toMatchObject({ status: 'completed', hangup_source: 'api' });
  });

  it('answers while our CANCEL is on its way: ACK and BYE, and nobody answered', async () => {
    const carrier = await sipp('uas-crossing');
    const { to, id } = await call([carrier.uri]);
    await reached(id, 'call.ringing');
    await app.api('POST', `/v1/calls/${id}/hangup`);
    await carrier.done;
    expect(await app.finishedCall(to)).toMatchObject({ status: 'no_answer', answered_at: null });
  });

  it('says 183 a hundred times: one event of early media, and its last word counts', async () => {
    const carrier = await sipp('uas-183-flood');
    const { to, id } = await call([carrier.uri]);
    expect(await app.finishedCall(to)).toMatchObject({ status: 'busy', answered_at: null });
    await carrier.done;
    expect((await typesOf(id)).filter((type) => type === 'call.early_media')).toHaveLength(1);
  });

  it.each([
    ['a name that nobody has', 'sip:no-such-carrier.invalid', 'no address for no-such-carrier.invalid'],
    ['a port where nobody listens', 'sip:127.0.0.1:1;transport=tcp', 'connection refused'],
  ])('%s: failed, and the record says why', async (_what, uri, why) => {
    const { to } = await call([uri]);
    const record = await app.finishedCall(to);
    expect(record).toMatchObject({ status: 'failed', hangup_cause: 'carrier_unreachable' });
    expect(JSON.stringify(record.events)).toContain(why);
  });
});

/** RFC 3261 section 21 in the words of the record; every other status of a class is as its class. */
const byClass = { 3: 'unspecified', 4: 'call_rejected', 5: 'carrier_unreachable', 6: 'call_rejected' };
const special: Record<number, string> = {
  ...{ 486: 'user_busy', 600: 'user_busy', 408: 'no_answer', 480: 'no_answer', 487: 'originator_cancel' },
  ...{ 404: 'not_found', 410: 'not_found', 416: 'not_found', 484: 'not_found', 485: 'not_found', 604: 'not_found' },
  ...{ 430: 'carrier_unreachable' }, // RFC 5626: the way to the phone is gone
  ...{ 415: 'incompatible_media', 488: 'incompatible_media', 606: 'incompatible_media' },
};

/** sipp wants every status line as it stands, and no file above 64 KiB: a branch for each of these. */
const branches = (statuses: number[]) => ({
  BRANCHES: statuses
    .map(
      (status) =>
        `<nop next="s${status}" test="is${status}"><action><test assign_to="is${status}" variable="number" compare="equal" value="${status}"/></action></nop>`,
    )
    .join('\n'),
  ANSWERS: statuses
    .map(
      (status) => `<label id="s${status}"/>
<send retrans="500" next="acknowledged"><![CDATA[
SIP/2.0 ${status} As you wish
[last_Via:]
[last_From:]
[last_To:];tag=[pid]SIPpTag[call_number]
[last_Call-ID:]
[last_CSeq:]
Content-Length: 0

]]></send>`,
    )
    .join('\n'),
});

it('every final status from 300 to 699 of sipp, once: the record says which and why, and nothing is left', async () => {
  const scope = { organizationId: app.first?.organizationId ?? '', mode: 'live' as const };
  const asked = new Map<number, string>();
  for (const first of [300, 400, 500, 600]) {
    const hundred = Array.from({ length: 100 }, (_, i) => first + i);
    const carrier = await startSippCarrier({ scenario: 'uas-any-final', calls: 100, replace: branches(hundred) });
    carriers.push(carrier);
    const trunk = await addTrunk(app, [carrier.uri]);
    for (let at = 0; at < 100; at += 25) {
      for (const status of hundred.slice(at, at + 25))
        asked.set(status, placeOutbound(app, { to: `+12025557${status}`, ...ids, ringTimeoutMs: 20_000 }));
      await expect.poll(() => app.live.count, { timeout: 20_000, interval: 5 }).toBe(0);
    }
    await carrier.done;
    await app.api('DELETE', `/v1/trunks/${trunk}`);
  }
  const statuses = [...asked.keys()];
  expect(statuses).toHaveLength(400);
  const records = await Promise.all(statuses.map((status) => app.store.records.detail(scope, asked.get(status) ?? '')));
  const found = statuses.map((status, index) => {
    const record = records[index];
    const said = record?.events.at(-1)?.data.sip_status;
    return [status, said, record?.status, record?.hangupCause];
  });
  const busy = [486, 600, 603];
  const silent = [408, 480, 487];
  expect(found).toEqual(
    statuses.map((status) => [
      ...[status, status, busy.includes(status) ? 'busy' : silent.includes(status) ? 'no_answer' : 'failed'],
      special[status] ?? byClass[Math.floor(status / 100) as keyof typeof byClass],
    ]),
  );
}, 90_000);

describe('sound before the answer, played by sipp', () => {
  const ulaw = tone({ frequencyHz: 700, durationMs: 1000, amplitude: 8000 });
  const files = { 'tone.raw': Uint8Array.from(ulaw, (sample) => linearToUlaw[sample & 0xffff] ?? 0) };
  const isTone = (samples: Int16Array) =>
    samples.length >= 1600 && probeTone(samples.subarray(-1600), 700).purityDb > 10;

  it('is heard by the caller of an agent behind SIP before it answers', async () => {
    const carrier = await startSippCarrier({ scenario: 'uas-early-sound', files });
    carriers.push(carrier);
    const number = `+${nextNumber++}`;
    await app.connectNumber(number, carrier.uri.replace('sip:', 'sip:agent@'));
    const caller = await HandPhone.open(app.sip.addresses[0]?.port ?? 0);
    const invited = caller.invite(number);
    const early = await caller.sip.next(183);
    caller.rtp.dial(early.body);
    const heard = () =>
      Int16Array.from(
        caller.rtp.heard.flatMap(({ payload }) => [...payload]),
        (byte) => ulawToLinear[byte] ?? 0,
      );
    await caller.rtp.until(() => isTone(heard()), 'the tone');
    const { amplitude } = probeTone(heard().subarray(-1600), 700);
    expect(Math.abs(20 * Math.log10(amplitude / 8000))).toBeLessThan(0.5);
    caller.confirm(invited, await caller.sip.next(200));
    await reached(await idOf(number), 'call.answered');
    await caller.hangUp();
    await carrier.done;
    const record = await app.finishedCall(number);
    const types = record.events.map((event) => event.event_type);
    expect(types.indexOf('call.early_media')).toBeLessThan(types.indexOf('call.answered'));
    await caller.close();
  });

  it('of a carrier is recorded, kept from the agent until the answer, and heard by it from then on', async () => {
    const carrier = await startSippCarrier({ scenario: 'uas-early-sound', files });
    carriers.push(carrier);
    const heard: { atMs: number; bytes: Buffer }[] = [];
    const listener = await startScriptedAgent({
      onBinary: (bytes) => void heard.push({ atMs: Date.now(), bytes: Buffer.from(bytes) }),
    });
    const own = await app.connectNumber(`+${nextNumber++}`, listener.url, { protocol: 'raw' });
    trunks.push(await addTrunk(app, [carrier.uri]));
    const to = `+${nextNumber++}`;
    const id = placeOutbound(app, { to, ...own });
    await reached(id, 'call.early_media');
    expect(heard).toEqual([]);
    const samples = () => {
      const bytes = Buffer.concat(heard.map((each) => each.bytes));
      return new Int16Array(bytes.buffer, bytes.byteOffset, Math.floor(bytes.length / 2));
    };
    await expect.poll(() => isTone(samples()), { timeout: 8000 }).toBe(true);
    await app.api('POST', `/v1/calls/${id}/hangup`);
    await carrier.done;
    const record = await app.finishedCall(to);
    expect(heard[0]?.atMs).toBeGreaterThanOrEqual(Date.parse(record.answered_at ?? '') - 5);
    await listener.close();
  });
});
