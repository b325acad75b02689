/** Channels in FreeSWITCH whose Trunkline died, told from those of a living one. */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { afterEach, expect, it } from 'vitest';
import { openEventSocket } from '../../media/freeswitch/event-socket.js';
import { endLeftChannels, readUuids } from '../../media/freeswitch/left-channels.js';

const servers: Server[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await new Promise((resolve) => server.close(resolve));
});

async function listening(onLine: (line: string, write: (text: string) => void) => void = () => {}): Promise<number> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    const write = (text: string) => void socket.write(text);
    onLine('', write);
    socket.on('data', (data) => {
      for (const line of data.toString().split('\n\n').filter(Boolean)) onLine(line, write);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  servers.push(server);
  return (server.address() as AddressInfo).port;
}

/** An event socket of a FreeSWITCH with these channels: where the Trunkline of each listens. */
async function freeSwitch(channels: Record<string, string>) {
  const killed: string[] = [];
  const answers = (command: string): string => {
    const [, verb, uuid = ''] = command.split(' ');
    if (verb === 'show') {
      const rows = Object.keys(channels).map((each) => ({ uuid: each }));
      return JSON.stringify(rows.length === 0 ? { row_count: 0 } : { row_count: rows.length, rows });
    }
    if (verb === 'uuid_getvar') return channels[uuid] ?? '_undef_';
    killed.push(uuid);
    return '+OK';
  };
  const port = await listening((line, write) => {
    if (line === '') return write('Content-Type: auth/request\n\n');
    if (line.startsWith('auth')) return write('Content-Type: command/reply\nReply-Text: +OK accepted\n\n');
    const body = answers(line);
    write(`Content-Type: api/response\nContent-Length: ${Buffer.byteLength(body)}\n\n${body}`);
  });
  const address = { host: '127.0.0.1', port, password: 'p' };
  const control = await openEventSocket(address, 2000, new AbortController().signal);
  return { control, killed };
}

it('ends the channels whose Trunkline listens no more, and no others', async () => {
  const alive = await listening();
  const dead = await listening();
  await new Promise((resolve) => servers.pop()?.close(resolve));
  const { control, killed } = await freeSwitch({
    ...{ 'a-1': `127.0.0.1:${dead}`, 'a-2': `127.0.0.1:${alive}` },
    ...{ 'a-3': `127.0.0.1:${dead}`, 'a-4': '_undef_' },
  });
  const logged: unknown[] = [];
  const log = { warn: (fields: unknown) => void logged.push(fields), error: () => {} };
  expect(await endLeftChannels(control, 'media', log)).toBe(2);
  expect(killed).toEqual(['a-1', 'a-3']);
  expect(logged).toEqual([{ server: 'media', channels: 2 }]);
  control.close();
});

it('does nothing in a FreeSWITCH without channels', async () => {
  const { control, killed } = await freeSwitch({});
  expect(await endLeftChannels(control, 'media', { warn: () => {}, error: () => {} })).toBe(0);
  expect(killed).toEqual([]);
  control.close();
  expect(readUuids('-ERR')).toEqual([]);
});
