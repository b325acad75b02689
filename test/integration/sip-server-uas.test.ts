import type { EventEmitter } from 'node:events';
import type Srf from 'drachtio-srf';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type SipMessage, SipRequest, SipResponse } from '../../sip/server/message/message.js';
import { SipPeer } from '../support/sip-peer.js';
import { connect, openTestServer, SDP, type TestServer } from '../support/sip-server.js';

let t: TestServer;
let peer: SipPeer;

beforeAll(async () => {
  t = await openTestServer();
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
  await t.idle();
  await t.close();
});

const is200ToInvite = (m: SipMessage) => m instanceof SipResponse && m.status === 200 && m.cseq?.method === 'INVITE';

/** The library's types do not know all events of its classes. */
function on(emitter: object, event: string, listener: (...given: never[]) => void): void {
  (emitter as EventEmitter).on(event, listener as () => void);
}

/** Not by `modify`, which the library never settles again after a refusal. */
function reinvite(dialog: Srf.Dialog): Promise<unknown> {
  return (dialog as unknown as { request(o: object): Promise<unknown> }).request({ method: 'INVITE', body: SDP });
}

/** Why the dialog ended, when it does. */
function endOf(dialog: Srf.Dialog): Promise<string> {
  return new Promise((resolve) => on(dialog, 'destroy', (_msg: unknown, reason: string) => resolve(reason)));
}

/** The application answers every INVITE with 200; its dialog comes with the promise. */
function answering(options: { localSdp?: string } = {}): Promise<Srf.Dialog> {
  return new Promise((resolve, reject) => {
    t.srf.invite((req, res) => {
      t.srf.createUAS(req, res, { localSdp: SDP, ...options }).then(resolve, reject);
    });
  });
}

/** The three header lines that put a request into the dialog of an answer. */
function inside(answer: SipResponse, cseq: string): Record<string, string> {
  return { From: answer.get('from')!, To: answer.get('to')!, 'Call-ID': answer.callId, CSeq: cseq };
}

async function establish(lines: Record<string, string> = {}): Promise<{ dialog: Srf.Dialog; answer: SipResponse }> {
  const dialog = answering();
  peer.send(peer.request('INVITE', lines, SDP));
  const answer = await peer.response(200, 'INVITE');
  peer.send(peer.request('ACK', inside(answer, '1 ACK')));
  return { dialog: await dialog, answer };
}

async function hangUp(answer: SipResponse, cseq = 90): Promise<void> {
  peer.send(peer.request('BYE', inside(answer, `${cseq} BYE`)));
  await peer.response(200, 'BYE');
}

describe('the top Via', () => {
  it('tells the application where a request came from; the answer has only what the peer asked for', async () => {
    const asked = new Promise<string>((resolve) => {
      t.srf.use('options', (req, res) => {
        resolve(req.get('Via'));
        res.send(200);
      });
    });
    peer.send(peer.request('OPTIONS', { Via: `SIP/2.0/UDP phone.invalid:5070;branch=z9hG4bKv${peer.port};rport` }));
    expect(await asked).toBe(
      `SIP/2.0/UDP phone.invalid:5070;branch=z9hG4bKv${peer.port};rport=${peer.port};received=127.0.0.1`,
    );
    const rport = (await peer.response(200)).topVia?.parameters;
    expect([rport?.get('rport'), rport?.get('received')]).toEqual([String(peer.port), '127.0.0.1']);
  });

  it('has its rport in the frame even unasked, and not in the answer', async () => {
    const asked = new Promise<string>((resolve) => {
      t.srf.use('message', (req, res) => {
        resolve(req.get('Via'));
        res.send(200);
      });
    });
    peer.send(peer.request('MESSAGE'));
    expect(await asked).toContain(`;rport=${peer.port}`);
    expect((await peer.response(200)).topVia?.parameters.has('rport')).toBe(false);
  });
});

describe('a call in', () => {
  it('is tried, answered with tag and Contact, acknowledged and ended', async () => {
    const { dialog, answer } = await establish();
    const { retransmissionsSent } = await t.server.stats();
    expect(peer.received[0]?.startLine).toBe('SIP/2.0 100 Trying');
    expect(answer.toTag).not.toBe('');
    expect(answer.contact?.uri).toBe(`sip:127.0.0.1:${t.port}`);
    expect(answer.get('content-type')).toBe('application/sdp');
    const ended = endOf(dialog);
    await hangUp(answer);
    expect(await ended).toBe('normal release');
    expect((await t.server.stats()).retransmissionsSent).toBe(retransmissionsSent);
  });

  it('has one name at the application: Call-ID and From tag', async () => {
    const { dialog, answer } = await establish();
    expect((dialog as Srf.Dialog & { id: string }).id).toBe(`${answer.callId};from-tag=${answer.fromTag}`);
    await hangUp(answer);
  });

  it('tells the ACK once, however often it comes', async () => {
    const { dialog, answer } = await establish();
    let acks = 0;
    dialog.on('ack', () => acks++);
    for (let i = 0; i < 3; i++) peer.send(peer.request('ACK', inside(answer, '1 ACK')));
    await hangUp(answer);
    expect(acks).toBeLessThanOrEqual(1);
  });

  it('repeats the 200 until the ACK comes', async () => {
    const dialog = answering();
    peer.send(peer.request('INVITE', {}, SDP));
    const answer = await peer.response(200, 'INVITE');
    await peer.wait(() => peer.count(is200ToInvite) >= 3);
    peer.send(peer.request('ACK', inside(answer, '1 ACK')));
    await dialog;
    await hangUp(answer);
    const sent = peer.count(is200ToInvite);
    await new Promise((resolve) => setTimeout(resolve, 500)); // real time: longer than T2, and no 200 may come
    expect(peer.count(is200ToInvite)).toBe(sent);
  });

  it('ends with BYE and "ACK timeout" when no ACK comes', async () => {
    const dialog = answering();
    peer.send(peer.request('INVITE', {}, SDP));
    const ended = dialog.then(endOf);
    const bye = (await peer.wait((m) => m instanceof SipRequest && m.method === 'BYE', 5000)) as SipRequest;
    expect(bye.get('reason')).toContain('text="ACK timeout"');
    peer.respond(bye, 200);
    expect(await ended).toBe('ACK timeout');
  });

  it('holds a BYE of the application back until the ACK (15)', async () => {
    const dialog = answering();
    peer.send(peer.request('INVITE', {}, SDP));
    const answer = await peer.response(200, 'INVITE');
    const destroyed = (await dialog).destroy();
    await peer.wait(() => peer.count(is200ToInvite) >= 2);
    expect(peer.count((m) => m instanceof SipRequest)).toBe(0);
    peer.send(peer.request('ACK', inside(answer, '1 ACK')));
    peer.respond(await peer.requestOf('BYE'), 200);
    await destroyed;
  });

  it('is refused with what the application says, and the refusal repeated until the ACK', async () => {
    t.srf.invite((_req, res) => {
      res.send(486, { headers: { 'Retry-After': '5', 'X-Colour': 'red' } });
    });
    const invite = peer.request('INVITE', {}, SDP);
    peer.send(invite);
    const busy = await peer.response(486);
    expect(busy.get('retry-after')).toBe('5');
    expect(busy.raw.toString()).toContain('X-Colour: red');
    await peer.wait(() => peer.count((m) => m instanceof SipResponse && m.status === 486) >= 2);
    peer.send(peer.request('ACK', { ...inside(busy, '1 ACK'), Via: busy.list('via')[0]! }));
  });

  it('repeats the last provisional answer when the INVITE is repeated', async () => {
    t.srf.invite((req, res) => {
      res.send(180);
      req.on('cancel', () => undefined);
    });
    const invite = peer.request('INVITE', {}, SDP);
    const { invitesReceived } = await t.server.stats();
    peer.send(invite);
    const ringing = await peer.response(180);
    peer.send(invite);
    await peer.wait(() => peer.count((m) => m instanceof SipResponse && m.status === 180) === 2);
    expect((await t.server.stats()).invitesReceived).toBe(invitesReceived + 1);
    peer.send(
      peer.request('CANCEL', {
        ...inside(ringing, '1 CANCEL'),
        Via: ringing.list('via')[0]!,
        To: `<sip:bob@127.0.0.1:${t.port}>`,
      }),
    );
    const over = await peer.response(487);
    peer.send(peer.request('ACK', { ...inside(over, '1 ACK'), Via: over.list('via')[0]! }));
  });

  it('is cancelled: 200 and 487, and the application hears of it', async () => {
    const cancelled = new Promise<void>((resolve) => {
      t.srf.invite((req, res) => {
        req.on('cancel', () => resolve());
        res.send(180);
      });
    });
    const via = `SIP/2.0/UDP 127.0.0.1:${peer.port};branch=${peer.newBranch()}`;
    const lines = { Via: via, 'Call-ID': 'cancel-me' };
    peer.send(peer.request('INVITE', lines, SDP));
    await peer.response(180);
    peer.send(peer.request('CANCEL', lines));
    await cancelled;
    expect((await peer.response(200, 'CANCEL')).toTag).toBe((await peer.response(487, 'INVITE')).toTag);
    peer.send(peer.request('ACK', { ...lines, To: (await peer.response(487)).get('to')! }));
  });

  it('is over for the application when the caller says BYE before the answer (15)', async () => {
    const cancelled = new Promise<void>((resolve) => {
      t.srf.invite((req, res) => {
        req.on('cancel', () => resolve());
        res.send(180);
      });
    });
    peer.send(peer.request('INVITE', {}, SDP));
    const ringing = await peer.response(180);
    peer.send(peer.request('BYE', inside(ringing, '2 BYE')));
    await peer.response(200, 'BYE');
    const over = await peer.response(487, 'INVITE');
    await cancelled;
    peer.send(peer.request('ACK', { ...inside(over, '1 ACK'), Via: over.list('via')[0]! }));
  });

  it('goes on when the CANCEL comes after the 200 (9.2)', async () => {
    const via = `SIP/2.0/UDP 127.0.0.1:${peer.port};branch=${peer.newBranch()}`;
    const { answer } = await establish({ Via: via, 'Call-ID': 'too-late' });
    peer.send(peer.request('CANCEL', { Via: via, 'Call-ID': 'too-late' }));
    await peer.response(200, 'CANCEL');
    await hangUp(answer);
    expect(peer.count((m) => m instanceof SipResponse && m.status === 487)).toBe(0);
  });

  it('takes the To tag the application wants', async () => {
    const chosen = new Promise<Srf.Dialog>((resolve, reject) => {
      t.srf.invite((req, res) => {
        t.srf.createUAS(req, res, { localSdp: SDP, headers: { To: 'tag=mine' } }).then(resolve, reject);
      });
    });
    peer.send(peer.request('INVITE', {}, SDP));
    const answer = await peer.response(200, 'INVITE');
    expect(answer.toTag).toBe('mine');
    peer.send(peer.request('ACK', inside(answer, '1 ACK')));
    await chosen;
    await hangUp(answer);
  });
});

describe('in a dialog', () => {
  it('refuses what comes out of order and what belongs to no dialog', async () => {
    const { answer } = await establish();
    peer.send(peer.request('INFO', inside(answer, '1 INFO')));
    await peer.response(500, 'INFO');
    peer.send(peer.request('INFO', { ...inside(answer, '5 INFO'), From: '<sip:x@h>;tag=other' }));
    await peer.response(481, 'INFO');
    await hangUp(answer);
    peer.send(peer.request('INFO', inside(answer, '91 INFO')));
    await peer.wait(() => peer.count((m) => m instanceof SipResponse && m.status === 481) === 2);
  });

  it('brings INFO, MESSAGE, REFER and NOTIFY to the application', async () => {
    const { dialog, answer } = await establish();
    const seen: string[] = [];
    for (const event of ['info', 'message', 'refer', 'notify'] as const) {
      on(dialog, event, (req: Srf.SrfRequest, res: Srf.SrfResponse) => {
        seen.push(`${req.method} ${req.body ?? ''}`);
        res.send(202);
      });
    }
    let cseq = 2;
    for (const method of ['INFO', 'MESSAGE', 'REFER', 'NOTIFY']) {
      peer.send(peer.request(method, { ...inside(answer, `${cseq++} ${method}`), 'Content-Type': 'text/plain' }, 'hi'));
      await peer.response(202, method);
    }
    expect(seen).toEqual(['INFO hi', 'MESSAGE hi', 'REFER hi', 'NOTIFY hi']);
    await hangUp(answer);
  });

  it('answers a re-INVITE by the application, and refuses the one that overlaps it (14.2)', async () => {
    const { dialog, answer } = await establish();
    let answerIt = () => undefined as unknown;
    dialog.on('modify', (_req, res) => {
      answerIt = () => res.send(200, { body: SDP });
    });
    peer.send(peer.request('INVITE', inside(answer, '2 INVITE'), SDP));
    await peer.wait((m) => m instanceof SipResponse && m.status === 100 && m.cseq?.number === 2);
    await expect.poll(() => String(answerIt).includes('200')).toBe(true);
    peer.send(peer.request('INVITE', inside(answer, '3 INVITE'), SDP));
    expect(Number((await peer.response(500, 'INVITE')).get('retry-after'))).toBeLessThanOrEqual(10);
    answerIt();
    await peer.wait((m) => is200ToInvite(m) && m.cseq?.number === 2);
    peer.send(peer.request('ACK', inside(answer, '2 ACK')));
    await hangUp(answer);
  });

  it('says 491 when both sides re-INVITE at once (14.1)', async () => {
    const { dialog, answer } = await establish();
    const modified = reinvite(dialog);
    const ours = await peer.requestOf('INVITE');
    const theirs = peer.request('INVITE', inside(answer, '2 INVITE'), SDP);
    peer.send(theirs);
    const pending = await peer.response(491, 'INVITE');
    peer.send(theirs);
    await peer.wait(() => peer.count((m) => m instanceof SipResponse && m.status === 491) >= 2);
    peer.send(peer.request('ACK', { ...inside(answer, '2 ACK'), Via: pending.list('via')[0]! }));
    peer.respond(ours, 491);
    expect(await modified).toMatchObject({ status: 491 });
    await peer.requestOf('ACK');
    const again = reinvite(dialog);
    const second = (await peer.wait(
      (m) => m instanceof SipRequest && m.method === 'INVITE' && m.cseq?.number === ours.cseq!.number + 1,
    )) as SipRequest;
    peer.respond(second, 200, { Contact: `<sip:alice@127.0.0.1:${peer.port}>` }, SDP);
    expect(await again).toMatchObject({ status: 200, body: SDP });
    await hangUp(answer);
  });

  it('takes every request without Contact, and names us in the 2xx that have to (RFC 3261 12.1.1, RFC 3311 5.2, RFC 6665 3.1.1)', async () => {
    const { dialog, answer } = await establish();
    for (const event of ['modify', 'update', 'info', 'refer', 'subscribe'])
      on(dialog, event, (_req: Srf.SrfRequest, res: Srf.SrfResponse) => void res.send(200));
    const has: Record<string, boolean> = {};
    let cseq = 2;
    for (const method of ['INVITE', 'UPDATE', 'INFO', 'REFER']) {
      peer.send(peer.request(method, { ...inside(answer, `${cseq} ${method}`), Contact: '' }));
      const number = cseq++;
      const found = (await peer.wait(
        (m) => m instanceof SipResponse && m.status >= 200 && m.cseq?.number === number,
      )) as SipResponse;
      expect([method, found.status]).toEqual([method, 200]);
      has[method] = found.contact?.uri.includes(`127.0.0.1:${t.port}`) ?? false;
      if (method === 'INVITE') peer.send(peer.request('ACK', { ...inside(answer, `${number} ACK`), Contact: '' }));
    }
    expect(has).toEqual({ INVITE: true, UPDATE: true, INFO: false, REFER: true });
    await hangUp(answer);
  });

  it('follows the Contact of a re-INVITE', async () => {
    const { dialog, answer } = await establish();
    const elsewhere = await SipPeer.open(t.port);
    dialog.on('modify', (_req, res) => {
      res.send(200, { body: SDP });
    });
    peer.send(
      peer.request('INVITE', { ...inside(answer, '2 INVITE'), Contact: `<sip:new@127.0.0.1:${elsewhere.port}>` }, SDP),
    );
    await peer.wait((m) => is200ToInvite(m) && m.cseq?.number === 2);
    peer.send(peer.request('ACK', inside(answer, '2 ACK')));
    const destroyed = dialog.destroy();
    const bye = await elsewhere.requestOf('BYE');
    expect(bye.uri).toBe(`sip:new@127.0.0.1:${elsewhere.port}`);
    elsewhere.respond(bye, 200);
    await destroyed;
    await elsewhere.close();
  });

  it.each([
    ['loose', ';lr', (proxy: number) => ({ uri: /^sip:alice@10\.9\.9\.9$/, route: `<sip:127.0.0.1:${proxy};lr>` })],
    ['strict', '', (proxy: number) => ({ uri: new RegExp(`^sip:127.0.0.1:${proxy}$`), route: '<sip:alice@10.9.9.9>' })],
  ])('goes through a %s router on the way back (12.2.1.1)', async (_kind, lr, expected) => {
    const proxy = await SipPeer.open(t.port);
    const { dialog } = await establish({
      'Record-Route': `<sip:127.0.0.1:${proxy.port}${lr}>`,
      Contact: '<sip:alice@10.9.9.9>',
    });
    const destroyed = dialog.destroy();
    const bye = await proxy.requestOf('BYE');
    expect(bye.uri).toMatch(expected(proxy.port).uri);
    expect(bye.list('route')).toEqual([expected(proxy.port).route]);
    proxy.respond(bye, 200);
    await destroyed;
    await proxy.close();
  });

  it('goes to the source when the Contact lies somewhere else (address translation)', async () => {
    const { dialog } = await establish({ Contact: '<sip:alice@10.9.9.9:5060>' });
    const destroyed = dialog.destroy();
    const bye = await peer.requestOf('BYE');
    expect(bye.uri).toBe('sip:alice@10.9.9.9:5060');
    peer.respond(bye, 200);
    await destroyed;
  });

  it('an open re-INVITE dies with the BYE (15.1.2)', async () => {
    const { dialog, answer } = await establish();
    const asked = new Promise<void>((resolve) => dialog.on('modify', () => resolve()));
    peer.send(peer.request('INVITE', inside(answer, '2 INVITE'), SDP));
    await asked;
    await hangUp(answer);
    const over = await peer.response(487, 'INVITE');
    peer.send(peer.request('ACK', { ...inside(over, '2 ACK'), Via: over.list('via')[0]! }));
  });

  it('knows the dialog no more when its application is gone', async () => {
    const { answer } = await establish();
    t.srf.disconnect();
    t.srf = await connect(t.server);
    peer.send(peer.request('BYE', inside(answer, '2 BYE')));
    await peer.response(481, 'BYE');
  });
});

describe('early', () => {
  it('UPDATE goes up under the INVITE, and its answer finds it by CSeq', async () => {
    let finish = () => undefined as unknown;
    t.srf.invite((req, res) => {
      on(req, 'update', (_update: Srf.SrfRequest, updateRes: Srf.SrfResponse) => {
        updateRes.send(200, { body: SDP });
      });
      res.send(183, { body: SDP });
      finish = () => t.srf.createUAS(req, res, { localSdp: SDP });
    });
    peer.send(peer.request('INVITE', {}, SDP));
    const early = await peer.response(183);
    peer.send(peer.request('UPDATE', inside(early, '2 UPDATE'), SDP));
    await peer.response(200, 'UPDATE');
    finish();
    const answer = await peer.response(200, 'INVITE');
    peer.send(peer.request('ACK', inside(answer, '1 ACK')));
    await hangUp(answer);
  });

  const reliably = { headers: { Require: '100rel' }, body: SDP };

  it('a reliable answer is repeated until PRACK, and the 200 waits for that', async () => {
    let finish = () => undefined as unknown;
    t.srf.invite((req, res) => {
      res.send(183, reliably);
      finish = () => t.srf.createUAS(req, res, { localSdp: SDP });
    });
    peer.send(peer.request('INVITE', { Supported: '100rel' }, SDP));
    const early = await peer.response(183);
    expect(early.get('require')).toBe('100rel');
    await peer.wait(() => peer.count((m) => m instanceof SipResponse && m.status === 183) >= 2);
    finish();
    peer.send(
      peer.request('PRACK', { ...inside(early, '2 PRACK'), RAck: `${Number(early.get('rseq')) + 1} 1 INVITE` }),
    );
    await peer.response(481, 'PRACK');
    expect(peer.count(is200ToInvite)).toBe(0);
    peer.send(peer.request('PRACK', { ...inside(early, '3 PRACK'), RAck: `${early.get('rseq')} 1 INVITE INVITE` }));
    await peer.response(200, 'PRACK');
    const answer = await peer.response(200, 'INVITE');
    peer.send(peer.request('ACK', inside(answer, '1 ACK')));
    await hangUp(answer);
  });

  it('the call fails when no PRACK comes', async () => {
    t.srf.invite((_req, res) => {
      res.send(183, reliably);
    });
    peer.send(peer.request('INVITE', { Supported: '100rel' }, SDP));
    const failed = (await peer.wait((m) => m instanceof SipResponse && m.status === 504, 5000)) as SipResponse;
    peer.send(peer.request('ACK', { ...inside(failed, '1 ACK'), Via: failed.list('via')[0]! }));
  });

  it('nothing is reliable to a caller that does not know it', async () => {
    t.srf.invite((_req, res) => {
      res.send(183, reliably);
      res.send(486);
    });
    peer.send(peer.request('INVITE', {}, SDP));
    const early = await peer.response(183);
    expect(early.get('rseq')).toBeUndefined();
    expect(early.get('require')).toBeUndefined();
    const busy = await peer.response(486);
    peer.send(peer.request('ACK', { ...inside(busy, '1 ACK'), Via: busy.list('via')[0]! }));
  });
});

describe('session timers', () => {
  it('refuses an interval below 90 s with 422', async () => {
    answering();
    peer.send(peer.request('INVITE', { Supported: 'timer', 'Session-Expires': '30' }, SDP));
    expect((await peer.response(422)).get('min-se')).toBe('90');
  });

  it('takes the offer, with the caller as refresher', async () => {
    const { answer } = await establish({ Supported: 'timer', 'Session-Expires': '1800' });
    expect(answer.get('session-expires')).toBe('1800;refresher=uac');
    expect(answer.lists('require', 'timer')).toBe(true);
    await hangUp(answer);
  });
});

it('proxying is refused in words', async () => {
  t.srf.use('message', (req, res) => {
    (req as unknown as { proxy(o: object): Promise<unknown> }).proxy({ destination: ['sip:127.0.0.1:9'] }).then(
      () => res.send(200),
      (error: Error) =>
        (res as unknown as { send(status: number, reason: string): void }).send(501, String(error.message ?? error)),
    );
  });
  peer.send(peer.request('MESSAGE'));
  expect((await peer.response(501)).reason).toContain(
    'proxy is not supported: this server begins and ends every call itself; use createB2BUA',
  );
});
