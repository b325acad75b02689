/** Which SIP server is used: the embedded one, or the external drachtio-servers of the settings. */
import type { Settings } from '../config/settings.js';
import type { SipGatewayOptions } from './gateway.js';
import type { SipServerOptions } from './server/protocol.js';

export interface EmbeddedServerOptions {
  tls: NonNullable<SipServerOptions['tls']>;
  /** How late the media threads run, in ms; new calls are refused while they are overloaded. */
  mediaLagMs(): number;
  limits?: SipServerOptions['limits'];
  trusted?: readonly string[];
  timersMs?: SipServerOptions['timersMs'];
}

/** The `server` option of `openSipGateway`. `embedded` has no effect on an external server. */
export function chooseSipServer(
  settings: Pick<Settings, 'sipServer' | 'sipHost' | 'sipPort' | 'sipTlsPort'>,
  embedded: EmbeddedServerOptions,
): SipGatewayOptions['server'] {
  const { sipServer, sipHost: host, sipPort: port, sipTlsPort } = settings;
  if (sipServer !== 'embedded') return { kind: 'drachtio', servers: sipServer, mediaHost: host };
  const { limits, trusted, timersMs } = embedded;
  return {
    kind: 'embedded',
    listen: [
      { transport: 'udp', host, port },
      { transport: 'tcp', host, port },
      ...(sipTlsPort === null ? [] : [{ transport: 'tls' as const, host, port: sipTlsPort }]),
    ],
    tls: embedded.tls,
    mediaLagMs: () => embedded.mediaLagMs(),
    limits: limits ?? {},
    ...(trusted === undefined ? {} : { trusted }),
    ...(timersMs === undefined ? {} : { timersMs }),
  };
}
