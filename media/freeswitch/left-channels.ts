/**
 * Channels that a Trunkline left behind when it died: bridged to each other, they would live for ever. A channel knows where its Trunkline
 * listens (`X-esl-outbound`); when nobody listens there any more, it is ended.
 */
import { connect } from 'node:net';
import type { EngineLog } from '../engine.js';
import type { EventSocket } from './event-socket.js';

/** A listener on a living host accepts or refuses at once; one that does neither may be behind a slow network, and its channels stay. */
const answerLimitMs = 2000;
/** So many channels at once are asked whose they are: each is a command of its own. */
const mostChannels = 10_000;

/** The number of channels that were ended. Rejects when the connection is lost. */
export async function endLeftChannels(control: EventSocket, name: string, log: EngineLog): Promise<number> {
  const byListener = new Map<string, string[]>();
  for (const uuid of readUuids(await control.api('show channels as json')).slice(0, mostChannels)) {
    const listener = (await control.api(`uuid_getvar ${uuid} sip_h_X-esl-outbound`)).trim();
    if (/^[\d.]+:\d+$/.test(listener)) byListener.set(listener, [...(byListener.get(listener) ?? []), uuid]);
  }
  let ended = 0;
  for (const [listener, uuids] of byListener) {
    if (!(await refuses(listener))) continue;
    for (const uuid of uuids) if ((await control.api(`uuid_kill ${uuid}`)).startsWith('+OK')) ended += 1;
  }
  if (ended > 0) log.warn({ server: name, channels: ended }, 'channels of a Trunkline that died were ended');
  return ended;
}

/** The answer to `show channels as json`; it has no rows when there is no channel. */
export function readUuids(json: string): string[] {
  try {
    const { rows } = JSON.parse(json) as { rows?: { uuid?: unknown }[] };
    return (rows ?? []).map(({ uuid }) => String(uuid)).filter((uuid) => /^[\w-]+$/.test(uuid));
  } catch {
    return [];
  }
}

function refuses(listener: string): Promise<boolean> {
  const [host, port] = listener.split(':');
  return new Promise((resolve) => {
    const socket = connect({ host: host ?? '', port: Number(port) });
    const done = (isRefused: boolean) => {
      clearTimeout(limit);
      socket.destroy();
      resolve(isRefused);
    };
    const limit = setTimeout(() => done(false), answerLimitMs);
    socket.once('connect', () => done(false));
    socket.once('error', (error: NodeJS.ErrnoException) => done(error.code === 'ECONNREFUSED'));
  });
}
