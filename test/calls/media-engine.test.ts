import { createSocket } from 'node:dgram';
import { afterEach, describe, expect, it } from 'vitest';
import { type EchoAgent, startEchoAgent } from '../../examples/echo-agent/index.js';
import type { MediaEngine, MediaSession } from '../../media/engine.js';
import { EmbeddedEngine } from '../../media/thread/main-side/engine.js';
import { agentTarget, eventually, sessionOptions, startTestEngine } from '../support/media-engine.js';
import { gatewayPorts, portPairs } from '../support/port-ranges.js';
import { RtpPhone } from '../support/rtp-phone.js';

const signal = () => new AbortController().signal;
const frame = (value: number) => new Uint8Array(160).fill(value);
const toClose: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of toClose.splice(0).reverse()) await close();
});

async function start(options: Parameters<typeof startTestEngine>[0] = {}): Promise<MediaEngine> {
  const engine = await startTestEngine(options);
  toClose.push(() => engine.close());
  return engine;
}

async function aPhone(address?: string): Promise<RtpPhone> {
  const phone = await RtpPhone.open(address);
  toClose.push(() => phone.close());
  return phone;
}

async function echoAgent(): Promise<EchoAgent> {
  const echo = await startEchoAgent({ port: 0 });
  toClose.push(() => echo.close());
  return echo;
}

describe('threads', () => {
  it('keep a group together and share the groups out', async () => {
    const engine = await start({ threads: 2 });
    for (const group of ['a', 'b', 'a', 'a', 'c']) await engine.open(sessionOptions({ group }));
    expect(
      engine
        .load()
        .threads.map((thread) => thread.sessions)
        .sort(),
    ).toEqual([2, 3]);
    expect(engine.load()).toMatchObject({ sessions: 5, ports: { used: 5 } });
  });

  it('one carries 100 calls at once', { timeout: 60_000 }, async () => {
    const engine = await start({ rtpPorts: gatewayPorts });
    const echo = await echoAgent();
    const calls = await Promise.all(
      Array.from({ length: 100 }, async (_, i) => {
        const phone = await aPhone();
        const session = await engine.open(sessionOptions({ offer: phone.sdp() }));
        phone.dial(session.localSdp);
        const link = await session.prepareAgent(agentTarget(echo.urls.raw, { connectTimeoutMs: 20_000 }), signal());
        session.attach(link);
        link.start();
        return { phone, session, byte: i };
      }),
    );
    expect(engine.load().threads).toMatchObject([{ sessions: 100, alive: true }]);
    await Promise.all(calls.map(({ phone, byte }) => phone.talk(30, () => frame(byte))));
    const said = (call: (typeof calls)[number]) =>
      call.phone.heard.filter((packet) => packet.payload[80] === call.byte);
    await eventually(() => calls.every((call) => said(call).length >= 10), 'every call to hear itself', 15_000);
    for (const call of calls) {
      // A frame of another call has one value throughout; what bridges a gap between frames fades.
      const strange = call.phone.heard.filter(
        ({ payload: [first, ...rest] }) =>
          first !== call.byte && first !== 0xff && rest.every((byte) => byte === first),
      );
      expect(strange).toEqual([]);
    }
    const stats = await Promise.all(calls.map(({ session }) => session.close()));
    expect(stats.every(({ received }) => received.packets === 30 && received.lost === 0)).toBe(true);
    await eventually(() => engine.load().ports.quarantined === 0, 'the ports', 20_000);
    expect(engine.load()).toMatchObject({ sessions: 0, faults: 0, ports: { used: 0, total: 500 } });
    await eventually(() => echo.connections() === 0, 'the agents to be gone');
  });

  it('that dies ends its sessions and no others, and is replaced', async () => {
    const logged: string[] = [];
    const log = { warn: () => {}, error: (_fields: object, text: string) => logged.push(text) };
    const engine = new EmbeddedEngine({
      threads: 2,
      rtpPorts: portPairs(20),
      quarantineMs: 50,
      takenPortRetryMs: 30_000,
      log,
    });
    toClose.push(() => engine.close());
    await engine.ready;
    const echo = await echoAgent();
    const [phone, other] = [await aPhone(), await aPhone()];
    const doomed = await engine.open(sessionOptions({ offer: phone.sdp(), group: 'doomed' }));
    const link = await doomed.prepareAgent(agentTarget(echo.urls.raw), signal());
    doomed.attach(link);
    const safe = await engine.open(sessionOptions({ offer: other.sdp(), group: 'safe' }));
    other.dial(safe.localSdp);
    safe.attach(null);
    const pending = doomed.sendDtmf('wwwwwwwwww');
    pending.catch(() => {});
    await engine.crash(0);
    expect(await doomed.lost).toBe('engine-gone');
    await expect(pending).rejects.toMatchObject({ code: 'engine_gone' });
    expect(await link.ended).toMatchObject({ by: 'failed' });
    await expect(doomed.answer(phone.sdp())).rejects.toMatchObject({ code: 'engine_gone' });
    expect(await doomed.close()).toMatchObject({ received: { packets: 0, mos: null } });
    expect(logged).toEqual(['media thread died']);
    await other.talk(5, () => frame(1));
    expect((await safe.stats()).received.packets).toBe(5);
    await eventually(() => engine.load().threads.every((thread) => thread.alive), 'the replacement');
    expect(engine.load()).toMatchObject({ sessions: 1, threadsReplaced: 1 });
    const again = await engine.open(sessionOptions({ offer: phone.sdp(), group: 'doomed' }));
    phone.dial(again.localSdp);
    again.attach(null);
    await phone.until(() => phone.heard.length > 3, 'RTP of the new thread');
    await Promise.all([again.close(), safe.close()]);
    await eventually(() => engine.load().ports.quarantined === 0, 'the ports');
    expect(engine.load().ports).toEqual({ used: 0, quarantined: 0, total: 20 });
    await eventually(() => echo.connections() === 0, 'the agent of the dead thread to be gone');
  });

  it('that is closed ends its sessions in order, and opens no more', async () => {
    const engine = await start();
    const phone = await aPhone();
    const session = await engine.open(sessionOptions({ offer: phone.sdp() }));
    session.attach(null);
    await engine.close();
    expect(await session.close()).toMatchObject({ codec: 'PCMU' });
    await expect(engine.open(sessionOptions())).rejects.toMatchObject({ code: 'engine_gone' });
    await engine.close();
  });

  it('tells how late its event loop is', async () => {
    const engine = await start();
    await eventually(() => engine.load().threads[0]!.eventLoopLagMs > 0, 'a figure', 4000);
    expect(engine.load().threads[0]!.eventLoopLagMs).toBeLessThan(1000);
  });
});

describe('ports', () => {
  it('run out with a clear error, and come back', async () => {
    const engine = await start({ rtpPorts: portPairs(3) });
    const sessions: MediaSession[] = [];
    for (let i = 0; i < 3; i++) sessions.push(await engine.open(sessionOptions()));
    await expect(engine.open(sessionOptions())).rejects.toMatchObject({ name: 'MediaError', code: 'no_ports' });
    expect(engine.load()).toMatchObject({ sessions: 3, ports: { used: 3, quarantined: 0, total: 3 } });
    await sessions[0]!.close();
    await eventually(() => engine.load().ports.quarantined === 0, 'the port');
    await engine.open(sessionOptions());
  });

  it('that another process has are skipped', async () => {
    const range = portPairs(4);
    const squatters = await Promise.all(
      [range.from, range.from + 3].map(
        (port) =>
          new Promise<ReturnType<typeof createSocket>>((resolve, reject) => {
            const socket = createSocket('udp4');
            socket.once('error', reject);
            socket.bind(port, '127.0.0.1', () => resolve(socket));
          }),
      ),
    );
    toClose.push(() => squatters.map((socket) => socket.close()));
    const engine = await start({ rtpPorts: range });
    const ports = [];
    for (let i = 0; i < 2; i++) {
      ports.push(Number(/m=audio (\d+)/.exec(await (await engine.open(sessionOptions())).offer())?.[1]));
    }
    expect(ports).toEqual([range.from + 4, range.from + 6]);
    await expect(engine.open(sessionOptions())).rejects.toMatchObject({ code: 'no_ports' });
    expect(engine.load().ports).toEqual({ used: 2, quarantined: 2, total: 4 });
  });

  it('are given back at once when the offer is refused', async () => {
    const engine = await start({ quarantineMs: 60_000 });
    const phone = await aPhone();
    await expect(engine.open(sessionOptions({ offer: phone.sdp({ codecs: '3' }) }))).rejects.toMatchObject({
      code: 'incompatible_media',
    });
    await expect(engine.open(sessionOptions({ localAddress: '203.0.113.1' }))).rejects.toMatchObject({
      code: 'no_ports',
      message: 'RTP sockets cannot be opened on 203.0.113.1 (EADDRNOTAVAIL).',
    });
    expect(engine.load()).toMatchObject({ sessions: 0, ports: { used: 0, quarantined: 0 } });
  });

  it('rest until the old peer is quiet: the next call never hears it', async () => {
    const engine = await start({ rtpPorts: portPairs(1), quarantineMs: 1000 });
    const old = await aPhone();
    const first = await engine.open(sessionOptions({ offer: old.sdp() }));
    old.dial(first.localSdp);
    first.attach(null);
    await old.talk(3, () => frame(66));
    await first.close();
    expect(engine.load().ports).toEqual({ used: 0, quarantined: 1, total: 1 });
    // It goes on sending for longer than the quarantine.
    await old.talk(75, () => frame(66));
    expect(engine.load().ports.quarantined).toBe(1);
    await expect(engine.open(sessionOptions())).rejects.toMatchObject({ code: 'no_ports' });
    await eventually(() => engine.load().ports.quarantined === 0, 'the end of the quarantine');
    const second = await engine.open(sessionOptions({ offer: old.sdp() }));
    expect((await second.stats()).received.packets).toBe(0);
  });
});
