import { afterEach, beforeEach, expect, it } from 'vitest';
import type { AgentEnd, AgentTarget } from '../../media/agents/agent.js';
import type { AgentSocket, AgentSocketHooks } from '../../media/agents/connection/agent-socket.js';
import { realTime } from '../../media/audio/playout/playout-clock.js';
import { type Notice, ThreadClient } from '../../media/thread/channel.js';
import { ThreadSessions } from '../../media/thread/session/sessions.js';
import { agentTarget, eventually, sessionOptions } from '../support/media-engine.js';
import { portPairs } from '../support/port-ranges.js';
import { RtpPhone } from '../support/rtp-phone.js';

/** An agent without a socket; `faulty` ones throw wherever they are called. */
class FakeAgent implements AgentSocket {
  readonly format = { encoding: 'ulaw', sampleRateHz: 8000 } as const;
  readonly replyFormat = this.format;
  readonly separateTracks = false;
  readonly ready = Promise.resolve();
  readonly ended: Promise<AgentEnd>;
  frames = 0;
  closes = 0;
  private end!: (end: AgentEnd) => void;

  constructor(
    readonly faulty: boolean,
    readonly hooks: AgentSocketHooks,
  ) {
    this.ended = new Promise((resolve) => {
      this.end = resolve;
    });
  }

  start(): void {}
  audio(): void {
    if (this.faulty) throw new Error('a fault in the audio path');
    this.frames += 1;
  }
  markReached(): void {
    if (this.faulty) throw new Error('a fault in a mark');
  }
  command(): void {}
  callerSpeaks(): void {}
  async close(reason: string): Promise<void> {
    this.closes += 1;
    this.end({ by: 'local', detail: reason });
  }
  counters() {
    return { framesSent: this.frames, framesDropped: 0, bytesReceived: 0, garbage: 0 };
  }
}

let agents: FakeAgent[];
let notices: Notice[];
let thread: ThreadSessions;
let threadClient: ThreadClient;
let phones: RtpPhone[];

beforeEach(async () => {
  agents = [];
  notices = [];
  thread = new ThreadSessions({
    post: (message) => {
      if (message.kind === 'answer' || message.kind === 'refusal') threadClient.settle(message);
      else notices.push(message);
    },
    openAgent: (target: AgentTarget, hooks) => {
      const agent = new FakeAgent(target.url.includes('faulty'), hooks);
      agents.push(agent);
      return agent;
    },
    time: realTime,
    coreTime: () => null,
    sleep: () => {},
    quietMs: 0,
  });
  threadClient = new ThreadClient((message) => thread.receive(message));
  phones = [];
  for (const [index, url] of ['ws://faulty/', 'ws://fine/'].entries()) {
    const phone = await RtpPhone.open();
    phones.push(phone);
    const session = index + 1;
    for (let rtpPort = portPairs(20).from; ; rtpPort += 2) {
      const opened = await threadClient.ask(
        'open',
        { session, rtpPort, options: sessionOptions({ offer: phone.sdp() }) },
        1000,
      );
      if (opened === 'port_taken') continue;
      phone.dial(opened.localSdp);
      break;
    }
    await threadClient.ask('prepareAgent', { session, agent: 1, target: agentTarget(url) }, 1000);
    thread.receive({ kind: 'attach', session, agent: 1 });
    thread.receive({ kind: 'startAgent', session, agent: 1 });
  }
});

afterEach(async () => {
  await thread.close();
  for (const phone of phones) phone.close();
});

const faults = () => notices.filter((notice) => notice.kind === 'fault');
const ends = () => notices.filter((notice) => notice.kind === 'agentEnded');
const voice = () => new Uint8Array(160).fill(1);

it('a fault in the way to an agent ends that agent, is counted, and no other call hears of it', async () => {
  await Promise.all(phones.map((phone) => phone.talk(10, voice)));
  await eventually(() => agents[1]!.frames === 10, 'the other call');
  expect(faults()[0]).toMatchObject({
    session: 1,
    place: 'agent',
    text: expect.stringContaining('a fault in the audio path'),
  });
  expect(ends()).toMatchObject([{ session: 1, agent: 1, end: { by: 'failed' } }]);
  expect(agents.map((agent) => agent.closes > 0)).toEqual([true, false]);
  expect(notices.filter((notice) => notice.kind === 'lost')).toEqual([]);
  const heard = phones.map((phone) => phone.heard.length);
  for (const [i, phone] of phones.entries())
    await phone.until(() => phone.heard.length > heard[i]! + 5, 'RTP to both phones');
});

it('a fault in the playout of one session does not stop the clock of the others', async () => {
  agents[0]!.hooks.guard(() => {
    agents[0]!.hooks.audio(voice());
    agents[0]!.hooks.mark('end');
  });
  await eventually(() => faults().length === 1, 'the fault');
  const heard = phones.map((phone) => phone.heard.length);
  for (const [i, phone] of phones.entries())
    await phone.until(() => phone.heard.length > heard[i]! + 5, 'RTP to both phones');
});

it('closing ends everything: agents, sockets and timers', async () => {
  await thread.close();
  expect(agents.every((agent) => agent.closes > 0)).toBe(true);
  const heard = phones.map((phone) => phone.heard.length);
  await new Promise((resolve) => setTimeout(resolve, 100)); // real time: five packets' worth, and none may come
  expect(phones.map((phone) => phone.heard.length)).toEqual(heard);
  expect(notices.filter((notice) => notice.kind === 'portFree')).toHaveLength(2);
});
