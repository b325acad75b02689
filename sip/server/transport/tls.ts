/** TLS for SIP (RFC 3261 26.3, RFC 5922): our certificate, the trusted authorities, and readable errors. */
import { isIP } from 'node:net';
import tls from 'node:tls';
import type { TlsPeer } from './path.js';

/** TLS settings for one carrier, as PEM. */
export interface TlsTrust {
  /** Authorities for its certificate, instead of the public ones and the server's. */
  ca?: string;
  /** Our client certificate for this carrier, instead of the server's. */
  certificate?: string;
  key?: string;
}

/** PEM throughout. */
export interface TlsSettings {
  /** With its chain. Without it there is no TLS listener; outbound connections still work. */
  certificate?: string;
  key?: string;
  /** Authorities trusted besides the public ones for carriers, and those of client certificates. */
  ca?: string;
  /** Requires a client certificate of these authorities. Applied when the listener opens; later changes have no effect. */
  requireClientCertificate?: boolean;
  /** By the name in `TlsPeer.trust`. */
  trust?: Readonly<Record<string, TlsTrust>>;
}

/** RFC 8996 deprecates older versions. */
const minVersion = 'TLSv1.2';
export class TlsContexts {
  private readonly clients = new Map<string, tls.SecureContext>();

  /**
   * Throws when our certificate, key or authorities cannot be read. An inbound connection whose handshake takes longer than
   * `handshakeLimitMs` is closed.
   */
  constructor(
    private settings: TlsSettings,
    private readonly handshakeLimitMs: number,
  ) {
    check(settings);
  }

  get mayListen(): boolean {
    return this.settings.certificate !== undefined && this.settings.key !== undefined;
  }

  /** Replaces the settings for new connections. Throws, and changes nothing, when they cannot be read. */
  replace(settings: TlsSettings): void {
    check(settings);
    this.settings = settings;
    this.clients.clear();
  }

  server(): tls.TlsOptions {
    const { certificate, key, ca, requireClientCertificate = false } = this.settings;
    return {
      cert: certificate,
      key,
      minVersion,
      handshakeTimeout: this.handshakeLimitMs,
      requestCert: requireClientCertificate,
      rejectUnauthorized: requireClientCertificate,
      ...(ca === undefined ? {} : { ca }),
    };
  }

  client(peer: TlsPeer): tls.ConnectionOptions {
    return {
      secureContext: this.context(peer.trust),
      ...(isIP(peer.name) ? {} : { servername: peer.name }),
      rejectUnauthorized: true,
      checkServerIdentity: (_host, certificate) => mismatch(peer.name, certificate),
    };
  }

  private context(name: string): tls.SecureContext {
    let context = this.clients.get(name);
    if (!context) {
      context = clientContext(this.settings, this.settings.trust?.[name] ?? {});
      this.clients.set(name, context);
    }
    return context;
  }
}

/** A carrier's own settings are not checked here but when it is called: an error in them must not affect the others. */
function check({ certificate, key, ca }: TlsSettings): void {
  tls.createSecureContext({ cert: certificate, key, ca });
}

function clientContext(own: TlsSettings, trust: TlsTrust): tls.SecureContext {
  const shown = trust.certificate === undefined ? own : trust;
  const ca = trust.ca ?? (own.ca === undefined ? undefined : [...tls.rootCertificates, own.ca]);
  return tls.createSecureContext({ cert: shown.certificate, key: shown.key, ca, minVersion });
}

/** RFC 5922 7.1: a `sip:` URI in the certificate names the domain; a DNS name or address does as well. */
function mismatch(name: string, certificate: tls.PeerCertificate): Error | undefined {
  const uris = (certificate.subjectaltname ?? '').matchAll(/URI:sips?:([^,"@;]+)/gi);
  for (const [, domain] of uris) if (domain?.toLowerCase() === name.toLowerCase()) return undefined;
  return tls.checkServerIdentity(name, certificate);
}

const sentences: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: 'its certificate has expired',
  CERT_NOT_YET_VALID: 'its certificate is not valid yet',
  CERT_REVOKED: 'its certificate was revoked',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is signed by itself, and not trusted',
  SELF_SIGNED_CERT_IN_CHAIN: 'its certificate comes from an authority that is not trusted',
  UNABLE_TO_GET_ISSUER_CERT: 'its certificate comes from an authority that is not trusted',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'its certificate comes from an authority that is not trusted',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'its certificate comes from an authority that is not trusted',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another name',
  ERR_SSL_WRONG_VERSION_NUMBER: 'it does not speak TLS there',
  ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED: 'it wants a certificate of ours',
  ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE: 'it does not accept our certificate',
  ERR_SSL_TLSV1_ALERT_UNKNOWN_CA: 'it does not trust the authority of our certificate',
  ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE: 'it refused the handshake',
  ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION: 'it has no TLS version in common with us',
  ERR_SSL_UNSUPPORTED_PROTOCOL: 'it has no TLS version in common with us',
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'it hung up',
  EHOSTUNREACH: 'no route to it',
  ENETUNREACH: 'no route to it',
};

/** Why a connection failed, as the end of a sentence. */
export function connectionFailure(error: Error): string {
  const { code } = error as NodeJS.ErrnoException;
  return sentences[code ?? ''] ?? error.message.split('\n', 1)[0] ?? 'for an unknown reason';
}
