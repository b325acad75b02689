/** Reads the settings from `trunkline.yaml` and the environment; the environment overrides the file. All errors are reported together. */
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { type Document, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml';
import { nearest } from './nearest.js';
import { environmentName, propertyName, type Settings, settingsList, toolVariables } from './settings.js';

/** Every wrong setting, one line each. `message` joins the lines. */
export class SettingsError extends Error {
  constructor(readonly lines: readonly string[]) {
    super(lines.join('\n'));
    this.name = 'SettingsError';
  }
}

export interface SettingsSource {
  env: Readonly<Record<string, string | undefined>>;
  /** From `--config`; the file must exist. Default: TRUNKLINE_CONFIG, then `./trunkline.yaml` when it exists. */
  configPath?: string;
}

/** A setting's value as given in one place. */
interface Given {
  text: string;
  /** For the error line: `TRUNKLINE_HTTP_PORT`, `http_port in trunkline.yaml, line 3`. */
  place: string;
}

/** Reads, checks and completes all settings. Throws `SettingsError`. */
export function loadSettings(source: SettingsSource): Settings {
  const problems: string[] = [];
  const given = new Map([...fromFile(source, problems), ...fromEnvironment(source.env, problems)]);
  const settings: Record<string, unknown> = {};
  for (const definition of settingsList) {
    const property = propertyName(definition.name);
    const told = given.get(definition.name);
    const fallback: unknown = definition.default;
    if (told && !(told.text === 'auto' && isDerived(fallback))) {
      settings[property] = definition.kind.read(told.text);
      if (settings[property] === undefined) {
        const shown = definition.secret ? 'the value (hidden)' : JSON.stringify(told.text);
        problems.push(`${told.place}: ${shown} is not allowed; allowed: ${definition.kind.allowed}`);
      }
    } else if (isDerived(fallback)) settings[property] = fallback.from(settings);
    else settings[property] = fallback === null ? null : definition.kind.read(String(fallback));
  }
  if (problems.length === 0) problems.push(...conflicts(settings as Settings));
  if (problems.length > 0) throw new SettingsError(problems);
  return Object.freeze(settings) as Settings;
}

function isDerived(value: unknown): value is { from(settings: Readonly<Record<string, unknown>>): unknown } {
  return typeof value === 'object' && value !== null && 'from' in value;
}

/** Settings that are allowed separately but not together. */
function conflicts(settings: Settings): string[] {
  const found: string[] = [];
  const { from, to } = settings.rtpPorts;
  if (settings.sipPort >= from && settings.sipPort <= to) {
    found.push(
      `TRUNKLINE_SIP_PORT: ${settings.sipPort} lies inside TRUNKLINE_RTP_PORTS (${from}-${to}); move one of them`,
    );
  }
  const sameHost = settings.httpHost === settings.sipHost || [settings.httpHost, settings.sipHost].some(isAnyAddress);
  if (settings.httpPort !== 0 && settings.httpPort === settings.sipPort && sameHost) {
    found.push(
      `TRUNKLINE_HTTP_PORT: ${settings.httpPort} is TRUNKLINE_SIP_PORT too (SIP listens on TCP as well); change one of them`,
    );
  }
  return found;
}

function isAnyAddress(address: string): boolean {
  return address === '0.0.0.0' || address === '::';
}

function fromEnvironment(env: SettingsSource['env'], problems: string[]): Map<string, Given> {
  const names = new Map<string, string>(settingsList.map(({ name }) => [environmentName(name), name]));
  const known = [...names.keys(), ...toolVariables.map((variable) => variable.env)];
  const given = new Map<string, Given>();
  for (const [variable, value] of Object.entries(env)) {
    const text = value?.trim();
    if (!variable.startsWith('TRUNKLINE_') || !text) continue; // empty: a compose file passes unset variables like this
    const name = names.get(variable);
    if (name) given.set(name, { text, place: variable });
    else if (!known.includes(variable) && !isServiceLink(variable, text)) {
      problems.push(unknown(variable, variable, 'variable', known));
    }
  }
  return given;
}

/** Kubernetes sets such variables in every pod of a namespace with a Service whose name starts with "trunkline". */
function isServiceLink(variable: string, text: string): boolean {
  return (
    /_SERVICE_(HOST|PORT)(_|$)/.test(variable) ||
    /_PORT_\d+_(TCP|UDP)(_|$)/.test(variable) ||
    /^(tcp|udp):\/\//.test(text)
  );
}

function fromFile(source: SettingsSource, problems: string[]): Map<string, Given> {
  const given = new Map<string, Given>();
  const wanted = source.configPath ?? (source.env.TRUNKLINE_CONFIG?.trim() || undefined);
  const file = path.resolve(wanted ?? 'trunkline.yaml');
  if (wanted === undefined && !existsSync(file)) return given;
  const shown = path.basename(file);
  let content: string;
  try {
    content = readFileSync(file, 'utf8');
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    problems.push(`${file}: the settings file cannot be read (${code === 'ENOENT' ? 'it does not exist' : code})`);
    return given;
  }
  const lines = new LineCounter();
  const document = parseDocument(content, { lineCounter: lines, prettyErrors: false });
  for (const error of document.errors) {
    problems.push(
      `${shown}, line ${lines.linePos(error.pos[0]).line}: not valid YAML (${error.code.toLowerCase().replaceAll('_', ' ')})`,
    );
  }
  if (document.errors.length > 0 || document.contents === null) return given;
  if (!isMap(document.contents)) {
    problems.push(`${shown}: must be lines of "name: value"`);
    return given;
  }
  const known = settingsList.map((definition) => definition.name);
  for (const { key, value } of document.contents.items) {
    const name = isScalar(key) ? String(key.value) : '?';
    const at = isScalar(key) && key.range ? `, line ${lines.linePos(key.range[0]).line}` : '';
    const place = `${name} in ${shown}${at}`;
    if (!known.some((one) => one === name)) problems.push(unknown(place, name, 'setting', known));
    else {
      const text = textOf(document, value as Node | null);
      if (text === undefined) problems.push(`${place}: must be a single value or a list`);
      else if (text.trim() !== '') given.set(name, { text: text.trim(), place });
    }
  }
  return given;
}

/** The value as written: `0123` and long digit strings must not become other numbers. null and absent values give the empty text. */
function textOf(document: Document, node: Node | null): string | undefined {
  if (node === null) return '';
  if (isScalar(node)) {
    if (node.value === null) return '';
    return typeof node.value === 'string' ? node.value : (node.source ?? String(node.value));
  }
  if (!isSeq(node)) return undefined;
  const items = node.items.map((item) => (isScalar(item) ? textOf(document, item) : undefined));
  return items.every((item) => item !== undefined) ? items.join(',') : undefined;
}

function unknown(place: string, name: string, what: string, known: readonly string[]): string {
  const guess = nearest(name, known, 'TRUNKLINE_');
  return `${place}: no such ${what}${guess ? `; did you mean ${guess}?` : '; "trunkline settings" lists all'}`;
}
