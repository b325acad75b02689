/** `trunks`: the SIP trunks of carriers. */
import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { type CliContext, openSession } from '../context.js';
import { addList, addRemove, addShow } from './records.js';

interface TrunkRecord {
  id: string;
  name: string;
  direction: string;
  addresses: string[];
  gateways: { uri: string }[];
  transport: string;
  status: string;
  health: string;
}

interface AddOptions {
  name: string;
  direction?: string;
  address?: string[];
  gateway?: string[];
  username?: string;
  password?: string;
  transport?: string;
  srtp?: string;
  tlsCa?: string;
  register?: boolean;
  codec?: string[];
}

export function addTrunks(program: Command, context: CliContext): void {
  const trunks = program.command('trunks').description('list, show, add and remove SIP trunks of carriers');
  addList<TrunkRecord>(trunks, context, {
    path: '/trunks',
    what: ['trunk', 'trunks'],
    filters: [
      ['--direction <direction>', 'inbound, outbound or both'],
      ['--status <status>', 'active or inactive'],
    ],
    columns: ['ID', 'NAME', 'DIRECTION', 'ADDRESSES', 'GATEWAYS', 'TRANSPORT', 'STATUS', 'HEALTH'],
    row: (t) => [
      t.id,
      t.name,
      t.direction,
      t.addresses.join(', '),
      t.gateways.map((gateway) => gateway.uri).join(', '),
      t.transport,
      t.status,
      t.health,
    ],
  });
  addShow(trunks, context, '/trunks');
  trunks
    .command('add')
    .description('add a trunk')
    .requiredOption('--name <name>', 'display name')
    .option('--direction <direction>', 'inbound, outbound or both')
    .option('--address <cidr...>', 'trusted source addresses')
    .option('--gateway <uri...>', 'gateways that calls are sent to, in order: sip:sip.carrier.example')
    .option('--username <name>', 'user name for digest authentication')
    .option('--password <password>', 'password for digest authentication')
    .option('--transport <transport>', 'udp, tcp or tls')
    .option('--srtp <srtp>', 'off, allow or require')
    .option('--tls-ca <file>', 'PEM file of the certification authorities of the gateways, if they are not public')
    .option('--register', 'register with the gateways')
    .option('--codec <codec...>', 'codecs in order of preference: PCMU, PCMA, G722, OPUS')
    .addHelpText(
      'after',
      `
Examples:
  $ trunkline trunks add --name carrier --address 203.0.113.0/24 --gateway sip:sip.carrier.example
  $ trunkline trunks add --name pbx --direction both --username line1 --password ... --gateway sip:10.0.0.5 --register`,
    )
    .action(async (options: AddOptions, command: Command) => {
      const session = openSession(context, command);
      const trunk = await session.api().post<TrunkRecord>('/trunks', {
        name: options.name,
        direction: options.direction,
        addresses: options.address,
        gateways: options.gateway?.map((uri, index) => ({ uri, priority: index })),
        username: options.username,
        password: options.password,
        transport: options.transport,
        srtp: options.srtp,
        tls: options.tlsCa === undefined ? undefined : { ca: readFileSync(options.tlsCa, 'utf8') },
        register: options.register,
        codecs: options.codec,
      });
      if (session.json) return session.value(trunk);
      session.lines([`added trunk ${trunk.id}`]);
    });
  addRemove(trunks, context, '/trunks', 'trunk');
}
