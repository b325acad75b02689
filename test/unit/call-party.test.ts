/** A party: what its session and its leg report goes into the record, to the application, and to observers. */
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { AgentEvent } from '../../media/agents/agent.js';
import type { MediaEvent, MediaSession } from '../../media/engine.js';
import type { CallLeg, LegEnd } from '../../sip/leg.js';
import { AgentConversation } from '../../src/call/agent/conversation.js';
import type { FailoverAgent } from '../../src/call/agent/failover-agent.js';
import { Call } from '../../src/call/core/call.js';
import { CalledParty } from '../../src/call/party/called.js';
import type { PartyRole } from '../../src/call/party/party-record.js';
import type { Calls } from '../../src/store/calls/calls.js';

/** A call whose record is a list of events. */
function begunCall() {
  const events: [string, Record<string, unknown>][] = [];
  const records = {
    event: (_id: string, type: string, data: Record<string, unknown>) => events.push([type, data]),
    ...{ pickedUp() {}, answered() {}, dialog() {} },
  } as unknown as Calls;
  const begun = { id: 'c', createdAt: new Date(), startedAtMs: performance.now(), funds: null };
  return { call: new Call(records, begun, 'outbound'), events };
}

/** A media session that says what the test says. */
function fakeSession(held: MediaSession['held'] = null) {
  const listeners = new Set<(event: MediaEvent) => void>();
  let lose!: (how: 'rtp-timeout' | 'engine-gone') => void;
  const lost = new Promise<'rtp-timeout' | 'engine-gone'>((resolve) => {
    lose = resolve;
  });
  const state = { isClosed: false };
  const session = {
    held,
    lost,
    attach() {},
    offer: async () => 'an offer',
    accept: async () => {},
    close: async () => {
      state.isClosed = true;
      return null;
    },
    onEvent: (listener: (event: MediaEvent) => void) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  } as unknown as MediaSession;
  const say = (event: MediaEvent) => {
    for (const listener of [...listeners]) listener(event);
  };
  return { session, state, say, lose, listeners };
}

function fakeLeg() {
  const handlers: { info?: Parameters<CallLeg['onInfo']>[0]; refer?: Parameters<CallLeg['onRefer']>[0] } = {};
  let end!: (end: LegEnd) => void;
  const ended = new Promise<LegEnd>((resolve) => {
    end = resolve;
  });
  const hangup = vi.fn(async () => {});
  const leg = {
    answeredAtMs: performance.now(),
    remoteSdp: 'an answer',
    confirmed: Promise.resolve({}),
    ended,
    onReoffer() {},
    onInfo: (handler: Parameters<CallLeg['onInfo']>[0]) => {
      handlers.info = handler;
    },
    onRefer: (handler: Parameters<CallLeg['onRefer']>[0]) => {
      handlers.refer = handler;
    },
    snapshot: () => ({ peer: { address: '127.0.0.1' } }),
    hangup,
  } as unknown as CallLeg;
  return { leg, handlers, end, hangup };
}

/** A party that is called, with the media of one gateway. */
async function calledParty(role: PartyRole = 'callee', media = fakeSession(), maxCallMs?: number) {
  const { call, events } = begunCall();
  const limit = maxCallMs === undefined ? {} : { maxCallMs };
  const party = new CalledParty({ call, role, facts: {} as never, mode: 'live', ...limit });
  const gateway = (opened: ReturnType<typeof fakeSession>) =>
    party.offer({ open: async () => opened.session }, { group: 'c', policy: {} as never, localAddress: '127.0.0.1' });
  await gateway(media);
  return { call, events, party, media, gateway, ...fakeLeg() };
}

const key = (digit: string): MediaEvent => ({
  ...{ type: 'dtmf', digit, durationMs: 100, form: 'event', passedOn: false },
});
const infoKey = { contentType: 'application/dtmf-relay', body: 'Signal=5\r\nDuration=160\r\n' };

afterEach(() => vi.useRealTimers());

describe('a party that is called', () => {
  it('has one subscription; keys before the answer are ignored', async () => {
    const { call, events, party, media, leg, handlers } = await calledParty();
    media.say({ type: 'started', atMs: 5 });
    media.say(key('1'));
    await party.answeredWith(leg);
    call.answer();
    await party.answer();
    media.say(key('2'));
    handlers.info?.(infoKey);
    handlers.info?.({ contentType: 'text/plain', body: 'Signal=6' });
    expect(media.listeners.size).toBe(1);
    expect(events).toEqual([
      ['media.started', {}],
      ['dtmf.received', { digit: '2', method: 'rfc4733', duration_ms: 100 }],
      ['dtmf.received', { digit: '5', method: 'info' }],
    ]);
  });

  it('keeps nothing of a gateway that was given up', async () => {
    const { call, events, party, media, gateway } = await calledParty();
    const next = fakeSession();
    await gateway(next);
    expect([media.state.isClosed, media.listeners.size]).toEqual([true, 0]);
    expect(party.session).toBe(next.session);
    media.lose('rtp-timeout');
    await Promise.resolve();
    expect([call.ending, events]).toEqual([null, []]);
    next.lose('rtp-timeout');
    await vi.waitFor(() => expect(call.ending).toMatchObject({ cause: 'media_timeout' }));
    expect(events).toEqual([['media.timeout', {}]]);
  });

  it('closes media that open after its call is over', async () => {
    const { party } = await calledParty();
    await party.closeMedia();
    const late = fakeSession();
    await party
      .offer({ open: async () => late.session }, { group: 'c', policy: {} as never, localAddress: '127.0.0.1' })
      .catch(() => {});
    expect(late.state.isClosed).toBe(true);
  });

  it('ends its call when it hangs up, or at the limit of its duration', async () => {
    const { call, party, leg, end } = await calledParty();
    await party.answeredWith(leg);
    end({ cause: 'normal_clearing', by: 'remote' });
    await vi.waitFor(() => expect(call.ending).toEqual({ cause: 'normal_clearing', source: 'callee' }));

    vi.useFakeTimers();
    const limited = await calledParty('callee', fakeSession(), 60_000);
    await limited.party.answeredWith(limited.leg);
    await limited.party.answer();
    vi.advanceTimersByTime(59_999);
    expect(limited.call.ending).toBeNull();
    vi.advanceTimersByTime(1);
    expect(limited.call.ending).toEqual({ cause: 'time_limit', source: 'system' });
  });

  it('moves to the leg that replaces its own, with keys and the end; the leg before gets BYE', async () => {
    const { call, events, party, media, leg, end, hangup } = await calledParty();
    const ends: LegEnd[] = [];
    void party.hungUp.then((how) => ends.push(how));
    await party.answeredWith(leg);
    call.answer();
    await party.answer();
    const next = fakeLeg();
    party.useLeg(next.leg);
    expect([hangup.mock.calls, next.hangup.mock.calls]).toEqual([[['transferred']], []]);
    expect([call.phones.get(leg), call.phones.get(next.leg)]).toEqual([undefined, party]);
    end({ cause: 'normal_clearing', by: 'local' });
    await leg.ended;
    expect([call.ending, ends]).toEqual([null, []]);
    media.say(key('1'));
    next.handlers.info?.(infoKey);
    expect(events.map(([, data]) => data.digit)).toEqual(['1', '5']);
    next.end({ cause: 'normal_clearing', by: 'remote' });
    await vi.waitFor(() => expect(call.ending).toEqual({ cause: 'normal_clearing', source: 'callee' }));
    expect(ends).toHaveLength(1);
  });

  it('may not transfer the call, unless its application says so', async () => {
    const { events, party, leg, handlers } = await calledParty();
    await party.answeredWith(leg);
    expect(await handlers.refer?.({ to: 'tel:+12025550100', replaces: null })).toEqual({ refuse: 403 });
    expect(events.map(([type]) => type)).toEqual(['transfer.failed']);
    const onRefer = async () => ({ accept: true as const });
    await party.control.connect({ kind: 'bridge', attach() {}, async detach() {}, onKey() {}, onHold() {}, onRefer });
    expect(await handlers.refer?.({ to: 'tel:+12025550100', replaces: null })).toEqual({ accept: true });
  });

  it('an exception of one observer ends this call, and others still hear', async () => {
    const { call, party, media } = await calledParty();
    const heard: string[] = [];
    party.observe(() => {
      throw new Error('broken');
    });
    const stop = party.observe(({ type }) => heard.push(type));
    media.say({ type: 'words' });
    stop();
    media.say({ type: 'words' });
    expect(heard).toEqual(['words']);
    expect(call.ending).toMatchObject({ cause: 'unspecified', detail: 'A fault of ours: broken' });
  });
});

describe('a hold that began with the first SDP', () => {
  it('is in the record from the answer on, and told to the agent before it starts', async () => {
    const { call, events, party, media, leg } = await calledParty('callee', fakeSession({ sends: true }));
    const told: unknown[] = [];
    const agent = {
      ended: new Promise(() => {}),
      onEvent: (_listener: (event: AgentEvent) => void) => () => {},
      command: (command: unknown) => told.push(command),
      start: () => told.push('start'),
      close: async () => {},
    } as unknown as FailoverAgent;
    expect(events).toEqual([]);
    await party.control.connect(new AgentConversation(party, agent, {} as never));
    await party.answeredWith(leg);
    call.answer();
    await party.answer();
    media.say({ type: 'resumed' });
    expect(told).toEqual([{ kind: 'hold', on: true }, 'start', { kind: 'hold', on: false }]);
    expect(events).toEqual([
      ['call.held', { by: 'callee' }],
      ['call.resumed', { by: 'callee' }],
    ]);
  });

  it('that is over before the answer is not in the record', async () => {
    const { call, events, party, media, leg } = await calledParty();
    media.say({ type: 'held', sends: true }); // of a 183
    media.say({ type: 'resumed' });
    await party.answeredWith(leg);
    call.answer();
    await party.answer();
    expect(events).toEqual([]);
  });
});

describe('an agent behind SIP', () => {
  it('writes what it does into the record of the call, as the agent', async () => {
    const { events, party, media, leg, handlers } = await calledParty('agent');
    media.say(key('1'));
    await party.answeredWith(leg);
    media.say(key('2'));
    media.say({ type: 'held', sends: false });
    handlers.info?.(infoKey);
    expect(events).toEqual([
      ['dtmf.sent', { digits: '2', source: 'agent' }],
      ['call.held', { by: 'agent' }],
      ['dtmf.sent', { digits: '5', source: 'agent' }],
    ]);
  });
});
