/**
 * Agents that refuse, stall, vanish, flood and talk nonsense, on a whole gateway beside a call with sound: the caller is told, the record says why,
 * and nobody else hears of it.
 */
import type { ChildProcess } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { WebSocket } from 'ws';
import { endProcess, startAgentProcess } from '../support/agent-process.js';
import { tcpServer } from '../support/agent-rig.js';
import { type FarCall, farSdp } from '../support/far-ends.js';
import { faultScene, undisturbed } from '../support/fault-scene.js';
import { type AgentScript, type ScriptedAgent, startScriptedAgent } from '../support/scripted-agent.js';
import { TalkingCaller } from '../support/talking-caller.js';

const budgetSec = 2;
let nextNumber = 19995561000;

/** An agent, or a target that is none, behind a number of its own. */
class Line {
  readonly number = `+${nextNumber++}`;
  agent: ScriptedAgent | null = null;

  constructor(
    readonly target: AgentScript | string | (() => string),
    readonly config: Record<string, unknown> = {},
  ) {
    lines.push(this);
  }

  async open(): Promise<void> {
    const { target } = this;
    if (typeof target === 'object') this.agent = await startScriptedAgent(target);
    const url = this.agent?.url ?? (typeof target === 'function' ? target() : String(target));
    await scene.app.connectNumber(this.number, url, { protocol: 'raw', encoding: 'ulaw', ...this.config });
  }
}
const lines: Line[] = [];

/** One that floods, and the port of one that tests start and kill. */
let flooding: ChildProcess;
let floodPort = 0;
let mortalPort = 0;
let resets: Awaited<ReturnType<typeof tcpServer>>;
let clear: Awaited<ReturnType<typeof tcpServer>>;

const scene = faultScene({
  environment: { TRUNKLINE_LOG_LEVEL: 'silent', TRUNKLINE_AGENT_CONNECT_TIMEOUT_SEC: String(budgetSec) },
  timersMs: { t1: 50, t2: 400, t4: 500 },
  limitMs: 20_000,
  prepare: async () => {
    const [first, second] = [await startAgentProcess(), await startAgentProcess()];
    flooding = first.child;
    floodPort = first.port;
    mortalPort = second.port;
    await endProcess(second.child);
    resets = await tcpServer((socket) => socket.resetAndDestroy());
    clear = await tcpServer((socket) => socket.end('HTTP/1.1 200 OK\r\n\r\n'));
    for (const line of lines) await line.open();
  },
});
afterAll(async () => {
  for (const { agent } of lines) await agent?.close();
  await resets.close();
  await clear.close();
  await endProcess(flooding);
});

const scope = () => ({ organizationId: scene.app.first?.organizationId ?? '', mode: 'live' as const });

/** The record of a call that is over. */
async function record(call: FarCall) {
  const row = async () =>
    (await scene.app.store.records.list(scope(), {}, { limit: 500, offset: 0 })).data.find(
      ({ sipCallId, status }) => sipCallId === call.callId && status !== 'in_progress',
    );
  await expect.poll(row, { timeout: 10_000 }).toBeTruthy();
  const detail = (await scene.app.store.records.detail(scope(), (await row())!.id))!;
  return { ending: `${detail.status} ${detail.hangupCause} ${detail.hangupSource}`, events: detail.events };
}
type Events = Awaited<ReturnType<typeof record>>['events'];
const ofType = (events: Events, type: string) => events.filter((event) => event.type === type);

describe('P1: an agent that refuses', () => {
  const refusals: [string, Line, number | null][] = [
    ['with RST', new Line(() => `ws://127.0.0.1:${resets.port}/`), null],
    ['because nobody has its name', new Line('ws://nobody.invalid/'), null],
    ['because it knows no TLS', new Line(() => `wss://127.0.0.1:${clear.port}/`), null],
    ['with 401', new Line({ upgrade: 401 }), 1],
    ['with 403', new Line({ upgrade: 403 }), 1],
    ['with 429', new Line({ upgrade: 429 }), 2],
    ['with 503', new Line({ upgrade: 503 }), 2],
  ];
  it.each(refusals)('%s: 480 within the budget, one failed record', async (_, line, attempts) => {
    await undisturbed(scene, async () => {
      const before = line.agent?.attempts ?? 0;
      const call = scene.ends.call(line.number);
      expect(await call.final(budgetSec * 1000 + 4000)).toBe(480);
      const { ending, events } = await record(call);
      expect(ending).toBe('failed agent_unreachable system');
      expect(ofType(events, 'call.answered')).toEqual([]);
      if (attempts !== null) expect(line.agent!.attempts - before).toBe(attempts);
    });
  });
});

describe('P2: an agent that', () => {
  const slow: [string, Line][] = [
    ['never upgrades', new Line({ upgrade: 'stall' })],
    ['upgrades when its time is over', new Line({ lateMs: budgetSec * 1500 })],
  ];
  it.each(slow)('%s: the phone rings meanwhile, is never answered, and hears 480', async (_, line) => {
    await undisturbed(scene, async () => {
      const call = scene.ends.call(line.number);
      await call.next(180);
      expect(await call.final(budgetSec * 1000 + 4000)).toBe(480);
      expect((await record(call)).ending).toBe('failed agent_unreachable system');
    });
  });
});

describe('P3: an agent that never says a word', () => {
  const line = new Line({}, { first_audio_timeout_s: 0.5 });
  it('is waited for as long as its endpoint says: then BYE, and the record tells', async () => {
    await undisturbed(scene, async () => {
      const caller = await TalkingCaller.call(scene.ends, line.number);
      await caller.far.ended();
      caller.close();
      const { ending, events } = await record(caller.far);
      expect(ending).toBe('failed agent_error agent');
      expect(ofType(events, 'agent.failed')).toHaveLength(1);
    });
  });
});

describe('P4: an agent that dies while it talks', () => {
  const leaves = (leave: (socket: WebSocket) => void) => {
    let heard = 0;
    return new Line({
      onText: ({ event }) => {
        if (event === 'start') heard = 0;
      },
      onBinary: (bytes, socket) => {
        heard += 1;
        if (heard < 10) socket.send(bytes);
        else if (heard === 10) leave(socket);
      },
    });
  };
  const ways: [string, Line, string][] = [
    ['with 1000', leaves((socket) => socket.close(1000)), 'completed agent_hangup agent'],
    ['with 1001', leaves((socket) => socket.close(1001)), 'completed agent_hangup agent'],
    ['with 1011', leaves((socket) => socket.close(1011)), 'failed agent_error agent'],
    ['with RST', leaves((socket) => socket.terminate()), 'failed agent_error agent'],
  ];
  it.each(ways)('%s: BYE, and the record says whose doing it was', async (_, line, ending) => {
    await undisturbed(scene, async () => {
      const caller = await TalkingCaller.call(scene.ends, line.number);
      await caller.far.ended();
      caller.close();
      expect((await record(caller.far)).ending).toBe(ending);
    });
  });

  const mortal = new Line(() => `ws://127.0.0.1:${mortalPort}/echo`);
  it('by SIGKILL: found at once, BYE', async () => {
    await undisturbed(scene, async () => {
      const { child } = await startAgentProcess(mortalPort);
      try {
        const caller = await TalkingCaller.call(scene.ends, mortal.number);
        await caller.phone.until(() => caller.loud > 5, 'its own words');
        child.kill('SIGKILL');
        await caller.far.ended();
        caller.close();
        expect((await record(caller.far)).ending).toBe('failed agent_error agent');
        const numbers = caller.phone.heard.map(({ sequence }) => sequence);
        expect(numbers.every((n, i) => i === 0 || n === ((numbers[i - 1]! + 1) & 0xffff))).toBe(true);
      } finally {
        await endProcess(child);
      }
    });
  });
});

describe('P5: an agent that floods', () => {
  const at = (path: string) => new Line(() => `ws://127.0.0.1:${floodPort}${path}`);
  const [minutes, crumbs, lump] = [at('/minutes'), at('/crumbs'), at('/lump')];
  let before = 0;
  const grownMb = () => (process.memoryUsage().rss - before) / 2 ** 20;

  it('with twelve minutes at once: told of, bounded, heard in order until its clear, and the call goes on', async () => {
    await undisturbed(scene, async () => {
      before = process.memoryUsage().rss;
      const caller = await TalkingCaller.call(scene.ends, minutes.number);
      await caller.phone.until(() => caller.loud >= 50, 'a second of it');
      await sleep(500); // real time: the flood goes on, and memory may not grow
      expect(grownMb()).toBeLessThan(100);
      await caller.bye();
      const { ending, events } = await record(caller.far);
      expect(ending).toBe('completed normal_clearing caller');
      const codes = ofType(events, 'agent.warning').map(({ data }) => data.code);
      expect(codes).toEqual(['playout_high', 'playout_full', 'playout_normal']);
      const [cleared] = ofType(events, 'audio.cleared');
      const { heard_ms, dropped_ms } = cleared!.data as { heard_ms: number; dropped_ms: number };
      expect(dropped_ms).toBeGreaterThan(598_000);
      expect(dropped_ms).toBeLessThanOrEqual(600_000);
      // What the record calls heard is what came to the phone: emptied within one packet.
      expect(Math.abs(caller.loud * 20 - heard_ms)).toBeLessThanOrEqual(20);
    });
  });

  it('with one message of 50 MB: closed before it is in memory, and the call ends', async () => {
    await undisturbed(scene, async () => {
      before = process.memoryUsage().rss;
      const caller = await TalkingCaller.call(scene.ends, lump.number);
      await caller.far.ended();
      caller.close();
      expect(grownMb()).toBeLessThan(40);
      expect((await record(caller.far)).ending).toBe('failed agent_error agent');
    });
  });

  it('with 100,000 crumbs: slowed down, nothing grows, the call goes on', async () => {
    await undisturbed(scene, async () => {
      before = process.memoryUsage().rss;
      const caller = await TalkingCaller.call(scene.ends, crumbs.number);
      await caller.phone.until(() => caller.loud >= 50, 'what it says', 10_000);
      expect(grownMb()).toBeLessThan(100);
      await caller.bye();
      expect((await record(caller.far)).ending).toBe('completed normal_clearing caller');
    });
  });
});

describe('P6: an agent that talks nonsense', () => {
  const deep = '['.repeat(100_000) + ']'.repeat(100_000);
  const texts = [
    ...[
      'nonsense',
      '[]',
      'null',
      '7',
      '{',
      deep,
      '{"event":"dance"}',
      '{"event":{"a":1}}',
      '{"__proto__":{"event":"hangup"}}',
    ],
    ...[
      '{"event":"mark","name":1e400}',
      '{"event":"dtmf","digits":999999999999999999999}',
      '{"event":"transfer","to":{}}',
    ],
    '{"event":"transcript","speaker":"__proto__","text":"x"}',
  ];
  const once = new Line({
    onText: ({ event }, socket) => {
      if (event !== 'start') return;
      for (const text of texts) socket.send(text);
      socket.send(Buffer.alloc(0));
    },
    onBinary: (bytes, socket) => socket.send(bytes),
  });
  const odd = new Line(
    {
      // linear samples, cut in the middle of each
      onBinary: (bytes, socket) => {
        socket.send(bytes.subarray(0, 161));
        socket.send(bytes.subarray(161));
      },
    },
    { encoding: 'l16' },
  );
  const media = (payload: unknown) => JSON.stringify({ event: 'media', streamSid: 'other', media: { payload } });
  const twilio = new Line(
    {
      onText: ({ event }, socket) => {
        if (event !== 'start') return;
        for (const payload of ['***', 7, null, 'A', '=', { a: 1 }]) socket.send(media(payload));
        socket.send(Buffer.from([0, 1, 2]));
        socket.send('{"event":"media"}');
        for (const text of texts) socket.send(text);
      },
    },
    { protocol: 'twilio' },
  );
  const endless = new Line({
    onText: ({ event }, socket) => {
      if (event === 'start') for (let n = 0; n < 500; n++) socket.send('nonsense');
    },
  });

  it.each<[string, Line]>([
    ['raw', once],
    ['twilio', twilio],
  ])('(%s): one warning of each kind, and the call goes on', async (protocol, line) => {
    await undisturbed(scene, async () => {
      const caller = await TalkingCaller.call(scene.ends, line.number);
      if (protocol === 'raw') await caller.phone.until(() => caller.loud > 20, 'its own words');
      else await sleep(500);
      await caller.bye();
      const { ending, events } = await record(caller.far);
      expect(ending).toBe('completed normal_clearing caller');
      const codes = ofType(events, 'agent.warning').map(({ data }) => data.code);
      expect(codes.length).toBeGreaterThan(0);
      expect(codes.length).toBe(new Set(codes).size);
      expect(({} as { event?: string }).event).toBeUndefined();
    });
  });

  it('half samples: each waits for its other half', async () => {
    await undisturbed(scene, async () => {
      const caller = await TalkingCaller.call(scene.ends, odd.number);
      await caller.phone.until(() => caller.loud > 30, 'its own words');
      await caller.bye();
      const { ending, events } = await record(caller.far);
      expect(ending).toBe('completed normal_clearing caller');
      expect(ofType(events, 'agent.warning')).toEqual([]);
      // A sample that was put together wrongly would be any byte; these are whole packets of one.
      const heard = caller.phone.heard.slice(5).filter(({ payload }) => payload.some((byte) => byte !== 0xff));
      const odd1 = heard
        .flatMap(({ payload }) => [...payload])
        .filter((byte) => byte < 1 || (byte > 100 && byte !== 0xff));
      expect(odd1).toEqual([]);
    });
  });

  it('without end: the agent has failed, and the caller hears BYE', async () => {
    await undisturbed(scene, async () => {
      const caller = await TalkingCaller.call(scene.ends, endless.number);
      await caller.far.ended();
      caller.close();
      const { ending, events } = await record(caller.far);
      expect(ending).toBe('failed agent_error agent');
      expect(ofType(events, 'agent.warning').map(({ data }) => data.code)).toEqual(['bad_json']);
    });
  });
});

/** Speaks in pieces of 20 ms at that pace, each up to `jitterMs` late. */
function speaks(socket: WebSocket, pace: number, jitterMs: number): void {
  const startMs = performance.now();
  let piece = 0;
  let seed = 1;
  const next = () => {
    if (socket.readyState !== socket.OPEN) return;
    socket.send(Buffer.alloc(160, 0x20));
    piece += 1;
    seed = (seed * 48271) % 0x7fffffff;
    setTimeout(next, startMs + (piece * 20) / pace + (seed / 0x7fffffff) * jitterMs - performance.now());
  };
  next();
}

describe('P7: an agent that reads nothing', () => {
  const line = new Line({
    onText: ({ event }, socket) => {
      if (event !== 'start') return;
      socket.pause();
      speaks(socket, 1, 0);
    },
  });
  it('and talks: it is heard, nothing piles up, and the hang-up works', async () => {
    await undisturbed(scene, async () => {
      const before = process.memoryUsage().rss;
      const caller = await TalkingCaller.call(scene.ends, line.number);
      await caller.phone.until(() => caller.loud > 150, 'three seconds of it', 8000);
      expect((process.memoryUsage().rss - before) / 2 ** 20).toBeLessThan(40);
      await caller.bye();
      expect((await record(caller.far)).ending).toBe('completed normal_clearing caller');
    });
  });
});

describe('P8: an agent that jitters by 8 ms', () => {
  const [fast, slow] = [1.02, 0.98].map(
    (pace) => new Line({ onText: ({ event }, socket) => void (event === 'start' && speaks(socket, pace, 8)) }),
  );
  it('at 1.02 and at 0.98 times the pace: timestamps without a gap, no hole longer than a moment', async () => {
    await undisturbed(scene, async () => {
      const callers = await Promise.all([fast!, slow!].map(({ number }) => TalkingCaller.call(scene.ends, number)));
      await sleep(5000); // real time: what drifts at 2 % shows in five seconds
      for (const caller of callers) {
        await caller.bye();
        const { heard } = caller.phone;
        const steps = heard.slice(1).map(({ timestamp }, i) => (timestamp - heard[i]!.timestamp) >>> 0);
        expect(new Set(steps)).toEqual(new Set([160]));
        const isLoud = heard.map(({ payload }) => payload.some((byte) => byte !== 0xff));
        const spoken = isLoud.slice(isLoud.indexOf(true), isLoud.lastIndexOf(true));
        expect(spoken.filter(Boolean).length / spoken.length).toBeGreaterThan(0.9);
        expect((await record(caller.far)).ending).toBe('completed normal_clearing caller');
      }
    });
  });
});

const say = (socket: WebSocket, ...events: Record<string, unknown>[]) => {
  for (const event of events) socket.send(JSON.stringify(event));
};
const everything = [
  ...[{ event: 'hangup' }, { event: 'hangup' }, { event: 'transfer', to: '+15005550299' }],
  ...[{ event: 'dtmf', digits: '1' }, { event: 'clear' }, { event: 'mark', name: 'late' }, { event: 'hangup' }],
];
/** As the far end saw them, repetitions apart. */
const byes = (call: FarCall) =>
  new Set(call.received.filter(({ startLine }) => startLine.startsWith('BYE')).map((bye) => bye.get('cseq'))).size;

describe('P9: an agent that asks for things after the end', () => {
  const line = new Line({
    onText: ({ event }, socket) => {
      if (event !== 'stop') return;
      socket.send(Buffer.alloc(3200, 0x20));
      say(socket, ...everything);
    },
  });
  it('gets nothing: no second end, no BYE, no transfer', async () => {
    await undisturbed(scene, async () => {
      const caller = await TalkingCaller.call(scene.ends, line.number);
      await caller.bye();
      const { ending, events } = await record(caller.far);
      await sleep(300); // real time: nothing may follow
      expect(ending).toBe('completed normal_clearing caller');
      expect(byes(caller.far)).toBe(0);
      expect(events.filter(({ type }) => /^(transfer|mark|dtmf)/.test(type))).toEqual([]);
    });
  });
});

describe('P10: hang-ups at once', () => {
  const sockets: WebSocket[] = [];
  const line = new Line({ onText: ({ event }, socket) => void (event === 'start' && sockets.push(socket)) });
  async function started(): Promise<[FarCall, WebSocket]> {
    const call = scene.ends.call(line.number);
    expect(await call.final()).toBe(200);
    await expect.poll(() => sockets.length).toBe(1);
    return [call, sockets.pop()!];
  }
  beforeAll(() => void sockets.splice(0));

  it('of the agent, three and a transfer between them: one BYE, one end', async () => {
    await undisturbed(scene, async () => {
      const [call, socket] = await started();
      say(socket, ...everything);
      await call.ended();
      expect((await record(call)).ending).toBe('completed agent_hangup agent');
      expect(byes(call)).toBe(1);
    });
  });

  it('of the agent and of the caller, 0 to 20 ms apart: one end', async () => {
    await undisturbed(scene, async () => {
      for (let afterMs = 0; afterMs <= 20; afterMs += 2) {
        const [call, socket] = await started();
        say(socket, { event: 'hangup' }, { event: 'hangup' });
        await sleep(afterMs);
        await call.bye();
        expect((await record(call)).ending).toMatch(/^completed (agent_hangup agent|normal_clearing caller)$/);
        expect(byes(call)).toBeLessThanOrEqual(1);
      }
    });
  });

  it('of the agent, 0 to 20 ms around a re-INVITE: both are answered, one BYE', async () => {
    await undisturbed(scene, async () => {
      for (let afterMs = -20; afterMs <= 20; afterMs += 4) {
        const [call, socket] = await started();
        const reInvite = () => call.send(call.write('INVITE', 2, { body: farSdp }));
        if (afterMs < 0) reInvite();
        if (afterMs < 0) await sleep(-afterMs);
        say(socket, { event: 'hangup' }, { event: 'hangup' });
        if (afterMs >= 0) await sleep(afterMs);
        if (afterMs >= 0) reInvite();
        expect([200, 481, 487, 491, 500]).toContain(await call.answerTo('INVITE', 2));
        await call.ended();
        expect((await record(call)).ending).toBe('completed agent_hangup agent');
        expect(byes(call)).toBe(1);
      }
    });
  });
});
