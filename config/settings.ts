/** The list of all settings. The settings type, the loader, the example file and `trunkline settings` are derived from it. */
import { availableParallelism } from 'node:os';
import path from 'node:path';
import ipaddr from 'ipaddr.js';
import type { Kind } from './kinds.js';
import * as kinds from './kinds.js';

/** A default computed from settings earlier in the list. The value `auto` selects it too. */
export interface Derived<T> {
  /** Description for users: `cores − 1, at least 1`. */
  text: string;
  from(settings: Readonly<Record<string, unknown>>): T;
}

export interface Setting<N extends string, T, D extends string | null | Derived<T>> {
  /** The name in `trunkline.yaml`; the environment variable is `TRUNKLINE_` and the name in capitals. */
  name: N;
  kind: Kind<T>;
  /** As a user would write it; null: not set. */
  default: D;
  unit?: string;
  /** One line of explanation for users. */
  explain: string;
  /** A file that reads the setting; a test checks that it does. */
  readBy: string;
  /** The value is never shown, not even in an error. */
  secret?: true;
}

function setting<const N extends string, T, const D extends string | null | Derived<T>>(
  definition: Setting<N, T, D>,
): Setting<N, T, D> {
  return definition;
}

export const settingsList = [
  setting({
    name: 'http_host',
    kind: kinds.listenAddress,
    default: '127.0.0.1',
    explain: 'Address of the HTTP listener: API, dashboard, metrics.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'http_port',
    kind: kinds.port,
    default: '3000',
    explain: 'Port of the HTTP listener.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'public_url',
    kind: kinds.httpUrl,
    default: null,
    explain: "URL at which other hosts reach the HTTP listener. Unset: the listener's own address.",
    readBy: 'src/cli/commands/start.ts',
  }),
  setting({
    name: 'trusted_proxies',
    kind: kinds.nets,
    default: null,
    explain: 'Proxies whose X-Forwarded-For header is trusted.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'cors_origins',
    kind: kinds.origins,
    default: null,
    explain:
      'Origins of pages that may use the API from a browser, or * for all. Unset: only pages of this server. Cookies are never used or allowed.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'metrics_token',
    kind: kinds.secret(/^[\x21-\x7e]{8,}$/, 'at least 8 visible ASCII characters'),
    default: null,
    explain:
      'Bearer token for GET /metrics from other hosts; not needed from loopback. Unset: /metrics answers on loopback only.',
    readBy: 'src/main.ts',
    secret: true,
  }),
  setting({
    name: 'sip_host',
    kind: kinds.listenIpv4,
    default: '127.0.0.1',
    explain: 'Address of the SIP and RTP sockets; on loopback, calls from this host are trusted.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'sip_port',
    kind: kinds.port,
    default: '5060',
    explain: 'SIP port, UDP and TCP.',
    readBy: 'sip/choose.ts',
  }),
  setting({
    name: 'sip_tls_port',
    kind: kinds.port,
    default: null,
    explain:
      'Port for SIP over TLS; needs sip_tls_certificate and sip_tls_key. Unset: no listener; outbound calls can still use TLS.',
    readBy: 'sip/choose.ts',
  }),
  setting({
    name: 'sip_tls_certificate',
    kind: kinds.file,
    default: null,
    explain: "PEM file with the server's certificate and its chain. Read again when it changes.",
    readBy: 'src/tls-files.ts',
  }),
  setting({
    name: 'sip_tls_key',
    kind: kinds.file,
    default: null,
    explain: "PEM file with the certificate's private key.",
    readBy: 'src/tls-files.ts',
  }),
  setting({
    name: 'sip_tls_ca',
    kind: kinds.file,
    default: null,
    explain: 'PEM file with additional certificate authorities, trusted for carriers and for client certificates.',
    readBy: 'src/tls-files.ts',
  }),
  setting({
    name: 'sip_tls_client_certificates',
    kind: kinds.boolean,
    default: 'false',
    explain: 'Clients of sip_tls_port must present a certificate signed by an authority in sip_tls_ca.',
    readBy: 'src/tls-files.ts',
  }),
  setting({
    name: 'external_ip',
    kind: kinds.ipv4,
    default: null,
    explain: 'Our address in SIP and SDP for peers outside local_nets (behind NAT: the public address).',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'local_nets',
    kind: kinds.nets,
    default:
      '10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10, 127.0.0.0/8, 169.254.0.0/16, fc00::/7, fe80::/10, ::1/128',
    explain: 'Networks that reach this host without NAT.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'sip_server',
    kind: kinds.sipServer,
    default: 'embedded',
    explain:
      'The embedded SIP server, or external drachtio-servers: all of them receive calls, and outbound calls use each in turn.',
    readBy: 'sip/choose.ts',
    secret: true,
  }),
  setting({
    name: 'media_engine',
    kind: kinds.mediaEngine,
    default: 'embedded',
    explain:
      'The embedded media engine, or the event sockets of FreeSWITCH servers: then calls end in the least loaded one, and agents, recordings and prompts stay with the embedded engine.',
    readBy: 'src/main.ts',
    secret: true,
  }),
  setting({
    name: 'trunk_probe_sec',
    kind: kinds.wholeNumber(0, 3600),
    default: '30',
    unit: 's',
    explain:
      'Interval of OPTIONS probes to the gateways of trunks; a gateway that does not answer is tried last. 0 = no probes.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'digest_algorithms',
    kind: kinds.someOf('SHA-256', 'MD5'),
    default: 'MD5',
    explain:
      'Digest algorithms offered to phones, best first. Offering SHA-256 besides MD5 is safer, but some older phones then fail to register.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'rtp_ports',
    kind: kinds.portRange,
    default: '10000-19999',
    explain: "UDP ports for audio, two per call; keep them outside the kernel's ephemeral range.",
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'sync',
    kind: kinds.oneOf('normal', 'full'),
    default: 'normal',
    explain:
      'How safe a commit is: normal survives the end of the process, even kill -9; full also a loss of power, and costs a wait for the disk at each commit.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'hold_grace_sec',
    kind: kinds.wholeNumber(0, 3600),
    default: '60',
    unit: 's',
    explain:
      'How long a metered call goes on, beyond what is paid for, while the database does not answer and no more of the balance can be reserved.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'rtp_first_timeout_sec',
    kind: kinds.wholeNumber(0, 3600),
    default: '30',
    unit: 's',
    explain: 'A call that received no audio ends this long after the answer; 0 = no limit.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'rtp_timeout_sec',
    kind: kinds.wholeNumber(0, 3600),
    default: '30',
    unit: 's',
    explain: 'A call ends this long after its audio stopped (not while on hold); 0 = no limit.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'media_threads',
    kind: kinds.wholeNumber(1, 128),
    default: { text: 'cores - 1, at least 1', from: () => Math.max(1, availableParallelism() - 1) },
    unit: 'threads',
    explain: 'Number of media threads.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'max_calls',
    kind: kinds.wholeNumber(1, 100_000),
    default: null,
    unit: 'calls',
    explain: 'Maximum of concurrent calls; further calls are refused with 503. Unset: no limit.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'max_call_sec',
    kind: kinds.wholeNumber(1, 604_800),
    default: '14400',
    unit: 's',
    explain: 'Maximum duration of a call.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'agent_connect_timeout_sec',
    kind: kinds.wholeNumber(1, 60),
    default: '5',
    unit: 's',
    explain: 'Time limit for an agent to connect and be ready.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'agent_frame_ms',
    kind: kinds.oneOf('20', '40'),
    default: '20',
    unit: 'ms',
    explain: 'Duration of the audio frames sent to agents; `frame_ms` of an endpoint overrides it.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'codecs',
    kind: kinds.someOf('PCMU', 'PCMA', 'G722', 'OPUS'),
    default: 'PCMU, PCMA, G722, OPUS',
    explain: 'Codecs offered to phones, in order of preference; a trunk may select some of them.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'conceal_loss',
    kind: kinds.boolean,
    default: 'true',
    explain:
      'Conceal packets lost from the caller in the audio sent to agents: the voice continues and fades. false: silence instead.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'apology',
    kind: kinds.sentence,
    default: 'We are sorry. This call cannot go on. Please call again.',
    explain: 'Spoken to the caller before the call ends when its agent is lost and no fallback takes over.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'allow_private_targets',
    kind: kinds.boolean,
    default: {
      text: 'auto: true while HTTP and SIP listen on loopback only',
      from: (settings) => isLoopback(settings.httpHost) && isLoopback(settings.sipHost),
    },
    explain: 'Allow private, loopback and link-local addresses for agents and webhooks.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'data_dir',
    kind: kinds.folder,
    default: './data',
    explain: 'Folder for the database and recordings; created if missing.',
    readBy: 'src/cli/doctor/checks.ts',
  }),
  setting({
    name: 'database_url',
    kind: kinds.databaseUrl,
    default: {
      text: 'sqlite:, data_dir and /trunkline.db',
      from: (settings): kinds.DatabaseUrl => ({
        kind: 'sqlite',
        file: path.join(String(settings.dataDir), 'trunkline.db'),
      }),
    },
    explain:
      'The database: a SQLite file, or a PostgreSQL database (14 or later), which several processes on several machines may share. TLS as in ?sslmode=verify-full&sslrootcert=FILE.',
    readBy: 'src/main.ts',
    secret: true,
  }),
  setting({
    name: 'database_pool',
    kind: kinds.wholeNumber(1, 100),
    default: '10',
    explain:
      'Connections to PostgreSQL for the API and background work. Each process has five more: two for long queries, one for what calls write, one for its lease, and one that listens. SQLite ignores this.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'node_name',
    kind: kinds.nodeName,
    default: null,
    explain:
      'Name of this process among those that share the database. Each needs its own; by default it is made from the host name.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'recordings_url',
    kind: kinds.folderUrl,
    default: {
      text: 'file:, data_dir and /recordings',
      from: (settings): { kind: 'file'; folder: string } => ({
        kind: 'file',
        folder: path.join(String(settings.dataDir), 'recordings'),
      }),
    },
    explain: 'Location of call recordings: stereo WAV files, in one subfolder per day.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'secrets_key',
    kind: kinds.secret(/^[\x21-\x7e]{16,}$/, 'at least 16 visible ASCII characters'),
    default: null,
    explain:
      'Key that encrypts the secrets of endpoints and trunks in the database; existing plain-text secrets are encrypted at start. Keep it: without it they cannot be read.',
    readBy: 'src/main.ts',
    secret: true,
  }),
  setting({
    name: 'bootstrap_key',
    kind: kinds.secret(/^trunkline_live_[0-9A-Za-z]{32}$/, 'trunkline_live_ followed by 32 letters and digits'),
    default: null,
    explain: 'The first API key of an empty database. Unset: one is generated and printed once.',
    readBy: 'src/first-start.ts',
    secret: true,
  }),
  setting({
    name: 'jwt_issuer',
    kind: kinds.texts,
    default: null,
    explain: 'Issuers whose JWTs are accepted besides API keys; requires jwt_audience and jwks_url.',
    readBy: 'src/api/auth/token-settings.ts',
  }),
  setting({
    name: 'jwt_audience',
    kind: kinds.text,
    default: null,
    explain: 'The audience that a JWT must name.',
    readBy: 'src/api/auth/token-settings.ts',
  }),
  setting({
    name: 'jwks_url',
    kind: kinds.httpUrl,
    default: null,
    explain: "URL of the identity provider's public keys (JWKS).",
    readBy: 'src/api/auth/token-settings.ts',
  }),
  setting({
    name: 'oidc_client_id',
    kind: kinds.text,
    default: null,
    explain:
      'Client id of the dashboard at the first jwt_issuer (public client, PKCE). Unset: people sign in with an API key only.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'redis_url',
    kind: kinds.redisUrl,
    default: null,
    explain:
      'Redis that several nodes share: limits of requests and calls per second are counted there, and phones that register with one node can be called through all. Unset: each node counts its own, and knows its own phones. Needs the package ioredis.',
    readBy: 'src/main.ts',
    secret: true,
  }),
  setting({
    name: 'otel_endpoint',
    kind: kinds.httpUrl,
    default: null,
    explain:
      'OpenTelemetry collector that takes traces of calls as OTLP/HTTP, such as http://127.0.0.1:4318; /v1/traces is added. Unset: no traces.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'transcription_url',
    kind: kinds.httpUrl,
    default: null,
    explain:
      'OpenAI-compatible transcription server, such as https://api.openai.com/v1. Unset: the offline recognition, if `trunkline setup speech` has installed it.',
    readBy: 'src/transcription/choose.ts',
  }),
  setting({
    name: 'transcription_key',
    kind: kinds.secret(/^[\x21-\x7e]+$/, 'visible ASCII characters'),
    default: null,
    explain: 'API key of the transcription server.',
    readBy: 'src/transcription/choose.ts',
    secret: true,
  }),
  setting({
    name: 'transcription_model',
    kind: kinds.text,
    default: 'whisper-1',
    explain: 'Model for transcription.',
    readBy: 'src/transcription/choose.ts',
  }),
  setting({
    name: 'transcribe_calls',
    kind: kinds.boolean,
    default: 'false',
    explain:
      'Transcribes calls with agents whose provider gives no transcript, both sides. An endpoint decides for itself by provider_config.transcribe.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'translation_model',
    kind: kinds.text,
    default: 'gpt-4o-mini',
    explain: 'Chat model for translations.',
    readBy: 'src/transcription/choose.ts',
  }),
  setting({
    name: 'translation_url',
    kind: kinds.httpUrl,
    default: null,
    explain:
      'OpenAI-compatible chat server for translations, such as http://127.0.0.1:11434/v1. Unset: the transcription server.',
    readBy: 'src/transcription/choose.ts',
  }),
  setting({
    name: 'translation_key',
    kind: kinds.secret(/^[\x21-\x7e]+$/, 'visible ASCII characters'),
    default: null,
    explain: 'API key of translation_url.',
    readBy: 'src/transcription/choose.ts',
    secret: true,
  }),
  setting({
    name: 'tts_url',
    kind: kinds.httpUrl,
    default: null,
    explain:
      'OpenAI-compatible speech server (/v1/audio/speech) for texts of webhooks and for `apology`. Unset, or while it fails: the offline voice.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'tts_key',
    kind: kinds.secret(/^[\x21-\x7e]+$/, 'visible ASCII characters'),
    default: null,
    explain: 'API key of the speech server.',
    readBy: 'src/main.ts',
    secret: true,
  }),
  setting({
    name: 'tts_model',
    kind: kinds.text,
    default: 'tts-1',
    explain: 'Model of the speech server.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'log_level',
    kind: kinds.oneOf('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'),
    default: 'info',
    explain: 'Lowest level of log lines that are written.',
    readBy: 'src/main.ts',
  }),
  setting({
    name: 'shutdown_grace_sec',
    kind: kinds.wholeNumber(0, 86_400),
    default: '600',
    unit: 's',
    explain: 'After SIGTERM, live calls may continue for this long.',
    readBy: 'src/cli/commands/start.ts',
  }),
  setting({
    name: 'shutdown_notice_sec',
    kind: kinds.wholeNumber(0, 600),
    default: {
      text: '5 with a PostgreSQL database, which other nodes may share; otherwise 0',
      from: ({ databaseUrl }): number => ((databaseUrl as kinds.DatabaseUrl | undefined)?.kind === 'postgres' ? 5 : 0),
    },
    unit: 's',
    explain:
      'After SIGTERM, readiness and OPTIONS say 503 for this long before new calls are refused: longer than a balancer in front takes to notice.',
    readBy: 'src/main.ts',
  }),
] as const;

/** Variables of the command line tool; environment only. */
export const toolVariables: readonly { env: string; explain: string }[] = [
  { env: 'TRUNKLINE_CONFIG', explain: 'Path of the settings file. Default: ./trunkline.yaml, when it exists.' },
  { env: 'TRUNKLINE_API_KEY', explain: 'API key for commands that call a running server.' },
];

type Definition = (typeof settingsList)[number];
type Camel<S extends string> = S extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<Camel<Tail>>}` : S;
type ValueOf<S> = S extends Setting<string, infer T, infer D> ? (null extends D ? T | null : T) : never;

/** All settings, read and checked: `http_port` is `httpPort`. null: not set and without a default. */
export type Settings = { readonly [D in Definition as Camel<D['name']>]: ValueOf<D> };

export function environmentName(name: string): string {
  return `TRUNKLINE_${name.toUpperCase()}`;
}

/** `http_port` → `httpPort`. */
export function propertyName(name: string): string {
  return name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
}

/** The default as shown to users. */
export function defaultText(definition: Definition): string {
  const value: string | null | Derived<unknown> = definition.default;
  return value === null ? 'none' : typeof value === 'string' ? value : value.text;
}

function isLoopback(address: unknown): boolean {
  return typeof address === 'string' && ipaddr.isValid(address) && ipaddr.process(address).range() === 'loopback';
}
