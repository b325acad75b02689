/** What commands get from the outside, so that tests can stand in for it, and from the options all commands share. */
import type { Command } from 'commander';
import { loadSettings } from '../../config/load.js';
import type { Settings } from '../../config/settings.js';
import { type Api, openApi } from './api.js';
import type { Machine } from './doctor/machine.js';
import { CliFailure } from './failure.js';

export interface CliContext {
  env: Readonly<Record<string, string | undefined>>;
  out(line: string): void;
  err(line: string): void;
  /** For `doctor`; default: this machine. */
  machine?: Machine;
}

/** Options of every command. */
interface SharedOptions {
  json?: boolean;
  config?: string;
  url?: string;
  key?: string;
}

/** What a command's action works with. */
export interface CommandContext {
  readonly json: boolean;
  settings(): Settings;
  /** Needs a key. */
  api(): Api;
  /** `http://HOST:PORT` of the server in question. */
  baseUrl(): string;
  lines(lines: readonly string[]): void;
  /** The machine's form of an answer: one JSON document. */
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
        throw new CliFailure('The API key has characters that no key has.').as('NO_API_KEY');
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

/** Where the local server listens; an address for "all" is reached on loopback. */
function listenerUrl(settings: Settings): string {
  const host = { '0.0.0.0': '127.0.0.1', '::': '::1' }[settings.httpHost] ?? settings.httpHost;
  return `http://${host.includes(':') ? `[${host}]` : host}:${settings.httpPort}`;
}
