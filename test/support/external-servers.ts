/** Real servers that run beside the tests; without them what needs one is skipped, and says so. */
import { mediaEngine, sipServer } from '../../config/kinds.js';

/** `drachtio://:SECRET@HOST:PORT`, several comma-separated. */
export const drachtioSetting = process.env.TRUNKLINE_TEST_DRACHTIO ?? '';
/** `freeswitch://:PASSWORD@HOST:PORT`, several comma-separated. */
export const freeSwitchSetting = process.env.TRUNKLINE_TEST_FREESWITCH ?? '';

function read<T>(
  name: string,
  text: string,
  kind: { read(text: string): 'embedded' | T | undefined; allowed: string },
) {
  if (text === '') return null;
  const found = kind.read(text);
  if (found === undefined || found === 'embedded') throw new Error(`${name}: allowed: ${kind.allowed}`);
  return found;
}

/** null: none runs. */
export const drachtioServers = read('TRUNKLINE_TEST_DRACHTIO', drachtioSetting, sipServer);
export const freeSwitchServers = read('TRUNKLINE_TEST_FREESWITCH', freeSwitchSetting, mediaEngine);

/** Which servers a suite runs over, and a line for each that it cannot. */
export function combinations(): { name: string; settings: Record<string, string> }[] {
  const sip = [{ name: 'embedded SIP server', settings: {} as Record<string, string> }];
  const media = [{ name: 'embedded media engine', settings: {} as Record<string, string> }];
  if (drachtioSetting) sip.push({ name: 'drachtio-server', settings: { TRUNKLINE_SIP_SERVER: drachtioSetting } });
  if (freeSwitchSetting) media.push({ name: 'FreeSWITCH', settings: { TRUNKLINE_MEDIA_ENGINE: freeSwitchSetting } });
  return sip.flatMap((server) =>
    media.map((engine) => ({
      name: `${server.name}, ${engine.name}`,
      settings: { ...server.settings, ...engine.settings },
    })),
  );
}

/** Printed once by each file of the external tests. */
export function sayWhatIsSkipped(): void {
  if (!drachtioSetting) console.info('skipped: drachtio-server (set TRUNKLINE_TEST_DRACHTIO to a running server)');
  if (!freeSwitchSetting) console.info('skipped: FreeSWITCH (set TRUNKLINE_TEST_FREESWITCH to a running server)');
}
