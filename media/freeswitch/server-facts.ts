/** What a FreeSWITCH is: version, modules, codecs, SIP profile; and what it lacks for our calls. */
import { type EventSocket, EventSocketError } from './event-socket.js';

export interface MediaServerFacts {
  version: string;
  /** The SIP address of its profile: `10.0.0.5:5080`. */
  sipAddress: string;
  /** Address and ports of its RTP sockets. */
  rtpAddress: string;
  rtpPorts: { from: number; to: number };
  /** Encoding names of its audio codecs in SDP, without those of the embedded engine: `GSM`, `SPEEX`. */
  moreCodecs: readonly string[];
  /** The module for `agent_audio=fork` is loaded. */
  hasAudioFork: boolean;
}

/** The name of the SIP profile in `config/freeswitch`, which images made for drachtio also have. */
export const sipProfile = 'drachtio_mrf';

const requiredModules = ['mod_sofia', 'mod_event_socket', 'mod_commands', 'mod_dptools', 'mod_dialplan_xml'];
/** Older versions were not tried. */
const leastVersion = [1, 10, 0];

/** The embedded engine has these itself; FreeSWITCH has them in its core or by mod_opus. */
const ownCodecs = new Set(['PCMU', 'PCMA', 'G722', 'OPUS']);
/**
 * What `show codec` calls a codec, and what an SDP calls it. AMR, AMR-WB, G.723.1 and G.729 are not among them: their modules may be built
 * to pass such audio through only, `show codec` does not tell, and a call would be silent.
 */
const codecNames: Record<string, string> = {
  GSM: 'GSM',
  iLBC: 'iLBC',
  Speex: 'SPEEX',
  'Polycom(R) G722.1/G722.1C': 'G7221',
  'BroadVoice16 (BV16)': 'BV16',
  'BroadVoice32 (BV32)': 'BV32',
  'Codec 2': 'CODEC2',
};

/** Rejects with `EventSocketError` `refused` and one sentence for what is missing. */
export async function readFacts(socket: EventSocket, where: string): Promise<MediaServerFacts> {
  const version = /\d+\.\d+\.\d+\S*/.exec(await socket.api('version short'))?.[0] ?? 'unknown';
  if (isOlder(version, leastVersion))
    throw refused(`${where} has version ${version}; ${leastVersion.join('.')} or newer is needed`);
  const missing: string[] = [];
  for (const module of requiredModules)
    if (!(await socket.api(`module_exists ${module}`)).startsWith('true')) missing.push(module);
  if (missing.length > 0) throw refused(`${where} lacks ${missing.join(', ')}: load them in modules.conf.xml`);
  const profiles = await socket.api('sofia status');
  const sipAddress = new RegExp(`^\\s*${sipProfile}\\s.*sip:mod_sofia@([\\d.]+:\\d+)`, 'm').exec(profiles)?.[1];
  if (sipAddress === undefined)
    throw refused(`${where} has no running SIP profile ${sipProfile}: see config/freeswitch/sip_profiles`);
  const profile = await socket.api(`sofia status profile ${sipProfile}`);
  const rtpAddress = /^RTP-IP\s+(\S+)/m.exec(profile)?.[1] ?? sipAddress.split(':')[0] ?? '';
  const port = async (name: string) => Number(/\d+/.exec(await socket.api(`global_getvar ${name}`))?.[0] ?? 0);
  return {
    version,
    sipAddress,
    rtpAddress,
    rtpPorts: { from: await port('rtp_port_min'), to: await port('rtp_port_max') },
    moreCodecs: readCodecs(await socket.api('show codec as json')),
    hasAudioFork: (await socket.api('module_exists mod_audio_fork')).startsWith('true'),
  };
}

/** The answer to `show codec as json`, without the codecs that pass audio through unread. */
export function readCodecs(json: string): string[] {
  let rows: unknown;
  try {
    rows = (JSON.parse(json) as { rows?: unknown }).rows;
  } catch {
    return [];
  }
  if (!Array.isArray(rows)) return [];
  const names = rows.flatMap((row: { name?: unknown }) => {
    const written = String(row?.name ?? '')
      .replace(/ Mono$/, '')
      .trim();
    return /passthru|pass-through/i.test(written) ? [] : (codecNames[written] ?? []);
  });
  return [...new Set(names)].filter((name) => !ownCodecs.has(name));
}

function isOlder(version: string, least: readonly number[]): boolean {
  const parts = version.split(/[.-]/).map(Number);
  for (const [place, wanted] of least.entries()) {
    const has = parts[place] ?? 0;
    if (has !== wanted) return has < wanted;
  }
  return false;
}

function refused(what: string): EventSocketError {
  return new EventSocketError('refused', `${what}.`);
}
