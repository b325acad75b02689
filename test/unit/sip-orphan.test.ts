import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { byeOrphan } from '../../sip/dialog/orphan-bye.js';
import type { Stack, StackRequestOptions } from '../../sip/drachtio/types.js';
import type { DialogSnapshot } from '../../sip/leg.js';

const dialog: DialogSnapshot = {
  callId: 'c1',
  localTag: 'ours',
  remoteTag: 'theirs',
  localUri: 'sip:+1222@us',
  remoteUri: 'sip:+1111@far',
  remoteTarget: 'sip:far@10.0.0.5:5070',
  routeSet: [],
  localCseq: 4,
  peer: { transport: 'udp', address: '203.0.113.9', port: 40000 },
  localAddress: '127.0.0.1',
};

/** A stack whose server takes requests; the test answers them. */
function stackThat(sends: boolean) {
  const sent: StackRequestOptions[] = [];
  let respond: (status: number) => void = () => undefined;
  const client = {
    request(options: StackRequestOptions, callback: (err: Error | null, req?: object) => void) {
      sent.push(options);
      if (!sends) callback(new Error('no way'));
      else
        callback(null, {
          on: (_event: string, listener: (res: object) => void) => (respond = (status) => listener({ status })),
        });
    },
  };
  return { stack: { app: { client } } as unknown as Stack, sent, respond: (status: number) => respond(status) };
}

describe('the BYE of a dialog whose process died', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => {
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  });

  it('sends a BYE that the far end takes for ours, to where it really was', async () => {
    const { stack, sent, respond } = stackThat(true);
    const ended = byeOrphan(stack, dialog, 'system_restart');
    respond(100);
    respond(481);
    await ended;
    expect(sent).toEqual([
      {
        method: 'BYE',
        uri: 'sip:far@10.0.0.5:5070',
        proxy: 'sip:203.0.113.9:40000;transport=udp',
        headers: {
          'Call-ID': 'c1',
          From: '<sip:+1222@us>;tag=ours',
          To: '<sip:+1111@far>;tag=theirs',
          CSeq: '1004 BYE',
          Reason: 'Q.850;cause=41;text="system_restart"',
        },
      },
    ]);
  });

  it('finds a carrier behind TLS by its name, and by the authority of its trunk', async () => {
    const { stack, sent, respond } = stackThat(true);
    const peer = { transport: 'tls' as const, address: '203.0.113.9', port: 5061 };
    const ended = byeOrphan(stack, { ...dialog, peer, trust: 'trunk-7' }, 'system_restart');
    respond(200);
    await ended;
    expect(sent[0]?.proxy).toBe('sip:203.0.113.9:5061;transport=tls;tls-name=far;tls-trust=trunk-7');
  });

  it('goes through the proxies of the dialog', async () => {
    const { stack, sent, respond } = stackThat(true);
    const routeSet = ['<sip:p1@10.0.0.1;lr>', '<sip:10.0.0.2;lr>'];
    const ended = byeOrphan(stack, { ...dialog, routeSet }, 'normal_clearing');
    respond(200);
    await ended;
    expect(sent[0]?.proxy).toBe('sip:p1@10.0.0.1;lr');
    expect(sent[0]?.headers?.Route).toBe('<sip:p1@10.0.0.1;lr>, <sip:10.0.0.2;lr>');
  });

  it('says when it could not, or nobody answered', async () => {
    await expect(byeOrphan(stackThat(false).stack, dialog, 'normal_clearing')).rejects.toMatchObject({
      code: 'protocol',
      message: 'The BYE of call c1 could not be sent: no way.',
    });
    const silent = expect(byeOrphan(stackThat(true).stack, dialog, 'normal_clearing')).rejects.toMatchObject({
      code: 'timeout',
    });
    await vi.advanceTimersByTimeAsync(34_000);
    await silent;
  });
});
