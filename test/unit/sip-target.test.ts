import { describe, expect, it } from 'vitest';
import { referTarget, referUri, sipfragStatus } from '../../sip/dialog/refer-headers.js';
import { sdpOf } from '../../sip/inbound/sdp-body.js';
import { calledUser, redirectTarget, targetsOf } from '../../sip/outbound/request-targets.js';
import { Bindings } from '../../sip/registrar/bindings.js';
import { TrunkTable } from '../../sip/trunk/trunk-table.js';

const trunks = new TrunkTable();
trunks.replace([
  {
    ...{ id: 't', organizationId: null, name: 'phone', direction: 'both', status: 'active', addresses: [] },
    ...{ username: 'Desk1', password: 'x', gateways: [] },
  },
]);

describe('dial targets', () => {
  const bindings = new Bindings();
  const targets = (uri: string, to = '+15551234567') => targetsOf({ uri }, { to, callId: 'call' }, trunks, bindings);
  const uris = async (uri: string, to?: string) =>
    (await targets(uri, to)).map((target) => [target.requestUri, target.nextHop, target.host]);

  it.each([
    ['sip:carrier.example', 'sip:+15551234567@carrier.example', 'carrier.example'],
    ['sip:10.0.0.1:5080;transport=tcp', 'sip:+15551234567@10.0.0.1:5080;transport=tcp', '10.0.0.1'],
    ['sip:[2001:db8::1]', 'sip:+15551234567@[2001:db8::1]', '2001:db8::1'],
    ['sip:bob@host?X=1', 'sip:bob@host', 'host'],
  ])('%s is called as %s', async (gateway, requestUri, host) => {
    expect(await uris(gateway)).toEqual([[requestUri, undefined, host]]);
  });

  it('finds registered users where they are, and nowhere', async () => {
    expect(await uris('sip:Desk1')).toEqual([]);
    const peer = { transport: 'tcp' as const, address: '192.0.2.9', port: 4444 };
    const expiresAtMs = performance.now() + 60_000;
    bindings.replace('Desk1', [
      {
        contact: 'sip:Desk1@10.1.1.1:5062',
        domain: 'pbx.example',
        peer,
        callId: 'c',
        cseq: 1,
        priority: 1,
        expiresAtMs,
      },
    ]);
    expect(await uris('sip:Desk1')).toEqual([
      ['sip:Desk1@10.1.1.1:5062', 'sip:192.0.2.9:4444;transport=tcp', '192.0.2.9'],
    ]);
    const called = async (to: string) => (await targets('sip:Desk1', to))[0]?.called;
    expect(await called('+15551234567')).toBe('sip:+15551234567@pbx.example');
    expect(await called('sip:+15551234567@elsewhere')).toBe('sip:+15551234567@pbx.example');
    expect(await called('sip:Desk1')).toBe('sip:Desk1@pbx.example');
    expect(await uris('sip:desk1')).toEqual([['sip:+15551234567@desk1', undefined, 'desk1']]);
    bindings.close();
  });

  it('gives the number to a registered contact that names nobody', async () => {
    const peer = { transport: 'udp' as const, address: '192.0.2.9', port: 4444 };
    const binding = { peer, callId: 'c', cseq: 1, priority: 1, expiresAtMs: performance.now() + 60_000 };
    bindings.replace('Desk1', [{ contact: 'sip:10.1.1.1:5062;bnc', domain: 'pbx.example', ...binding }]);
    expect((await uris('sip:Desk1'))[0]?.[0]).toBe('sip:+15551234567@10.1.1.1:5062;bnc');
    bindings.close();
  });

  it('does not let anything but a number into the request-URI', async () => {
    expect(calledUser('sip:+1555@host')).toBe('+1555');
    expect(calledUser('tel:+1-555')).toBe('+1555');
    for (const to of ['', 'a b', 'x@y', '1\r\nVia: x', '<1>', 'sip:host']) {
      expect(() => calledUser(to), to).toThrow('neither a number nor a SIP URI');
    }
    await expect(uris('http://x')).rejects.toThrow('is not a SIP URI');
  });

  it('follows a redirect to the same user only', async () => {
    const [target] = await targets('sip:a.example', '+1555');
    if (!target) throw new Error('no target');
    expect(redirectTarget(target, 'sip:+1555@b.example:5070')).toMatchObject({
      requestUri: 'sip:+1555@b.example:5070',
      host: 'b.example',
    });
    expect(redirectTarget(target, 'sip:+881999@b.example')).toBeNull();
    expect(redirectTarget(target, 'tel:+1555')).toBeNull();
  });
});

describe('REFER', () => {
  it('reads the target and what it replaces', () => {
    expect(referTarget('<sip:bob@host;x=1?Replaces=abc%3Bto-tag%3D1%3Bfrom-tag%3D2&X=y>')).toEqual({
      to: 'sip:bob@host;x=1',
      replaces: 'abc;to-tag=1;from-tag=2',
    });
    expect(referTarget('sip:bob@host')).toEqual({ to: 'sip:bob@host', replaces: null });
    expect(referTarget('<mailto:x@y>')).toBeNull();
  });

  it('makes a URI of a number at the far side', () => {
    expect(referUri('+1555', 'sip:x@10.0.0.1:5080;transport=tcp')).toBe('sip:+1555@10.0.0.1:5080');
    expect(referUri('sip:a@b', 'sip:x@y')).toBe('sip:a@b');
    expect(referUri('sip:a@b> x', 'sip:x@y')).toBeNull();
  });

  it('reads sipfrag', () => {
    expect(sipfragStatus('SIP/2.0 486 Busy\r\n')).toBe(486);
    expect(sipfragStatus('nonsense')).toBeNull();
  });
});

describe('the SDP of a message', () => {
  const message = (type: string | undefined, body: string) => sdpOf({ body, get: () => type });

  it('stands alone or among other parts', () => {
    expect(message('application/sdp', 'v=0\r\n')).toEqual({ kind: 'sdp', sdp: 'v=0\r\n' });
    expect(message(undefined, 'v=0\r\n')).toEqual({ kind: 'sdp', sdp: 'v=0\r\n' });
    expect(message(undefined, '')).toEqual({ kind: 'none' });
    expect(message('text/plain', 'x')).toEqual({ kind: 'unsupported' });
    const parts =
      '--b\r\nContent-Type: application/isup\r\n\r\nxx\r\n--b\r\nContent-Type: application/sdp\r\n\r\nv=0\r\n--b--';
    expect(message('multipart/mixed;boundary="b"', parts)).toEqual({ kind: 'sdp', sdp: 'v=0\r\n' });
  });
});
