/** The TLS certificate, key and authorities of the settings: read at the start and reloaded when a file changes. */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import type { Settings } from '../config/settings.js';
import type { Logger } from './log.js';

/** PEM. */
export interface TlsPems {
  certificate?: string;
  key?: string;
  ca?: string;
  requireClientCertificate: boolean;
}

type TlsFileSettings = Pick<
  Settings,
  'sipTlsPort' | 'sipTlsCertificate' | 'sipTlsKey' | 'sipTlsCa' | 'sipTlsClientCertificates'
>;

/** The interval at which files are checked for changes. */
const lookEveryMs = 30_000;
const dayMs = 86_400_000;
const warnDays = 14;

export class TlsFiles {
  #current: TlsPems;
  #stamp: string;
  #warnedAtMs = 0;
  readonly #timer: NodeJS.Timeout;

  /** Throws one clear sentence when a file is missing, cannot be read, or does not belong to the others. */
  constructor(
    private readonly settings: TlsFileSettings,
    private readonly log: Logger,
    private readonly onChange: () => void,
    everyMs = lookEveryMs,
  ) {
    this.#stamp = this.#stampNow();
    this.#current = readTlsFiles(settings);
    this.#warn();
    this.#timer = setInterval(() => this.look(), everyMs).unref();
  }

  get current(): TlsPems {
    return this.#current;
  }

  /** Reloads the files if one of them changed. If they are unusable, this is logged and the old ones stay in use. */
  look(): void {
    this.#warn();
    const stamp = this.#stampNow();
    if (stamp === this.#stamp) return;
    this.#stamp = stamp;
    try {
      this.#current = readTlsFiles(this.settings);
    } catch (error) {
      this.log.error({ err: (error as Error).message }, 'the changed TLS files cannot be used: the old ones stay');
      return;
    }
    this.log.info({}, 'TLS files read again');
    this.onChange();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #stampNow(): string {
    const { sipTlsCertificate, sipTlsKey, sipTlsCa } = this.settings;
    return [sipTlsCertificate, sipTlsKey, sipTlsCa]
      .map((file) => {
        const found = file === null ? undefined : statSync(file, { throwIfNoEntry: false });
        return found ? `${found.mtimeMs} ${found.size} ${found.ino}` : '';
      })
      .join('|');
  }

  /** Once a day, while the certificate is about to expire. */
  #warn(): void {
    const { certificate } = this.#current ?? {};
    if (certificate === undefined || Date.now() - this.#warnedAtMs < dayMs) return;
    const { validTo } = new X509Certificate(certificate);
    const days = Math.floor((Date.parse(validTo) - Date.now()) / dayMs);
    if (days > warnDays) return;
    this.#warnedAtMs = Date.now();
    this.log.warn({ valid_to: validTo, days }, 'the SIP certificate expires soon, or has expired');
  }
}

/** Throws one clear sentence. */
export function readTlsFiles(settings: TlsFileSettings): TlsPems {
  const { sipTlsPort, sipTlsCertificate, sipTlsKey, sipTlsCa, sipTlsClientCertificates } = settings;
  if ((sipTlsCertificate === null) !== (sipTlsKey === null))
    throw new Error('TRUNKLINE_SIP_TLS_CERTIFICATE and TRUNKLINE_SIP_TLS_KEY are set together or not at all.');
  if (sipTlsPort !== null && sipTlsCertificate === null)
    throw new Error('TRUNKLINE_SIP_TLS_PORT needs TRUNKLINE_SIP_TLS_CERTIFICATE and TRUNKLINE_SIP_TLS_KEY.');
  if (sipTlsClientCertificates && sipTlsCa === null)
    throw new Error('TRUNKLINE_SIP_TLS_CLIENT_CERTIFICATES needs TRUNKLINE_SIP_TLS_CA: who signs the certificates.');
  const certificate = sipTlsCertificate === null ? undefined : read('TRUNKLINE_SIP_TLS_CERTIFICATE', sipTlsCertificate);
  const key = sipTlsKey === null ? undefined : read('TRUNKLINE_SIP_TLS_KEY', sipTlsKey);
  const ca = sipTlsCa === null ? undefined : read('TRUNKLINE_SIP_TLS_CA', sipTlsCa);
  const parsed = certificate && understood('TRUNKLINE_SIP_TLS_CERTIFICATE', () => new X509Certificate(certificate));
  const ours = key && understood('TRUNKLINE_SIP_TLS_KEY', () => createPrivateKey(key));
  if (ca !== undefined) understood('TRUNKLINE_SIP_TLS_CA', () => new X509Certificate(ca));
  if (parsed && ours && !parsed.checkPrivateKey(ours))
    throw new Error('TRUNKLINE_SIP_TLS_KEY does not belong to TRUNKLINE_SIP_TLS_CERTIFICATE.');
  return {
    requireClientCertificate: sipTlsClientCertificates,
    ...(certificate === undefined ? {} : { certificate }),
    ...(key === undefined ? {} : { key }),
    ...(ca === undefined ? {} : { ca }),
  };
}

function read(name: string, file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new Error(`${name}: ${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown'}).`);
  }
}

function understood<T>(name: string, parse: () => T): T {
  try {
    return parse();
  } catch {
    throw new Error(`${name}: the file is not what it should be, in PEM.`);
  }
}
