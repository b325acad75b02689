import { createServer, type Server, type Socket } from 'node:net';
import { Worker } from 'node:worker_threads';
import { describe, expect, it, vi } from 'vitest';
import { openSipGateway } from '../../sip/gateway.js';
import { startSipServer } from '../../sip/server/start.js';
import { TrunkTable } from '../../sip/trunk/trunk-table.js';
import { SipPeer, someSdp } from '../support/bare-sip-peer.js';
import { freePort } from '../support/port-ranges.js';
import { loopbackTrunk, openTestGateway, within } from '../support/sip-gateway.js';

const silent = { debug() {}, info() {}, warn() {}, error() {} };

describe('connecting', () => {
  const external = (port: number, secret: string, limitMs = 2000, signal?: AbortSignal) =>
    openSipGateway({
      server: { kind: 'drachtio', servers: [{ host: '127.0.0.1', port, secret }] },
      ...{ trunks: new TrunkTable(), log: silent, connectLimitMs: limitMs, signal },
    });

  it('to a port where nobody listens: one sentence, and it is waited for', async () => {
    const port = await freePort();
    const gateway = await external(port, 'x', 300);
    expect([gateway.connected, gateway.addresses]).toEqual([false, []]);
    expect(gateway.problems).toEqual([
      `The SIP server's control port 127.0.0.1:${port} cannot be reached: connection refused.`,
    ]);
    await gateway.stop(0);
  });

  it('with a wrong secret: one sentence, at once', async () => {
    const server = await startSipServer({ listen: [{ transport: 'udp', host: '127.0.0.1', port: 0 }] });
    await expect(within(external(server.control.port, 'wrong'))).rejects.toThrow(/refused our secret\.$/);
    await server.close();
  });

  it('to a silent server: given up after the limit, or on abort', async () => {
    const sockets = new Set<Socket>();
    const mute: Server = createServer((socket) => sockets.add(socket));
    const port = await new Promise<number>((resolve) =>
      mute.listen(0, '127.0.0.1', () => {
        const address = mute.address();
        resolve(typeof address === 'object' && address ? address.port : 0);
      }),
    );
    const gateway = await external(port, 'x', 200);
    expect(gateway.problems).toEqual([expect.stringMatching(/did not answer in time\.$/)]);
    await gateway.stop(0);
    const giveUp = new AbortController();
    setTimeout(() => giveUp.abort(), 50);
    await expect(external(port, 'x', 5000, giveUp.signal)).rejects.toMatchObject({ code: 'cancelled' });
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => mute.close(resolve));
  });

  it('embedded on a port that is taken: one sentence with the port', async () => {
    const first = await openTestGateway();
    await expect(
      openSipGateway({
        server: { kind: 'embedded', listen: [{ transport: 'udp', host: '127.0.0.1', port: first.port }] },
        ...{ trunks: new TrunkTable(), log: silent },
      }),
    ).rejects.toThrow(String(first.port));
    await first.close();
  });

  it('to an external server, and again after the connection broke', async () => {
    const server = await startSipServer({
      listen: [{ transport: 'udp', host: '127.0.0.1', port: 0 }],
      timersMs: { t1: 25, t2: 100, t4: 50 },
    });
    // A relay in between, so that the connection can be cut.
    const cut = new Set<Socket>();
    const { connect } = await import('node:net');
    const relay = createServer((socket) => {
      const onward = connect(server.control.port, '127.0.0.1');
      for (const [from, to] of [
        [socket, onward],
        [onward, socket],
      ] as const) {
        cut.add(from);
        from.on('error', () => undefined);
        from.on('close', () => to.destroy());
        from.pipe(to);
      }
    });
    const port = await freePort();
    await new Promise<void>((resolve) => relay.listen(port, '127.0.0.1', resolve));
    const trunks = new TrunkTable();
    trunks.replace([loopbackTrunk]);
    const gateway = await openSipGateway({
      server: { kind: 'drachtio', servers: [{ host: '127.0.0.1', port, secret: server.control.secret }] },
      ...{ trunks, log: silent },
    });
    expect(gateway.addresses).toEqual(server.addresses);
    const called = vi.fn(async (call: { reject(r: { status: number }): void }) => call.reject({ status: 486 }));
    gateway.onIncomingCall(called);
    const peer = await SipPeer.open(server.addresses[0]?.port ?? 0);
    const once = async () => {
      const invite = peer.invite();
      peer.ackFailure(invite, await peer.next(486));
    };
    await once();
    for (const socket of cut) socket.destroy();
    await within(until(() => !gateway.connected));
    await expect(
      gateway.dial(
        { to: '1', from: '2', gateways: [], offerFor: async () => '', ringTimeoutMs: 1 },
        new AbortController().signal,
      ),
    ).rejects.toMatchObject({ code: 'not_connected' });
    await within(until(() => gateway.connected));
    await once();
    expect(called).toHaveBeenCalledTimes(2);
    await gateway.stop(0);
    await peer.close();
    for (const socket of cut) socket.destroy();
    await new Promise((resolve) => relay.close(resolve));
    await server.close();
  });
});

describe('a server that no longer speaks', () => {
  it('is hung up on after some missed heartbeats', async () => {
    const sockets = new Set<Socket>();
    // It takes every secret, and then answers nothing at all.
    const deaf = createServer((socket) => {
      sockets.add(socket);
      socket.once('data', (data) => {
        const id = /#([^|]+)\|authenticate/.exec(data.toString())?.[1];
        const answer = `m1|response|${id}|OK|udp/127.0.0.1:5060|v0.9.10|udp/127.0.0.1:5060`;
        socket.write(`${answer.length}#${answer}`);
      });
      socket.on('error', () => undefined);
    });
    const port = await freePort();
    await new Promise<void>((resolve) => deaf.listen(port, '127.0.0.1', resolve));
    const gateway = await openSipGateway({
      server: { kind: 'drachtio', servers: [{ host: '127.0.0.1', port, secret: 'x' }] },
      ...{ trunks: new TrunkTable(), log: silent, heartbeatMs: 30 },
    });
    expect(gateway.connected).toBe(true);
    await within(until(() => !gateway.connected));
    await gateway.stop(0);
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => deaf.close(resolve));
  });
});

describe('the embedded server', () => {
  it('dies: calls end as lost, and it comes back on the same port', async () => {
    const us = await openTestGateway();
    us.collectCalls();
    const peer = await SipPeer.open(us.port);
    const invite = peer.invite();
    const leg = await (await us.nextCall()).answer(someSdp);
    peer.request('ACK', invite, [], '', await peer.next(200));
    await within(leg.confirmed);
    const unanswered = peer.invite();
    const call = await us.nextCall();
    await call.ring();
    const ringing = await peer.next(180);
    const carrier = await SipPeer.open(us.port);
    const dialled = us.dial('+1555', `sip:127.0.0.1:${carrier.port}`).catch((error: unknown) => error);
    const dialling = await carrier.next('INVITE');
    // a server that dies before it has said what it sent leaves nothing to cancel
    await within(until(() => us.gateway.trace(dialling.header('call-id')).length > 0));

    await terminateWorker(() => us.gateway.serverStats());
    expect(await within(leg.ended)).toEqual({ cause: 'signalling_lost', by: 'system' });
    await within(until(() => call.cancelled.aborted));
    expect(call.cancelled.reason).toMatchObject({ hangupCause: 'signalling_lost' });
    expect(await within(dialled)).toMatchObject({ code: 'unreachable' });
    expect(us.gateway.connected).toBe(false);
    expect(us.gateway.counters().activeLegs).toBe(0);
    await within(leg.hangup());

    // who heard the ringing hears its end, who was answered the end of the call
    const refused = await peer.next(503);
    expect(refused.header('to')).toBe(ringing.header('to'));
    peer.ackFailure(unanswered, refused);
    peer.respond(await peer.next('BYE'), 200);
    // and whom we were calling hears that we do not want it any more
    const cancel = await carrier.next('CANCEL');
    expect(cancel.header('via')).toBe(dialling.header('via'));
    carrier.respond(cancel, 200);
    carrier.respond(dialling, 487);
    await carrier.next('ACK');

    await within(until(() => us.gateway.connected));
    const again = peer.invite();
    (await us.nextCall()).reject({ status: 486 });
    peer.ackFailure(again, await peer.next(486));
    await us.expectNothingLeft();
    await peer.close();
    await carrier.close();
    await us.close();
  });

  it('stops: rings are refused, calls hung up, dialling cancelled, and the port is free again', async () => {
    const us = await openTestGateway();
    us.collectCalls();
    const peer = await SipPeer.open(us.port);
    const invite = peer.invite();
    const leg = await (await us.nextCall()).answer(someSdp);
    peer.request('ACK', invite, [], '', await peer.next(200));
    await within(leg.confirmed);
    const ringing = peer.invite();
    await us.nextCall();
    const dialled = us.dial('+1555', `sip:127.0.0.1:${peer.port}`).catch((error: unknown) => error);
    const outgoing = await peer.next('INVITE');
    await us.afterReading(() => peer.respond(outgoing, 180));

    const stopped = us.gateway.stop(50);
    expect(us.gateway.stop(50)).toBe(stopped);
    peer.ackFailure(ringing, await peer.next(503));
    const bye = await peer.next('BYE');
    expect(bye.header('reason')).toContain('system_shutdown');
    peer.respond(bye, 200);
    peer.respond(await peer.next('CANCEL'), 200);
    peer.respond(outgoing, 487);
    await within(stopped);
    await within(dialled);
    expect(await leg.ended).toMatchObject({ cause: 'system_shutdown', by: 'local' });
    expect(us.gateway.connected).toBe(false);
    const next = await startSipServer({ listen: [{ transport: 'udp', host: '127.0.0.1', port: us.port }] });
    await next.close();
    await peer.close();
    await us.close();
  });

  it('stops at once when nothing is left to wait for', async () => {
    const us = await openTestGateway();
    const startedMs = performance.now();
    await us.gateway.stop(60_000);
    expect(performance.now() - startedMs).toBeLessThan(5000);
    await us.close();
  });
});

/** The worker of a server is nobody's business but in this test: it is seen when the server talks to it. */
async function terminateWorker(talk: () => Promise<unknown>): Promise<void> {
  let worker: Worker | undefined;
  const spy = vi.spyOn(Worker.prototype, 'postMessage').mockImplementation(function (this: Worker) {
    worker = this;
  });
  void talk().catch(() => undefined);
  spy.mockRestore();
  await worker?.terminate();
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}
