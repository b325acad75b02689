import type { EventEmitter } from 'node:events';
import type Srf from 'drachtio-srf';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { SipRequest, SipResponse } from '../../sip/server/message/message.js';
import { SipPeer } from '../support/sip-peer.js';
import { connect, openTestServer, SDP, type TestServer } from '../support/sip-server.js';

let t: TestServer;
let peer: SipPeer;

beforeAll(async () => {
  t = await openTestServer({ limits: { subscriptions: 2 } });
});
beforeEach(async () => {
  peer = await SipPeer.open(t.port);
  t.srf = await connect(t.server);
});
afterEach(async () => {
  t.srf.disconnect();
  await peer.close();
});
afterAll(async () => {
  t.srf = await connect(t.server);
  await t.idle(); // no dialog and no timer of a subscription stays
  await t.close();
});

type Sent = Srf.SrfResponse;
/** The library's types know its calls, not its subscriptions. */
interface SubscriptionDialog extends EventEmitter {
  id: string;
  request(options: Record<string, unknown>): Promise<Sent>;
  destroy(): Promise<unknown>;
}
type Headers = Record<string, string>;

/** The application accepts every SUBSCRIBE; the dialog of the first. */
function accepting(headers: Headers = {}): Promise<SubscriptionDialog> {
  return new Promise((resolve, reject) => {
    t.srf.use('subscribe', (req, res) => {
      (t.srf.createUAS as unknown as (...of: unknown[]) => Promise<SubscriptionDialog>)
        .call(t.srf, req, res, { headers })
        .then(resolve, reject);
    });
  });
}

const subscribe = (headers: Headers = {}) =>
  (
    t.srf as unknown as { createUAC(uri: string, options: Record<string, unknown>): Promise<SubscriptionDialog> }
  ).createUAC(`sip:bob@127.0.0.1:${peer.port}`, {
    method: 'SUBSCRIBE',
    headers: { Event: 'presence', Expires: '60', ...headers },
  });

const ended = (dialog: SubscriptionDialog): Promise<string> =>
  new Promise((resolve) => dialog.on('destroy', (_message: unknown, reason: string) => resolve(reason)));
const contact = (): Headers => ({ Contact: `<sip:bob@127.0.0.1:${peer.port}>` });
const dialogs = async () => (await t.server.stats()).live.dialogs;

/** The lines that put a request of the peer into the dialog, after its answer to us or ours to it. */
function inside(message: SipResponse | SipRequest, cseq: string): Headers {
  const isOurs = message instanceof SipRequest;
  const [from, to] = isOurs
    ? [`${message.get('to')};tag=peer`, message.get('from')]
    : [message.get('from'), message.get('to')];
  return { From: from!, To: to!, 'Call-ID': message.callId, CSeq: cseq };
}

async function subscribed(lines: Headers = {}, answer: Headers = {}) {
  const accepted = accepting(answer);
  peer.send(peer.request('SUBSCRIBE', { Event: 'presence', Expires: '60', ...lines }));
  const response = await peer.response(202);
  return { dialog: await accepted, response };
}

async function subscribing(headers: Headers = {}, answer: Headers = {}) {
  const dialling = subscribe(headers);
  const request = await peer.requestOf('SUBSCRIBE');
  peer.respond(request, 200, { ...contact(), ...answer });
  return { dialog: await dialling, request };
}

async function notifyOf(state: string): Promise<SipRequest> {
  return (await peer.wait(
    (m) => m instanceof SipRequest && (m.get('subscription-state') ?? '').startsWith(state),
  )) as SipRequest;
}

const answer = (request: SipRequest, status = 200) => peer.respond(request, status);
const notify = (dialog: SubscriptionDialog, state: string) =>
  dialog.request({ method: 'NOTIFY', headers: { Event: 'presence', 'Subscription-State': state } });

/** Ends what `subscribed` began. */
async function finish(dialog: SubscriptionDialog): Promise<void> {
  void dialog.destroy();
  answer(await notifyOf('terminated'));
}

describe('a subscription to us', () => {
  it('has the name of a dialog, our Contact and its Expires', async () => {
    const { dialog, response } = await subscribed();
    expect(dialog.id).toBe(`${response.callId};from-tag=${response.fromTag}`);
    expect(response.contact?.uri).toBe(`sip:127.0.0.1:${t.port}`);
    expect(response.get('expires')).toBe('60');
    await finish(dialog);
  });

  it.each([
    ['what was asked for', { Expires: '60' }, {}, '60'],
    ['what the application grants', { Expires: '60' }, { Expires: '30' }, '30'],
    ['never more than was asked for', { Expires: '60' }, { Expires: '90' }, '60'],
    ['an hour when nobody says anything', { Expires: '' }, {}, '3600'],
  ])('lasts %s', async (_what, lines, granted, expires) => {
    const { dialog, response } = await subscribed(lines, granted);
    expect(response.get('expires')).toBe(expires);
    await finish(dialog);
  });

  it('is notified of in its dialog until the last NOTIFY is answered', async () => {
    const { dialog, response } = await subscribed();
    const first = notify(dialog, 'active;expires=60');
    const request = await peer.requestOf('NOTIFY');
    expect(request.uri).toBe(`sip:alice@127.0.0.1:${peer.port}`);
    expect([request.fromTag, request.toTag]).toEqual([response.toTag, response.fromTag]);
    expect(request.contact?.uri).toBe(`sip:127.0.0.1:${t.port}`);
    answer(request);
    expect((await first).status).toBe(200);
    expect(await dialogs()).toBe(1);
    const last = notify(dialog, 'terminated;reason=noresource');
    answer(await notifyOf('terminated'));
    expect((await last).status).toBe(200);
    expect(await dialogs()).toBe(0);
  });

  it.each([481, 404, 489])('is over when NOTIFY is answered with %i', async (status) => {
    const { dialog } = await subscribed();
    const sent = notify(dialog, 'active');
    answer(await peer.requestOf('NOTIFY'), status);
    expect((await sent).status).toBe(status);
    expect(await dialogs()).toBe(0);
    await expect(notify(dialog, 'active')).rejects.toThrow('unable to find dialog');
  });

  it('outlives a NOTIFY that is refused for the moment', async () => {
    const { dialog } = await subscribed();
    const sent = notify(dialog, 'active');
    answer(await peer.requestOf('NOTIFY'), 503);
    expect((await sent).status).toBe(503);
    expect(await dialogs()).toBe(1);
    await finish(dialog);
  });

  it('is over when nobody answers NOTIFY', async () => {
    const { dialog } = await subscribed();
    expect((await notify(dialog, 'active')).status).toBe(408);
    expect(await dialogs()).toBe(0);
  });

  it('expires unrefreshed: the far side gets a last NOTIFY, and the application hears of it', async () => {
    const { dialog } = await subscribed({ Expires: '1' });
    const end = ended(dialog);
    const last = await notifyOf('terminated');
    expect([last.get('subscription-state'), last.get('event')]).toEqual(['terminated;reason=timeout', 'presence']);
    answer(last);
    expect(await end).toBe('Subscription expired');
    expect(peer.count((m) => m instanceof SipRequest && m.method === 'BYE')).toBe(0);
  });

  it('is refreshed in its dialog, where the Contact may have moved', async () => {
    const { dialog, response } = await subscribed({ Expires: '1' });
    const other = await SipPeer.open(t.port);
    dialog.on('subscribe', (_req: unknown, res: { send(status: number): void }) => res.send(200));
    peer.send(
      peer.request('SUBSCRIBE', {
        ...inside(response, '2 SUBSCRIBE'),
        Event: 'presence',
        Expires: '60',
        Contact: `<sip:alice@127.0.0.1:${other.port}>`,
      }),
    );
    expect((await peer.response(200, 'SUBSCRIBE')).get('expires')).toBe('60');
    await new Promise((resolve) => setTimeout(resolve, 1200)); // the first expiry is past
    expect(await dialogs()).toBe(1);
    void dialog.destroy();
    const last = await other.requestOf('NOTIFY');
    expect(last.get('subscription-state')).toBe('terminated');
    other.respond(last, 200);
    await other.close();
  });

  it('ends with Expires: 0, and with a last NOTIFY of ours if the application says none', async () => {
    const { dialog, response } = await subscribed();
    const end = ended(dialog);
    peer.send(peer.request('SUBSCRIBE', { ...inside(response, '2 SUBSCRIBE'), Event: 'presence', Expires: '0' }));
    await peer.wait((m) => m instanceof SipResponse && m.cseq?.number === 2 && m.get('expires') === '0');
    answer(await notifyOf('terminated'));
    expect(await end).toBe('Subscription expired');
  });

  it('has no session: what belongs to one is answered 481', async () => {
    const { dialog, response } = await subscribed();
    peer.send(peer.request('INVITE', inside(response, '2 INVITE'), SDP));
    await peer.response(481, 'INVITE');
    peer.send(peer.request('BYE', inside(response, '3 BYE')));
    await peer.response(481, 'BYE');
    expect(await dialogs()).toBe(1);
    await finish(dialog);
  });

  it('leaves nothing when it is refused', async () => {
    t.srf.use('subscribe', (_req, res) => void res.send(489));
    peer.send(peer.request('SUBSCRIBE', { Event: 'presence' }));
    expect((await peer.response(489)).contact).toBeNull();
    expect(await dialogs()).toBe(0);
  });

  it('ends with its application', async () => {
    await subscribed();
    expect(await dialogs()).toBe(1);
    t.srf.disconnect();
    await expect.poll(dialogs).toBe(0);
    t.srf = await connect(t.server);
  });

  it('is refused with 503 when there are too many, and with 482 under the name of another', async () => {
    const first = await subscribed({ 'Call-ID': 'one' });
    peer.send(peer.request('SUBSCRIBE', { Event: 'presence', 'Call-ID': 'one', CSeq: '7 SUBSCRIBE' }));
    await peer.response(482);
    peer.send(peer.request('SUBSCRIBE', { Event: 'presence', 'Call-ID': 'two' }));
    await peer.wait((m) => m instanceof SipResponse && m.callId === 'two' && m.status === 202);
    peer.send(peer.request('SUBSCRIBE', { Event: 'presence', 'Call-ID': 'three' }));
    expect((await peer.response(503)).get('retry-after')).toBeDefined();
    expect(await dialogs()).toBe(2);
    await finish(first.dialog);
  });
});

describe('a subscription of ours', () => {
  it('is notified of in its dialog, and over with the last NOTIFY', async () => {
    const { dialog, request } = await subscribing();
    expect(dialog.id).toBe(`${request.callId};from-tag=${request.fromTag}`);
    const heard: (string | undefined)[] = [];
    dialog.on('notify', (req: { get(name: string): string }, res: { send(status: number): void }) => {
      heard.push(req.get('Subscription-State'));
      res.send(200);
    });
    for (const [cseq, state] of [
      ['1', 'active;expires=60'],
      ['2', 'terminated;reason=noresource'],
    ]) {
      peer.send(
        peer.request('NOTIFY', {
          ...inside(request, `${cseq} NOTIFY`),
          ...contact(),
          Event: 'presence',
          'Subscription-State': state!,
        }),
      );
      await peer.wait((m) => m instanceof SipResponse && m.status === 200 && m.get('cseq') === `${cseq} NOTIFY`);
    }
    expect(heard).toEqual(['active;expires=60', 'terminated;reason=noresource']);
    expect(await dialogs()).toBe(0);
  });

  it('hears a NOTIFY that was faster than the 2xx, once, after it', async () => {
    const dialling = subscribe();
    const request = await peer.requestOf('SUBSCRIBE');
    const early = peer.request('NOTIFY', {
      ...inside(request, '1 NOTIFY'),
      ...contact(),
      Event: 'presence',
      'Subscription-State': 'active',
    });
    peer.send(early);
    peer.send(early);
    peer.respond(request, 200, contact());
    const dialog = await dialling;
    let heard = 0;
    dialog.on('notify', (_req: unknown, res: { send(status: number): void }) => {
      heard++;
      res.send(200);
    });
    await peer.response(200, 'NOTIFY');
    expect(heard).toBe(1);
    void dialog.request({ method: 'SUBSCRIBE', headers: { Event: 'presence', Expires: '0' } });
    const refresh = (await peer.wait((m) => m instanceof SipRequest && m.get('expires') === '0')) as SipRequest;
    peer.respond(refresh, 481);
  });

  it.each([
    ['of another fork', 200, 'other', 'presence'],
    ['of another package', 200, 'peer', 'dialog'],
    ['of a SUBSCRIBE that is refused', 403, 'peer', 'presence'],
  ])('a NOTIFY %s is answered 481', async (_what, status, tag, event) => {
    const dialling = subscribe({ Expires: '1' }).catch(() => null);
    const request = await peer.requestOf('SUBSCRIBE');
    peer.send(
      peer.request('NOTIFY', {
        ...inside(request, '1 NOTIFY'),
        From: `<sip:bob@127.0.0.1>;tag=${tag}`,
        ...contact(),
        Event: event,
        'Subscription-State': 'active',
      }),
    );
    await new Promise((resolve) => setImmediate(resolve));
    peer.respond(request, status, contact());
    await peer.response(481, 'NOTIFY');
    await dialling;
  });

  it('is refreshed in its dialog, with the same Contact', async () => {
    const { dialog, request } = await subscribing();
    const refreshing = dialog.request({ method: 'SUBSCRIBE', headers: { Event: 'presence', Expires: '60' } });
    const refresh = (await peer.wait((m) => m instanceof SipRequest && m.cseq?.number === 2)) as SipRequest;
    expect([refresh.method, refresh.toTag, refresh.uri]).toEqual([
      'SUBSCRIBE',
      'peer',
      `sip:bob@127.0.0.1:${peer.port}`,
    ]);
    expect(refresh.contact?.uri).toBe(request.contact?.uri);
    peer.respond(refresh, 200, { ...contact(), Expires: '60' });
    expect((await refreshing).status).toBe(200);
    expect(await dialogs()).toBe(1);
    const again = dialog.request({ method: 'SUBSCRIBE', headers: { Event: 'presence', Expires: '60' } });
    peer.respond((await peer.wait((m) => m instanceof SipRequest && m.cseq?.number === 3)) as SipRequest, 481);
    expect((await again).status).toBe(481);
    expect(await dialogs()).toBe(0);
  });

  it.each([
    ['its Expires', '1', {}],
    ['the shorter one that was granted', '60', { Expires: '1' }],
    ['a fetch (Expires: 0)', '0', {}],
  ])('expires after %s, and the application hears of it', async (_what, asked, granted) => {
    const { dialog } = await subscribing({ Expires: asked }, granted);
    expect(await ended(dialog)).toBe('Subscription expired');
    expect(await dialogs()).toBe(0);
  });

  it('makes no dialog when it is refused, or when nobody answers', async () => {
    const refused = subscribe();
    peer.respond(await peer.requestOf('SUBSCRIBE'), 489);
    await expect(refused).rejects.toThrow('489');
    await expect(subscribe()).rejects.toThrow('408');
    expect(await dialogs()).toBe(0);
  });
});
