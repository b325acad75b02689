/** The checks of `doctor` for external engines: drachtio-server and FreeSWITCH, asked from inside. */
import ipaddr from 'ipaddr.js';
import type { Settings } from '../../../config/settings.js';
import type { ServerContacts } from '../../simulator/external-server.js';
import type { Finding } from './finding.js';
import type { Machine } from './machine.js';

/** A failure only if no external SIP server is reachable: one is enough for calls. */
export function examineSipServers(told: readonly ServerContacts[]): Finding {
  const check = 'sip port';
  const says = told
    .map(({ server, version, contacts, problem }) => {
      const places = contacts.map(({ transport, host, port }) => `${transport} ${host}:${port}`);
      return (
        problem ?? `the server at ${server} (drachtio-server ${version}) listens on ${places.join(', ') || 'nothing'}`
      );
    })
    .join('; ');
  const usable = told.filter(({ contacts }) => contacts.length > 0).length;
  if (usable === told.length) return { check, level: 'ok', says };
  const fix = 'start that drachtio-server, or set TRUNKLINE_SIP_SERVER to its address and secret';
  return { check, level: usable > 0 ? 'warning' : 'failure', says, fix };
}

/** One finding for the media engine, or one for each FreeSWITCH: version, addresses, RTP range, codecs, or what it lacks. */
export async function examineMediaServers(
  machine: Pick<Machine, 'mediaServers'>,
  { mediaEngine }: Pick<Settings, 'mediaEngine'>,
): Promise<Finding[]> {
  const check = 'media';
  if (mediaEngine === 'embedded') return [{ check, level: 'ok', says: 'embedded' }];
  const found = await machine.mediaServers(mediaEngine);
  const isAnyUsable = found.some(({ facts }) => facts !== null);
  return found.map(({ server, facts, problem }): Finding => {
    if (facts === null) {
      const fix = 'start it with config/freeswitch, or set TRUNKLINE_MEDIA_ENGINE to its event socket and password';
      const says = problem ?? `FreeSWITCH at ${server} told nothing`;
      return { check, level: isAnyUsable ? 'warning' : 'failure', says, fix };
    }
    const { version, sipAddress, rtpAddress, rtpPorts, moreCodecs, hasAudioFork } = facts;
    const ports = rtpPorts.to > 0 ? `${rtpPorts.from}-${rtpPorts.to}` : 'ports unknown';
    const more = moreCodecs.length > 0 ? `, also ${moreCodecs.join(' ')}` : '';
    const fork = hasAudioFork ? ', mod_audio_fork' : '';
    const says = `FreeSWITCH ${version} at ${server}: sip ${sipAddress}, rtp ${rtpAddress} ${ports}${more}${fork}`;
    return { check, level: 'ok', says };
  });
}

/** Control ports of external engines: anyone who can reach one and has its password controls all calls. */
export function examineControlPorts(
  machine: Pick<Machine, 'read'>,
  { sipServer, mediaEngine }: Pick<Settings, 'sipServer' | 'mediaEngine'>,
): Finding[] {
  const ports = [
    ...(sipServer === 'embedded' ? [] : sipServer.map(({ host, port }) => ({ host, port, of: 'drachtio-server' }))),
    ...(mediaEngine === 'embedded' ? [] : mediaEngine.map(({ host, port }) => ({ host, port, of: 'FreeSWITCH' }))),
  ];
  const open = new Set(listeningEverywhere(machine));
  return ports.flatMap(({ host, port, of }): Finding[] => {
    const check = 'control port';
    const fix = 'bind it to loopback or to an inner network, and close it in the firewall';
    if (rangeOf(host) === 'unicast')
      return [{ check, level: 'warning', says: `${of} is controlled over the public address ${host}:${port}`, fix }];
    if (rangeOf(host) === 'loopback' && open.has(port))
      return [
        {
          check,
          level: 'warning',
          says: `${of} accepts control connections at port ${port} of every address of this host`,
          fix,
        },
      ];
    return [];
  });
}

/** TCP ports of this host that listen on every address (`/proc/net/tcp`: state 0A). */
function listeningEverywhere(machine: Pick<Machine, 'read'>): number[] {
  return ['/proc/net/tcp', '/proc/net/tcp6'].flatMap((file) =>
    (machine.read(file) ?? '').split('\n').flatMap((line) => {
      const [, , local = '', , state] = line.split(/\s+/);
      const [address = '', port = ''] = local.split(':');
      return state === '0A' && /^0+$/.test(address) ? [Number.parseInt(port, 16)] : [];
    }),
  );
}

function rangeOf(address: string): string {
  return ipaddr.isValid(address) ? ipaddr.process(address).range() : 'unknown';
}
