/** The types of setting values: each describes the values it allows, and reads a value from text. */
import { isIP, isIPv4 } from 'node:net';
import path from 'node:path';
import ipaddr from 'ipaddr.js';

/** `read` returns undefined for a value that is not allowed; it never throws. */
export interface Kind<T> {
  /** Short name for the table of settings: `port`, `IPv4 address`. */
  name: string;
  /** The allowed values, as the end of the sentence "allowed: …". */
  allowed: string;
  read(text: string): T | undefined;
}

/** The control port of a drachtio-server. */
export interface DrachtioAddress {
  host: string;
  port: number;
  secret: string;
}

/** The event socket of a FreeSWITCH. */
export interface FreeSwitchAddress {
  host: string;
  port: number;
  password: string;
  /** Its public address, for the SDP of phones outside `local_nets`; null: that of the settings. */
  externalIp: string | null;
  /** How agents get audio: over RTP to our engine, or from FreeSWITCH's mod_audio_fork. */
  agentAudio: 'rtp' | 'fork';
}

export interface PortRange {
  from: number;
  to: number;
}

export function wholeNumber(min: number, max: number): Kind<number> {
  return {
    name: 'whole number',
    allowed: `a whole number from ${min} to ${max}`,
    read: (text) => {
      if (!/^-?\d{1,15}$/.test(text)) return undefined;
      const value = Number(text);
      return value >= min && value <= max ? value : undefined;
    },
  };
}

export function oneOf<const W extends string>(...words: W[]): Kind<W> {
  return { name: 'word', allowed: words.join(', '), read: (text) => words.find((word) => word === text) };
}

/** A list of at least one of the words, in order of preference, each once. */
export function someOf<const W extends string>(...words: W[]): Kind<readonly W[]> {
  return {
    name: 'words',
    allowed: `${words.join(', ')}, comma-separated`,
    read: (text) => {
      const list = listOf(text).map((item) => words.find((word) => word === item));
      return list.length > 0 && new Set(list).size === list.length && list.every((word) => word !== undefined)
        ? (list as W[])
        : undefined;
    },
  };
}

export const boolean: Kind<boolean> = {
  name: 'true or false',
  allowed: 'true or false',
  read: (text) => (text === 'true' ? true : text === 'false' ? false : undefined),
};

/** 0 means any free port. */
export const port: Kind<number> = {
  ...wholeNumber(0, 65535),
  name: 'port',
  allowed: 'a port from 1 to 65535, or 0 for any free one',
};

export const listenAddress: Kind<string> = {
  name: 'IP address',
  allowed: 'an IP address of this host, localhost, 0.0.0.0 (all IPv4) or :: (all)',
  read: (text) => (text === 'localhost' ? '127.0.0.1' : isIP(text) ? text : undefined),
};

/** IPv4 only: media over IPv6 is not implemented, and calls would fail later. */
export const listenIpv4: Kind<string> = {
  name: 'IPv4 address',
  allowed: 'an IPv4 address of this host, localhost, or 0.0.0.0 for all',
  read: (text) => (text === 'localhost' ? '127.0.0.1' : isIPv4(text) ? text : undefined),
};

export const ipv4: Kind<string> = {
  name: 'IPv4 address',
  allowed: 'an IPv4 address such as 203.0.113.5',
  read: (text) => (isIPv4(text) && text !== '0.0.0.0' ? text : undefined),
};

/** A single address counts as a network of one. */
export const nets: Kind<readonly string[]> = {
  name: 'CIDRs',
  allowed: 'networks such as 10.0.0.0/8, comma-separated',
  read: (text) => {
    const list = listOf(text).map((net) => (isIP(net) ? `${net}/${isIPv4(net) ? 32 : 128}` : net));
    return list.every((net) => ipaddr.isValidCIDR(net)) ? list : undefined;
  },
};

export const portRange: Kind<PortRange> = {
  name: 'port range',
  allowed: 'FIRST-LAST between 1024 and 65535, at least 4 ports',
  read: (text) => {
    const match = /^(\d{1,5})\s*-\s*(\d{1,5})$/.exec(text);
    if (!match) return undefined;
    const [from, to] = [Number(match[1]), Number(match[2])];
    return from >= 1024 && to <= 65535 && to - from >= 3 ? { from, to } : undefined;
  },
};

export const text: Kind<string> = {
  name: 'text',
  allowed: 'a text without spaces',
  read: (value) => (/^\S{1,200}$/.test(value) ? value : undefined),
};

/** `off` reads as the empty text. */
export const nodeName: Kind<string> = {
  name: 'name',
  allowed: '1 to 63 letters, digits, dots, hyphens and underscores',
  read: (value) => (/^[A-Za-z0-9._-]{1,63}$/.test(value) ? value : undefined),
};

export const sentence: Kind<string> = {
  name: 'sentence',
  allowed: 'a sentence of up to 300 characters, or off',
  read: (value) => (value === 'off' ? '' : /^[^\p{C}]{1,300}$/u.test(value) ? value : undefined),
};

/** Resolved to an absolute path, relative to the working directory. */
export const folder: Kind<string> = {
  name: 'path',
  allowed: 'a path',
  read: (text) => (text.includes('\0') ? undefined : path.resolve(text)),
};

export const file: Kind<string> = { ...folder, allowed: 'the path of a file' };

export type DatabaseUrl = { kind: 'sqlite'; file: string } | { kind: 'postgres'; url: string };

export const databaseUrl: Kind<DatabaseUrl> = {
  name: 'URL',
  allowed:
    'sqlite: and the path of a file, such as sqlite:./data/trunkline.db, or postgres://USER:PASSWORD@HOST:5432/DATABASE',
  read: (text) => {
    if (/^postgres(ql)?:\/\//.test(text))
      return URL.canParse(text) && new URL(text).pathname.length > 1 ? { kind: 'postgres', url: text } : undefined;
    const file = /^sqlite:(?:\/\/(?=[/.]))?(.+)$/.exec(text)?.[1];
    return file && !file.includes('\0') ? { kind: 'sqlite', file: path.resolve(file) } : undefined;
  },
};

export const folderUrl: Kind<{ kind: 'file'; folder: string }> = {
  name: 'URL',
  allowed: 'file: and the path of a folder, such as file:./data/recordings',
  read: (text) => {
    const folder = /^file:(?:\/\/(?=[/.]))?(.+)$/.exec(text)?.[1];
    return folder && !folder.includes('\0') ? { kind: 'file', folder: path.resolve(folder) } : undefined;
  },
};

/** Without a trailing slash, so that paths can be appended. */
export const httpUrl: Kind<string> = {
  name: 'URL',
  allowed: 'an http: or https: URL without query, such as https://voice.example.com',
  read: (text) => {
    if (!URL.canParse(text)) return undefined;
    const url = new URL(text);
    const plain = !url.search && !url.hash && !url.username && !url.password;
    return /^https?:$/.test(url.protocol) && plain ? url.href.replace(/\/+$/, '') : undefined;
  },
};

/** What browsers send as `Origin`, or a star for all. */
export const origins: Kind<readonly string[]> = {
  name: 'origins',
  allowed: 'origins such as https://app.example.com, without a path, comma-separated, or * alone for all',
  read: (text) => {
    const list = listOf(text);
    if (list.length === 1 && list[0] === '*') return list;
    const isOrigin = (each: string) =>
      URL.canParse(each) && /^https?:[^*]+$/.test(each) && new URL(each).origin === each;
    return list.length > 0 && list.every(isOrigin) ? list : undefined;
  },
};

export const texts: Kind<readonly string[]> = {
  name: 'texts',
  allowed: 'texts, comma-separated',
  read: (value) => {
    const list = listOf(value);
    return list.length > 0 ? list : undefined;
  },
};

export const redisUrl: Kind<string> = {
  name: 'URL',
  allowed: 'redis: or rediss: and a host, such as redis://127.0.0.1:6379',
  read: (value) => (URL.canParse(value) && /^rediss?:$/.test(new URL(value).protocol) ? value : undefined),
};

export const sipServer: Kind<'embedded' | readonly DrachtioAddress[]> = {
  name: 'word or URLs',
  allowed: 'embedded, or drachtio://:SECRET@HOST:9022 (several, comma-separated)',
  read: (text) => {
    if (text === 'embedded') return 'embedded';
    const addresses = listOf(text).map(drachtioAddress);
    return addresses.length > 0 && addresses.every((address) => address !== undefined) ? addresses : undefined;
  },
};

export function secret(pattern: RegExp, allowed: string): Kind<string> {
  return { name: 'secret', allowed, read: (text) => (pattern.test(text) ? text : undefined) };
}

export const mediaEngine: Kind<'embedded' | readonly FreeSwitchAddress[]> = {
  name: 'word or URLs',
  allowed:
    'embedded, or freeswitch://:PASSWORD@HOST:8021 (several, comma-separated; behind NAT with ?external_ip=IPV4; ?agent_audio=fork: by mod_audio_fork)',
  read: (text) => {
    if (text === 'embedded') return 'embedded';
    const addresses = listOf(text).map(freeSwitchAddress);
    return addresses.length > 0 && addresses.every((address) => address !== undefined) ? addresses : undefined;
  },
};

function drachtioAddress(text: string): DrachtioAddress | undefined {
  const control = controlAddress(text, 'drachtio:', 9022);
  if (control === undefined || control.options.size > 0) return undefined;
  return { host: control.host, port: control.port, secret: control.password };
}

/** The event socket reads lines: a password that holds one cannot be sent. */
function freeSwitchAddress(text: string): FreeSwitchAddress | undefined {
  const control = controlAddress(text, 'freeswitch:', 8021);
  if (control === undefined || /[\r\n]/.test(control.password)) return undefined;
  const { options, ...address } = control;
  const externalIp = options.get('external_ip');
  const agentAudio = options.get('agent_audio') ?? 'rtp';
  const isKnown = [...options.keys()].every((name) => name === 'external_ip' || name === 'agent_audio');
  if (!isKnown || (externalIp !== null && !isIPv4(externalIp))) return undefined;
  if (agentAudio !== 'rtp' && agentAudio !== 'fork') return undefined;
  return { ...address, externalIp, agentAudio };
}

function controlAddress(
  text: string,
  protocol: string,
  usualPort: number,
): { host: string; port: number; password: string; options: URLSearchParams } | undefined {
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  const isPlain = (!url.pathname || url.pathname === '/') && !url.hash;
  if (url.protocol !== protocol || !url.hostname || !url.password || !isPlain) return undefined;
  try {
    const { hostname: host, searchParams: options } = url;
    return { host, port: Number(url.port || usualPort), password: decodeURIComponent(url.password), options };
  } catch {
    return undefined; // a malformed % escape in the password
  }
}

function listOf(text: string): string[] {
  return text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
}
