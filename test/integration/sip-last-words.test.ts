/** The SIP server dies while a call is being answered: what it still told counts, and the far end is told by its successor. */
import { EventEmitter, once } from 'node:events';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { openSipGateway } from '../../sip/gateway.js';
import type { CallLeg } from '../../sip/leg.js';
import { type ControlConnection, ControlServer, metaFields, type SipFrame } from '../../sip/server/control/control.js';
import { parseMessage, SipRequest, type SipResponse } from '../../sip/server/message/message.js';
import { writeResponse } from '../../sip/server/message/write.js';
import type { InviteToRefuse } from '../../sip/server/protocol.js';
import type { SipServer } from '../../sip/server/start.js';
import { TrunkTable } from '../../sip/trunk/trunk-table.js';
import { someSdp } from '../support/bare-sip-peer.js';
import { loopbackTrunk, within } from '../support/sip-gateway.js';

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const contact = { name: 'contact', value: '<sip:127.0.0.1:5060>' };
const source = { address: '127.0.0.1', port: 5999 };
const invite = parseMessage(
  Buffer.from(
    [
      ...['INVITE sip:+15552223333@127.0.0.1 SIP/2.0', 'Via: SIP/2.0/UDP 127.0.0.1:5999;branch=z9hG4bKone;rport=5999'],
      ...['Max-Forwards: 70', 'From: <sip:+1555@far>;tag=theirs', 'To: <sip:+15552223333@us>', 'Call-ID: c1'],
      ...['CSeq: 1 INVITE', 'Contact: <sip:far@127.0.0.1:5999>', 'Record-Route: <sip:127.0.0.9;lr>'],
      ...['Content-Type: application/sdp', `Content-Length: ${someSdp.length}`, '', someSdp],
    ].join('\r\n'),
  ),
) as SipRequest;

/** A SIP server whose every word is the test's: the control connection is a real one, behind it is nobody. */
class ScriptedServer extends EventEmitter<{ frame: [ControlConnection, SipFrame] }> {
  readonly refused: InviteToRefuse[] = [];
  private control: ControlServer | null = null;
  die: () => void = () => undefined;

  async start(): Promise<SipServer> {
    const listens = 'udp/127.0.0.1:5060';
    const user = {
      ...{ hostports: () => listens, gone: () => undefined },
      sip: (app: ControlConnection, frame: SipFrame) => void this.emit('frame', app, frame),
    };
    this.control = await ControlServer.listen('127.0.0.1', 'secret', user);
    const stats = () => Promise.reject(new Error('none'));
    return {
      control: { host: '127.0.0.1', port: this.control.port, secret: 'secret' },
      addresses: [{ transport: 'udp', host: '127.0.0.1', port: 5060 }],
      died: new Promise((resolve) => {
        this.die = () => resolve(new Error('for the test'));
      }),
      ...{
        stats,
        takenUp: () => undefined,
        trust: () => undefined,
        secure: () => undefined,
        cancelInvite: () => undefined,
        close: () => this.hangUp(),
      },
      refuse: (each) => void this.refused.push(each),
    };
  }

  async next(wanted: string | number): Promise<{ app: ControlConnection; frame: SipFrame }> {
    for (;;) {
      const [app, frame] = await within(
        once(this, 'frame') as Promise<[ControlConnection, SipFrame]>,
        8000,
        `${wanted}`,
      );
      const { message } = frame;
      if (wanted === (message instanceof SipRequest ? message.method : message?.status)) return { app, frame };
    }
  }

  async hear(): Promise<void> {
    await expect.poll(() => this.control?.appFor('INVITE')).toBeTruthy();
    const heard = metaFields('network', invite.raw.length, 'udp', source.address, source.port);
    this.control?.appFor('INVITE')?.deliver(`sip|${heard}|t1||127.0.0.1|5060|`, invite.raw);
  }

  /** "Sent": the answer as it went out. */
  confirm({ app, frame }: { app: ControlConnection; frame: SipFrame }): void {
    const { status, reason, body } = frame.message as SipResponse;
    const bytes = writeResponse(invite, { status, reason, source, toTag: 'ours', extra: [contact], body });
    const sent = metaFields('application', bytes.length, 'udp', source.address, source.port);
    app.ok(frame.messageId, `${sent}|t1|c1;from-tag=theirs||Msg sent:|`, bytes);
  }

  async hangUp(): Promise<void> {
    await this.control?.close();
  }
}

const { servers } = vi.hoisted(() => ({ servers: [] as { start(): Promise<unknown> }[] }));
vi.mock('../../sip/server/start.js', () => ({ startSipServer: () => servers.shift()?.start() }));

let first: ScriptedServer;
let second: ScriptedServer;
let gateway: Awaited<ReturnType<typeof openSipGateway>>;
let answer: Promise<CallLeg>;
let leave: () => void;

beforeEach(async () => {
  [first, second] = [new ScriptedServer(), new ScriptedServer()];
  servers.push(first, second);
  const trunks = new TrunkTable();
  trunks.replace([loopbackTrunk]);
  const listen = [{ transport: 'udp' as const, host: '127.0.0.1', port: 5060 }];
  gateway = await openSipGateway({ server: { kind: 'embedded', listen }, trunks, log: silent });
  gateway.onIncomingCall(async (call) => {
    await call.ring();
    answer = call.answer(someSdp);
    answer.catch(() => undefined);
    await new Promise<void>((resolve) => {
      leave = resolve;
    });
  });
  await first.hear();
  first.confirm(await first.next(180));
});
afterEach(async () => {
  leave();
  await gateway.stop(0);
  await Promise.all([first.hangUp(), second.hangUp()]);
  servers.length = 0;
});

/** The BYE of the successor, by which the far end knows its dialog. */
async function lastBye() {
  const { app, frame } = await second.next('BYE');
  app.refuse(frame.messageId, 'it was only to be seen');
  const bye = frame.message as SipRequest;
  return { from: bye.fromTag, to: bye.toTag, uri: bye.uri, route: bye.get('route'), reason: bye.get('reason') };
}
const toTheFarEnd = {
  ...{ from: 'ours', to: 'theirs', uri: 'sip:far@127.0.0.1:5999', route: '<sip:127.0.0.9;lr>' },
  reason: expect.stringContaining('signalling_lost'),
};

it('the 200 may be sent and nobody said so: BYE in case it was, and a refusal in case it was not', async () => {
  await first.next(200);
  const bye = lastBye();
  first.die();
  await first.hangUp();
  await expect(within(answer)).rejects.toMatchObject({ hangupCause: 'signalling_lost' });
  expect(await bye).toEqual(toTheFarEnd);
  expect(second.refused).toMatchObject([{ localTag: 'ours', peer: { transport: 'udp', port: 5999 } }]);
  expect(gateway.counters().activeLegs).toBe(0);
});

it('its last word is that the 200 was sent: an answered call, whose end the far end hears once', async () => {
  const answering = await first.next(200);
  const byes = vi.fn();
  second.on('frame', (_app, { message }) => message instanceof SipRequest && message.method === 'BYE' && byes());
  const bye = lastBye();
  first.die(); // the thread's end is known before its connection was read
  await new Promise((resolve) => setImmediate(resolve));
  first.confirm(answering);
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  await first.hangUp();
  const leg = await within(answer);
  expect(await within(leg.ended)).toEqual({ cause: 'signalling_lost', by: 'system' });
  expect(await bye).toEqual(toTheFarEnd);
  expect(second.refused).toEqual([]);
  await expect.poll(() => gateway.connected).toBe(true);
  expect(byes).toHaveBeenCalledTimes(1);
});
