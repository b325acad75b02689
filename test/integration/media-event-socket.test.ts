/** What an event socket may say before calls depend on it: each refusal is one clear sentence. */
import { type AddressInfo, createServer, type Server } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { openEventSocket } from '../../media/freeswitch/event-socket.js';
import { readFacts } from '../../media/freeswitch/server-facts.js';

const servers: Server[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => new Promise((resolve) => server.close(resolve))));
});

const body = (text: string) => `Content-Type: api/response\nContent-Length: ${Buffer.byteLength(text)}\n\n${text}`;
const reply = (text: string) => `Content-Type: command/reply\nReply-Text: ${text}\n\n`;

/** A FreeSWITCH that greets and answers as told; `answers`: by the first words of an `api` command. */
async function played(greeting: string, answers: Record<string, string> = {}): Promise<number> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.write(greeting);
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk.toString();
      for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
        const command = text.slice(0, end);
        text = text.slice(end + 2);
        if (command.startsWith('auth')) socket.write(reply(command === 'auth right' ? '+OK accepted' : '-ERR invalid'));
        else {
          const known = Object.entries(answers).find(([words]) => command.startsWith(`api ${words}`));
          // in two pieces, as a network may cut it
          const whole = body(known?.[1] ?? '-ERR');
          socket.write(whole.slice(0, 30));
          setImmediate(() => socket.write(whole.slice(30)));
        }
      }
    });
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

const greeting = 'Content-Type: auth/request\n\n';
const profile = '             drachtio_mrf\tprofile\t  sip:mod_sofia@127.0.0.1:5080\tRUNNING (0)\n';
const good = {
  'version short': '1.10.11-release~64bit\n',
  module_exists: 'true',
  'sofia status profile': 'RTP-IP          \t10.0.0.7\n',
  'sofia status': profile,
  'global_getvar rtp_port_min': '20000',
  'global_getvar rtp_port_max': '29999',
  'show codec': JSON.stringify({ rows: [{ name: 'GSM' }, { name: 'G.711 ulaw' }] }),
};

function open(port: number, password = 'right') {
  return openEventSocket({ host: '127.0.0.1', port, password }, 2000, new AbortController().signal);
}

async function facts(answers: Record<string, string>) {
  const socket = await open(await played(greeting, answers));
  try {
    return await readFacts(socket, 'FreeSWITCH');
  } finally {
    socket.close();
  }
}

describe('the event socket', () => {
  it('tells version, addresses, ports and codecs', async () => {
    expect(await facts(good)).toEqual({
      ...{ version: '1.10.11-release~64bit', sipAddress: '127.0.0.1:5080', rtpAddress: '10.0.0.7' },
      ...{ rtpPorts: { from: 20000, to: 29999 }, moreCodecs: ['GSM'], hasAudioFork: true },
    });
  });

  it('refuses a wrong password', async () => {
    await expect(open(await played(greeting), 'wrong')).rejects.toMatchObject({
      ...{ code: 'refused', message: expect.stringMatching(/^FreeSWITCH at 127\.0\.0\.1:\d+ refused the password\.$/) },
    });
  });

  it('refuses our address', async () => {
    const rude = 'Content-Type: text/rude-rejection\nContent-Length: 24\n\nAccess Denied, go away.\n';
    await expect(open(await played(rude))).rejects.toThrow(/accepts no connection from our address: add our address/);
  });

  it('is something else', async () => {
    await expect(open(await played('HTTP/1.1 400 Bad Request\n\n'))).rejects.toThrow(/does not speak FreeSWITCH's/);
  });

  it('is silent, or not there', async () => {
    const silent = open(await played(''));
    await expect(silent).rejects.toThrow(/^The answer of FreeSWITCH at 127\.0\.0\.1:\d+ did not come within 2 s\.$/);
    const port = await played('');
    await new Promise((resolve) => servers.pop()?.close(resolve));
    await expect(open(port)).rejects.toMatchObject({
      ...{ code: 'unreachable', message: `FreeSWITCH at 127.0.0.1:${port} cannot be reached: connection refused.` },
    });
  });

  it.each([
    ['an old version', { ...good, 'version short': '1.8.7' }, /has version 1\.8\.7; 1\.10\.0 or newer is needed/],
    ['a missing module', { ...good, module_exists: 'false' }, /lacks mod_sofia, .*: load them in modules\.conf\.xml/],
    ['a missing profile', { ...good, 'sofia status': '0 profiles' }, /has no running SIP profile drachtio_mrf/],
  ])('names %s', async (_what, answers, sentence) => {
    await expect(facts(answers)).rejects.toThrow(sentence);
  });
});
