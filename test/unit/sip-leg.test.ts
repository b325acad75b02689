import { EventEmitter } from 'node:events';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { DialogLeg } from '../../sip/dialog/dialog-leg.js';
import type { Stack, StackDialog, StackRequest } from '../../sip/drachtio/types.js';

const silent = { debug() {}, info() {}, warn() {}, error() {} };

/** A dialog of nobody: the test plays the library. */
function legOf(type: 'uac' | 'uas') {
  const byes: Record<string, string>[] = [];
  const gone = vi.fn();
  const message = { raw: 'X\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:c@d>\r\n\r\n', get: () => '1 INVITE' };
  const dialog = Object.assign(new EventEmitter(), {
    ...{ id: 'c;from-tag=1', type, connected: true, req: message, res: message },
    sip: { callId: 'c', localTag: 'l', remoteTag: 'r' },
    local: { uri: 'sip:us', sdp: '', contact: '<sip:us>' },
    remote: { uri: 'sip:far', sdp: '' },
    agent: { request: vi.fn() },
    destroy(options: { headers: Record<string, string> }, _callback: () => void) {
      byes.push(options.headers);
    },
  });
  const removeDialog = vi.fn();
  const leg = new DialogLeg(dialog as unknown as StackDialog, {
    stack: { removeDialog } as unknown as Stack,
    ...{ log: silent, localAddress: '127.0.0.1', answeredAtMs: 0, localSdp: 'ours', remoteSdp: 'theirs', onGone: gone },
    peer: { transport: 'udp', address: '127.0.0.1', port: 1 },
  });
  const destroyed = (source: string, reason?: string, raw = '') =>
    dialog.emit('destroy', { source, raw } as unknown as StackRequest, reason);
  return { dialog, leg, byes, gone, removeDialog, destroyed };
}

describe('the end of a leg', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));
  afterEach(() => {
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  });

  it.each([
    ['ACK timeout', 'no_ack'],
    ['Session timer expired', 'timeout'],
    ['Session timer refresh failed', 'timeout'],
    ['something else', 'unspecified'],
  ])('by the server, "%s", is %s', async (text, cause) => {
    const { leg, destroyed, gone, removeDialog, dialog } = legOf('uac');
    destroyed('application', text);
    expect(await leg.ended).toEqual({ cause, by: 'system', detail: { text } });
    expect(gone).toHaveBeenCalledTimes(1);
    expect(removeDialog).toHaveBeenCalledTimes(1);
    expect(dialog.eventNames()).toEqual([]);
  });

  it('by a BYE keeps what its Reason says', async () => {
    const { leg, destroyed } = legOf('uac');
    destroyed('network', 'normal release', 'BYE x\r\nReason: SIP;cause=480;text="gone", Q.850;cause=31\r\n\r\n');
    expect(await leg.ended).toEqual({
      cause: 'normal_clearing',
      by: 'remote',
      detail: { sipStatus: 480, q850: 31, text: 'gone' },
    });
  });

  it('is reported once, whichever came second', async () => {
    const { leg, destroyed, gone, byes } = legOf('uac');
    const hungUp = leg.hangup('agent_hangup');
    destroyed('network');
    leg.lost();
    await vi.advanceTimersByTimeAsync(34_000);
    await hungUp;
    expect(await leg.ended).toEqual({ cause: 'agent_hangup', by: 'local' });
    expect(byes).toHaveLength(1);
    expect(gone).toHaveBeenCalledTimes(1);
  });

  it('does not wait for ever for the answer to its BYE', async () => {
    const { leg, gone } = legOf('uac');
    const hungUp = leg.hangup();
    await vi.advanceTimersByTimeAsync(33_999);
    expect(gone).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1);
    await hungUp;
    expect(gone).toHaveBeenCalledTimes(1);
  });

  it('in a hurry sends its BYE without the ACK', async () => {
    const { leg, byes } = legOf('uas');
    const confirmed = expect(leg.confirmed).rejects.toMatchObject({ hangupCause: 'system_shutdown' });
    const hungUp = leg.hangupSoon('system_shutdown', 500);
    await vi.advanceTimersByTimeAsync(500);
    await hungUp;
    await confirmed;
    expect(byes).toEqual([{ Reason: 'Q.850;cause=41;text="system_shutdown"' }]);
  });

  it('an ACK that came with the BYE in one chunk still confirms', async () => {
    const { leg, dialog, destroyed } = legOf('uas');
    setImmediate(() => dialog.emit('ack', { body: '' })); // as the library does
    destroyed('network');
    dialog.removeAllListeners(); // as the library does
    expect(await leg.confirmed).toEqual({});
    expect(await leg.ended).toMatchObject({ by: 'remote' });
  });

  it('fails what was under way', async () => {
    const { leg, destroyed } = legOf('uac');
    const info = expect(
      leg.sendInfo({ contentType: 'a/b', body: '' }, new AbortController().signal),
    ).rejects.toMatchObject({ code: 'protocol', message: 'The call ended first.' });
    destroyed('network');
    await info;
  });

  it('a request that nobody answers is given up', async () => {
    const { leg, destroyed } = legOf('uac');
    const info = expect(
      leg.sendInfo({ contentType: 'a/b', body: '' }, new AbortController().signal),
    ).rejects.toMatchObject({ code: 'timeout' });
    await vi.advanceTimersByTimeAsync(40_000);
    await info;
    destroyed('network');
    await leg.ended;
  });
});
