/** The context of commands: the environment, which tests can replace, and the options shared by all commands. */
import type { Command } from 'commander';
import { loadSettings } from '../../config/load.js';
import type { Settings } from '../../config/settings.js';
import type { SpeechPack } from '../transcription/offline/packages.js';
import type { NpmConfig } from '../transcription/offline/registry.js';
import { type Api, openApi } from './api.js';
import type { Machine } from './doctor/machine.js';
import { CliFailure } from './failure.js';

export interface CliContext {
  env: Readonly<Record<string, string | undefined>>;
  out(line: string): void;
  err(line: string): void;
  /** The machine that `doctor` examines. Default: this machine. */
  machine?: Machine;
  /** What `setup speech` fetches. Default: the pack for this machine. */
  speechPack?: SpeechPack;
  /** The configuration of npm. Default: asks npm. */
  npmConfig?: NpmConfig;
}

/** The options of every command. */
interface SharedOptions {
  json?: boolean;
  config?: string;
  url?: string;
  key?: string;
}

/** The context of a command's action. */
export interface CommandContext {
  readonly json: boolean;
  settings(): Settings;
  /** The API client. Throws without an API key. */
  api(): Api;
  /** The base URL of the server, `http://HOST:PORT`. */
  baseUrl(): string;
  lines(lines: readonly string[]): void;
  /** Prints the output as one JSON document. */
  value(value: unknown): void;
}

export function openSession(context: CliContext, command: Command): CommandContext {
  const options: SharedOptions = command.optsWithGlobals();
  let settings: Settings | undefined;
  const session: CommandContext = {
    json: options.json === true,
    settings: () => {
      settings ??= loadSettings({ env: context.env, configPath: options.config });
      return settings;
    },
    baseUrl: () => (options.url ? givenUrl(options.url) : listenerUrl(session.settings())),
    api: () => {
      const key = options.key ?? context.env.TRUNKLINE_API_KEY?.trim();
      if (!key)
        throw new CliFailure('No API key: set TRUNKLINE_API_KEY (the first start prints one) or give --key.').as(
          'NO_API_KEY',
        );
      if (!/^[\x21-\x7e]+$/.test(key))
        throw new CliFailure('The API key contains invalid characters.').as('NO_API_KEY');
      return openApi(session.baseUrl(), key);
    },
    lines: (lines) => {
      for (const line of lines) context.out(line);
    },
    value: (value) => context.out(JSON.stringify(value, null, 2)),
  };
  return session;
}

function givenUrl(text: string): string {
  if (!URL.canParse(text) || !/^https?:/.test(text))
    throw new CliFailure(`--url: ${JSON.stringify(text)} is not an http: or https: URL`).as('USAGE');
  return text.replace(/\/+$/, '').replace(/\/v1$/, '');
}

/** The URL of the local server; loopback if it listens on all addresses. */
function listenerUrl(settings: Settings): string {
  const host = { '0.0.0.0': '127.0.0.1', '::': '::1' }[settings.httpHost] ?? settings.httpHost;
  return `http://${host.includes(':') ? `[${host}]` : host}:${settings.httpPort}`;
}
