import { describe, expect, it } from 'vitest';
import type { InviteTarget } from '../../sip/outbound/request-targets.js';
import { publicTarget } from '../../sip/outbound/resolve-public-uri.js';

const target = (uri: string, host: string): InviteTarget => ({ gateway: { uri }, requestUri: uri, host });
const resolving =
  (...addresses: string[]) =>
  async () =>
    addresses.map((address) => ({ address }));

describe('a SIP address that a user configured', () => {
  it.each([
    ['sip:a@127.0.0.1', '127.0.0.1'],
    ['sip:a@10.1.2.3:5080', '10.1.2.3'],
    ['sip:a@[::1]', '::1'],
    ['sip:a@169.254.169.254', '169.254.169.254'],
    ['sip:a@localhost', 'localhost'],
    ['sip:a@LOCALHOST.', 'LOCALHOST.'],
  ])('%s is refused', async (uri, host) => {
    await expect(publicTarget(target(uri, host), resolving('127.0.0.1'))).rejects.toMatchObject({
      code: 'protocol',
      hangupCause: 'destination_not_allowed',
      mayFailOver: false,
    });
  });

  it('is refused when one of the addresses of its name is private', async () => {
    const asked = publicTarget(target('sip:a@agent.example', 'agent.example'), resolving('8.8.8.8', '192.168.0.7'));
    await expect(asked).rejects.toMatchObject({ hangupCause: 'destination_not_allowed' });
  });

  it('is called at the address that was checked, at the port and over the transport of the URI', async () => {
    const uri = 'sip:a@agent.example:5070;transport=tcp';
    const found = await publicTarget(target(uri, 'agent.example'), resolving('8.8.8.8'));
    expect(found).toMatchObject({ requestUri: uri, host: '8.8.8.8', nextHop: 'sip:8.8.8.8:5070;transport=tcp' });
  });

  it.each(['sips:a@agent.example', 'sip:a@agent.example;transport=tls'])(
    '%s is still checked for its name',
    async (uri) => {
      const hop = 'sip:agent.example:5061;transport=tls;tls-name=agent.example';
      const asked = { ...target(uri, 'agent.example'), nextHop: hop };
      expect((await publicTarget(asked, resolving('8.8.8.8'))).nextHop).toBe(hop.replace('agent.example:', '8.8.8.8:'));
    },
  );

  it('without an address cannot be reached, and another gateway may do better', async () => {
    const asked = publicTarget(target('sip:a@nowhere.example', 'nowhere.example'), () => Promise.reject(new Error()));
    await expect(asked).rejects.toMatchObject({ code: 'unreachable', mayFailOver: true });
  });
});
